"""The ids of committed batches by source, stored as ranges: consecutive ids take constant space."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BatchMark:
    """The id that a source gave a batch; a repeated batch has the same id."""

    source: str
    id: int


@dataclass(frozen=True, slots=True)
class BatchIds:
    """Sets of integers by source, as ordered ranges with gaps between them.

    >>> ids = BatchIds().adding(BatchMark("feed", 1)).adding(BatchMark("feed", 2)).adding(BatchMark("feed", 7))
    >>> ids.ranges, BatchMark("feed", 2) in ids, BatchMark("feed", 3) in ids
    ({'feed': ((1, 2), (7, 7))}, True, False)
    """

    ranges: Mapping[str, Ranges] = field(default_factory=dict)

    def __contains__(self, mark: BatchMark) -> bool:
        known = self.ranges.get(mark.source, ())
        at = bisect_right(known, mark.id, key=lambda each: each[0]) - 1
        return at >= 0 and mark.id <= known[at][1]

    def adding(self, mark: BatchMark) -> BatchIds:
        """These ids with one more."""
        known = self.ranges.get(mark.source, ())
        at = bisect_right(known, mark.id, key=lambda each: each[0])
        before, after, new = known[:at], known[at:], (mark.id, mark.id)
        if before and before[-1][1] >= mark.id - 1:
            new = (before[-1][0], max(before[-1][1], mark.id))
            before = before[:-1]
        if after and after[0][0] == mark.id + 1:
            new = (new[0], after[0][1])
            after = after[1:]
        return BatchIds({**self.ranges, mark.source: (*before, new, *after)})
