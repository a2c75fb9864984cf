"""The samples that a view has: batches in the order in which they were added, never changed in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, together


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

    def split(self, slots: Array) -> tuple[Output, list[Batch]]:
        """Without the samples of some groups, and those samples."""
        kept, gone = list[Any](), list[Any]()
        for chunk in self.chunks:
            is_gone = np.isin(chunk.slot, slots)
            if is_gone.any():
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
