"""The engine of adaptive views over joins of four tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viewlet.adaptive.split_state import SplitState, show_split_parts
from viewlet.engine.join_engine import JoinEngine


class SplitEngine(JoinEngine[SplitState]):
    """Maintains one view over a join of four tables."""

    def stats(self) -> dict[str, object]:
        """Sizes of the parts and views, N, the threshold, and what rebalancing there was."""
        divided, work = self.state.join.divided, self.state.join.work
        return {
            "stored": dict(self.state.sizes()),
            "threshold_base": divided.base,
            "thresholds": [divided.threshold],
            "rebalancing": {
                "major": work.major,
                "minor": work.minor,
                "moved": work.moved,
                "steps": work.balancing,
                "longest": work.longest,
            },
            "steps": work.steps,
        }

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {"parts": lambda: show_split_parts(self.state)}
