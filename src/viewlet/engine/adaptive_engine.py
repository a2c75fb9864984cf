"""The engine of adaptive views over triangles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from viewlet.adaptive.state import TriangleState, show_parts
from viewlet.engine.common_neighbours import asked_tuple
from viewlet.engine.join_engine import JoinEngine
from viewlet.types import Datum, SqlType


class AdaptiveEngine(JoinEngine[TriangleState]):
    """Maintains one view over triangles."""

    def common_neighbours(self, ends: Mapping[str, Datum]) -> tuple[Iterable[Datum], SqlType]:
        """The third vertices of an edge, which two columns name, and their type (`TriangleView`)."""
        asked = asked_tuple(self.plan.query, ends)
        found = self.state.closings(asked.relation, asked.first, asked.second)
        return found, self.plan.query.variable_type(asked.third)

    def take_over(self, other: AdaptiveEngine) -> None:
        """Continues, on flat arrays, from what the same view holds on dictionaries."""
        self.state.take_over(other.state.triangles)  # type: ignore[attr-defined]
        self._fill()

    def stats(self) -> dict[str, object]:
        """Sizes of the parts and views, N, the thresholds, and what rebalancing there was."""
        facts = self.state.facts()
        work = facts.work
        return {
            "stored": dict(facts.sizes),
            "threshold_base": facts.base,
            "epsilons": list(facts.epsilons),
            "thresholds": list(facts.thresholds.first),
            **({"second_thresholds": list(facts.thresholds.second)} if self.plan.query.linear else {}),
            "rebalancing": {
                "major": work.major,
                "minor": work.minor,
                "moved": work.moved,
                "steps": work.balancing,
                "longest": work.longest,
            },
            "steps": work.steps,
            **({"bytes": {"all": facts.bytes}} if facts.bytes else {}),
        }

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {"parts": lambda: show_parts(self.plan.query, self.state.facts())}
