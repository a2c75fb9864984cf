"""Dead-code elimination: steps whose results are not used (thesis, section 5.3.2).

A view is used after the batch, unless a later step replaces it before anything reads it. A temporary is used only by
the steps that read it. When two triggers of one batch recompute the same view, the first computation is dead, and so
are the transfers made for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from viewlet.spark.plan.program import Footprint, Name


def live(steps: Sequence[Footprint[Name]], temporaries: Collection[Name]) -> list[int]:
    """Positions of the steps that matter."""
    kept: list[int] = []
    unseen = set(temporaries)
    for i in reversed(range(len(steps))):
        step = steps[i]
        if not step.writes <= unseen:
            unseen |= step.replaces - step.reads
            unseen -= step.reads
            kept.append(i)
    return kept[::-1]
