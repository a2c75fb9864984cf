"""Rows that wait for others: in chunks whose sizes fall at least by half, so that a batch does not copy what waits.

Rows that no longer wait may stay in their chunk: who asks for rows says between which positions. They are removed when
they are more than half of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, together
from viewlet.signals.order import rows_since

NEVER = np.iinfo(np.int64).min
SMALL = 1 << 12
"""So many rows may stay that do not wait any more."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits, never changed in place."""

    chunks: tuple[Batch, ...] = ()
    waiting: int = 0
    """How many of the rows still wait; more, if rows were left behind without notice."""

    def __len__(self) -> int:
        return sum(len(chunk) for chunk in self.chunks)

    @classmethod
    def of(cls, batch: Batch) -> Backlog:
        """Some sorted rows."""
        return cls((batch,), len(batch)) if len(batch) else cls()

    def add(self, batch: Batch) -> Backlog:
        """With more rows, which are sorted."""
        if not len(batch):
            return self
        chunks: list[Any] = [*self.chunks, batch]
        while len(chunks) > 1 and len(chunks[-2]) < 2 * len(chunks[-1]):
            newest = chunks.pop()
            chunks[-1] = together([chunks[-1], newest])
        return Backlog(tuple(chunks), self.waiting + len(batch))

    def rows(self, nothing: Batch) -> Batch:
        """All rows, sorted; `nothing` if there are none."""
        found: Batch = together(self.chunks) if self.chunks else nothing
        return found

    def between(self, slots: Array, after: Array, until: Array, nothing: Batch) -> tuple[Batch, Backlog]:
        """The rows of some slots behind a position, up to another one; and the backlog in which these wait no more."""
        parts: list[Batch] = [nothing]
        for chunk in self.chunks:
            first, stop, unused = (np.empty(len(slots), np.int64) for _ in range(3))
            rows_since(chunk.slot, chunk.position, slots, after + 1, first, unused)
            rows_since(chunk.slot, chunk.position, slots, until + 1, stop, unused)
            parts.append(chunk.take(_ranges(first, stop)))
        found: Batch = together(parts)
        return found, replace(self, waiting=self.waiting - len(found))

    def pruned(self, waits: Callable[[Batch], Array]) -> Backlog:
        """Without the rows that do not wait any more, if they are many; `waits` says which do."""
        if len(self) <= 2 * self.waiting + SMALL:
            return self
        chunks = [chunk.take(waits(chunk)) for chunk in self.chunks]
        found = Backlog()
        for chunk in chunks:
            found = found.add(chunk)
        return found

    # -- slots ---------------------------------------------------------------------------------------------------------

    def slots(self) -> Array:
        """The slots of all rows."""
        return np.unique(np.concatenate([chunk.slot for chunk in self.chunks] or [np.zeros(0, np.int64)]))

    def of_slots(self, slots: Array) -> Backlog:
        """A copy of the rows of some slots, in ascending order."""
        found, bounds = Backlog(), np.full(len(slots), NEVER)
        for chunk in self.chunks:
            first, stop = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
            rows_since(chunk.slot, chunk.position, slots, bounds, first, stop)
            found = found.add(chunk.take(_ranges(first, stop)))
        return found

    def without(self, slots: Array) -> Backlog:
        """The rows of other slots."""
        return self._taken(lambda chunk: chunk.take(~np.isin(chunk.slot, slots))) if len(slots) else self

    def renumbered(self, slot: Callable[[Array], Array]) -> Backlog:
        """The same rows with other slots, in the same order."""
        return replace(self, chunks=tuple(replace(chunk, slot=slot(chunk.slot)) for chunk in self.chunks))

    def plus(self, other: Backlog) -> Backlog:
        """The rows of both."""
        found = self
        for chunk in other.chunks:
            found = found.add(chunk)
        return found

    def _taken(self, take: Callable[[Batch], Batch]) -> Backlog:
        chunks = tuple(chunk for chunk in map(take, self.chunks) if len(chunk))
        left = sum(map(len, chunks))
        return Backlog(chunks, self.waiting - (len(self) - left)) if left < len(self) else self


def _ranges(first: Array, stop: Array) -> Array:
    """The numbers from each first up to its stop."""
    count = np.maximum(stop - first, 0)
    found: Array = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
    return found
