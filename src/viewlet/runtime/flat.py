"""A view in flat arrays: its layout, its growth, and reading it from Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.runtime.probe import ALIVE, FREE, META_WORDS, SIZE, SLICES, rebuild_heads, rebuild_index
from viewlet.runtime.wide import from_words

Words = npt.NDArray[np.int64]
WIDTHS = {"count": 1, "wide": 2, "double": 2}
_FIRST_CAPACITY = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the words of a row are: keys first, then each field, `kinds` being count, wide or double."""

    name: str
    arity: int
    fields: tuple[str, ...]
    kinds: tuple[str, ...]
    slices: tuple[tuple[int, ...], ...] = ()

    def offset(self, field: str) -> int:
        before = self.fields.index(field)
        return self.arity + sum(WIDTHS[kind] for kind in self.kinds[:before])

    def kind(self, field: str) -> str:
        return self.kinds[self.fields.index(field)]

    @property
    def parts(self) -> tuple[str, ...]:
        """The arrays of a store as generated code names them, in the order `probe.enter` relies on."""
        slices = (f"{kind}{j}" for j in range(len(self.slices)) for kind in ("heads", "links"))
        floats = ("floats",) if "double" in self.kinds else ()
        return ("pool", "index", "meta", "live", *slices, *floats) if self.arity else ("pool", *floats)

    @property
    def width(self) -> int:
        return max(1, self.arity + sum(WIDTHS[kind] for kind in self.kinds))


class FlatStore:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.version = 0
        """Grows whenever an array moves."""
        capacity = _FIRST_CAPACITY if layout.arity else 1
        self.pool: Words = np.zeros((capacity, layout.width), np.int64)
        self.live = np.zeros(capacity, np.uint8)
        self.meta: Words = np.zeros(META_WORDS + len(layout.slices) * (layout.arity + 2), np.int64)
        self.index = np.zeros(_index_size(capacity), np.uint64)
        self.heads = [np.zeros(_index_size(capacity), np.uint64) for _ in layout.slices]
        self.links = [np.full((capacity, 3), -1, np.int32) for _ in layout.slices]
        self.clear()

    def clear(self) -> None:
        """Empties the store; its arrays stay where they are."""
        everything: tuple[Any, ...] = (self.pool, self.live, self.meta, self.index, *self.heads)
        for array in everything:
            array.fill(0)
        self.meta[FREE] = -1
        self.meta[SLICES] = len(self.layout.slices)
        for j, positions in enumerate(self.layout.slices):
            at = self._positions_at(j)
            self.meta[at] = len(positions)
            self.meta[at + 1 : at + 1 + len(positions)] = positions
        if not self.layout.arity:
            self.live[0] = 1
            self.meta[SIZE] = self.meta[ALIVE] = 1

    def _positions_at(self, j: int) -> int:
        """Where `meta` tells the positions of slice j."""
        return META_WORDS + len(self.layout.slices) + j * (self.layout.arity + 1)

    def __len__(self) -> int:
        return int(self.meta[ALIVE])

    def array(self, part: str) -> Any:
        """One array by the name generated code gives it."""
        match part.rstrip("0123456789"):
            case "floats":
                return self.pool.view(np.float64)
            case "heads" | "links" as slices:
                return getattr(self, slices)[int(part.removeprefix(slices))]
            case _:
                return getattr(self, part)

    @property
    def room(self) -> int:
        return int(self.pool.shape[0] - self.meta[SIZE])

    def reserve(self, rows: int) -> bool:
        """Makes room for so many new rows; says whether the arrays moved."""
        if not self.layout.arity or self.room >= rows:
            return False
        capacity = max(int(self.meta[SIZE]) + rows, self.pool.shape[0] + self.pool.shape[0] // 2)
        old = self.pool.shape[0]
        self.version += 1
        self.pool = _grown(self.pool, capacity)
        self.live = _grown(self.live, capacity)
        self.links = [_grown(links, capacity) for links in self.links]
        if self.pool.shape[0] != old and self.index.shape[0] < _index_size(capacity):
            self._rebuild(_index_size(capacity))
        return True

    def _rebuild(self, size: int) -> None:
        used = int(self.meta[SIZE])
        self.index = np.zeros(size, np.uint64)
        rebuild_index(self.pool, self.live, used, self.layout.arity, self.index)
        for j in range(len(self.layout.slices)):
            self.heads[j] = np.zeros(size, np.uint64)
            at = self._positions_at(j)
            rebuild_heads(self.pool, self.live, self.meta, j, at, self.heads[j], self.links[j])

    def nbytes(self) -> int:
        arrays: tuple[Any, ...] = (self.pool, self.live, self.index, *self.heads, *self.links)
        return sum(int(array.nbytes) for array in arrays)

    def packed_bytes(self) -> int:
        """Key and payload words of the rows alive, and nothing else."""
        return len(self) * self.layout.width * 8

    def items(self) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """Key words and payload numbers of every row."""
        floats = self.pool.view(np.float64)
        for slot in np.flatnonzero(self.live[: self.meta[SIZE]]):
            row = self.pool[slot]
            yield (
                tuple(int(word) for word in row[: self.layout.arity]),
                tuple(
                    self._number(row, floats[slot], field, kind)
                    for field, kind in zip(self.layout.fields, self.layout.kinds, strict=True)
                ),
            )

    def _number(self, row: Words, floats: Any, field: str, kind: str) -> Any:
        at = self.layout.offset(field)
        if kind == "count":
            return int(row[at])
        return from_words(row[at], row[at + 1]) if kind == "wide" else float(floats[at] + floats[at + 1])


def _index_size(capacity: int) -> int:
    """The power of two that keeps an index at most three quarters full."""
    return 1 << max(4, (capacity * 4 // 3).bit_length())


def _grown(array: Any, capacity: int) -> Any:
    grown = np.zeros((capacity, *array.shape[1:]), array.dtype)
    grown[: array.shape[0]] = array
    return grown
