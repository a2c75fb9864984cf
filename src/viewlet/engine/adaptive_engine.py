"""The engine of adaptive views: a state of triangles, and the rest of the query over its groups.

    changes of tables ──► relations of the triangle ──► groups ──► table of groups ──► the rest of the query

The rest runs on the interpreter: it sees as many rows as there are groups that changed. Both share an undo log of the
engine's own, which begins with the first change of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from viewlet.adaptive.plan import AdaptivePlan
from viewlet.adaptive.state import TriangleState, show_parts
from viewlet.changes import Change
from viewlet.engine.common_neighbours import asked_tuple
from viewlet.engine.triangle_result import TriangleResult
from viewlet.triggers.program import text_digest
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum, Row, SqlType


class AdaptiveEngine:
    """Maintains one view over triangles."""

    def __init__(self, plan: AdaptivePlan, triangles: TriangleState, sources: Sources, log: UndoLog) -> None:
        self.plan = plan
        self.triangles = triangles
        self._sources = sources
        self._log = log
        self._rest = TriangleResult(plan, log)
        self._fill()

    @property
    def name(self) -> str:
        return self.triangles.engine_name

    @property
    def digest(self) -> str:
        return text_digest(self.plan.digest)

    # -- filling ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Fills the view from the rows that its sources keep."""
        self.triangles.load(
            [
                (reader, self._sources.stores[table].change())
                for table, readers in self.plan.readers.items()
                for reader in readers
            ]
        )
        self._fill()

    def _fill(self) -> None:
        self._rest.fill(self.triangles.groups())

    # -- batches ----------------------------------------------------------------------------------------------------

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        return self.triangles.columns_used(table)

    def apply(self, table: str, change: Change) -> None:
        if not self._log.active:
            self._log.begin()
        for reader in self.plan.readers[table]:
            self.triangles.apply(reader, change)

    def finish(self) -> Mapping[Row, int]:
        return self._rest.fold(self.triangles.changes())

    def commit(self) -> None:
        self._log.commit()
        self.triangles.commit()

    def rollback(self) -> None:
        self._log.rollback()
        self.triangles.rollback()

    # -- reading and saving -----------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        return self._rest.result()

    def common_neighbours(self, ends: Mapping[str, Datum]) -> tuple[Iterable[Datum], SqlType]:
        """The third vertices of an edge, which two columns name, and their type (`TriangleView`)."""
        asked = asked_tuple(self.plan.query, ends)
        found = self.triangles.closings(asked.relation, asked.first, asked.second)
        return found, self.plan.query.variable_type(asked.third)

    def watch(self) -> bool:
        return True

    def save(self, writer: StateWriter) -> dict[str, object]:
        return self.triangles.save(writer)

    def take_over(self, other: AdaptiveEngine) -> None:
        """Continues, on flat arrays, from what the same view holds on dictionaries."""
        self.triangles.take_over(other.triangles.triangles)  # type: ignore[attr-defined]
        self._fill()

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.triangles.resume(layout, reader)
        self._fill()
        return True

    def stats(self) -> dict[str, object]:
        """Sizes of the parts and views, N, the thresholds, and what rebalancing there was."""
        facts = self.triangles.facts()
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
        return {"parts": lambda: show_parts(self.plan.query, self.triangles.facts())}
