"""The samples that a view has: batches in the order in which they were added, never changed in place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, together
from viewlet.signals.order import rows_since


@dataclass(frozen=True, slots=True)
class Output:
    """The samples of a view, in chunks whose sizes fall at least by half from one to the next."""

    chunks: tuple[Batch, ...] = ()

    def __len__(self) -> int:
        return sum(len(chunk) for chunk in self.chunks)

    def add(self, batch: Batch) -> Output:
        """With more samples."""
        if not len(batch):
            return self
        chunks = [*self.chunks, batch]
        while len(chunks) > 1 and len(chunks[-2]) < 2 * len(chunks[-1]):
            newest = chunks.pop()
            chunks[-1] = together([chunks[-1], newest])
        return Output(tuple(chunks))

    def split(self, slots: Array, positions: Array) -> tuple[Output, list[Batch]]:
        """Without the samples of some groups that are behind a position, and those samples; slots are in order."""
        kept, gone = list[Any](), list[Any]()
        for chunk in self.chunks:
            first, stop = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
            rows_since(chunk.slot, chunk.position, slots, positions + 1, first, stop)
            if (stop > first).any():
                is_gone = np.zeros(len(chunk), np.bool_)
                for begin, end in zip(first.tolist(), stop.tolist(), strict=True):
                    is_gone[begin:end] = True
                gone.append(chunk.take(is_gone))
                chunk = chunk.take(~is_gone)
            if len(chunk):
                kept.append(chunk)
        return Output(tuple(kept)), gone

    def after(self, position: int) -> tuple[Output, list[Batch]]:
        """Without the samples before a position, and those samples."""
        kept, gone = list[Any](), list[Any]()
        for chunk in self.chunks:
            is_old = chunk.position < position
            if is_old.any():
                gone.append(chunk.take(is_old))
                chunk = chunk.take(~is_old)
            if len(chunk):
                kept.append(chunk)
        return Output(tuple(kept)), gone

    def renumbered(self, slots: Array) -> Output:
        """The same where the groups of some slots, in ascending order, have the slots 0, 1 and so on."""
        return Output(tuple(replace(chunk, slot=np.searchsorted(slots, chunk.slot)) for chunk in self.chunks))
