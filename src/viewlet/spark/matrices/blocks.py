"""A matrix as the driver sees it: its shape and its history. The numbers are on the executors."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from viewlet.linalg.backends.contract import Thin
from viewlet.linalg.values import Units
from viewlet.spark.matrices.change import Put
from viewlet.spark.matrices.history import History, Layout, Stored, new_token


class Owner(Protocol):
    """What reads and changes matrices for their handles."""

    def sweep(
        self, matrix: Any, update: tuple[Thin, Thin] | None, forward: Thin | None, backward: Thin | None
    ) -> tuple[Any, Any]:
        """A pass."""

    def put(self, matrix: Blocks, change: Put) -> None:
        """Replaces entries."""

    def resize(self, matrix: Blocks, axis: int, count: int, without: int | None) -> Blocks:
        """The matrix with more rows or columns, or without one of them."""


class Blocks:
    """A matrix in blocks of rows; indexing reads rows, columns or entries, and puts them."""

    __array_ufunc__ = None
    __iter__ = None

    def __init__(self, owner: Owner, layout: Layout, dtype: Any, history: History, *, is_finite: bool = True) -> None:
        self.owner = owner
        self.name = new_token()
        self.layout = layout
        self.dtype = np.dtype(dtype)
        self.history = history
        self.is_finite = is_finite

    @property
    def stored(self) -> Stored:
        """The version that it has now, as tasks are told of it."""
        return Stored(self.name, self.layout, self.dtype.name, self.history)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.layout.rows, self.layout.columns

    @property
    def nbytes(self) -> int:
        """The bytes of all entries."""
        return self.layout.entries * int(self.dtype.itemsize)

    def __len__(self) -> int:
        return self.layout.rows

    @property
    def T(self) -> FlippedBlocks:  # noqa: N802
        """The transposed matrix, which is not formed before it has to be."""
        return FlippedBlocks(self)

    def resized(self, axis: int, count: int, without: int | None) -> Blocks:
        """The matrix with more rows or columns, which are zeros, or without one of them."""
        return self.owner.resize(self, axis, count, without)

    def __getitem__(self, place: Any) -> Any:
        rows, columns = _sides(place, self.shape)
        found: Any
        if rows is not None:
            _, found = self.owner.sweep(self, None, None, Units(self.shape[0], rows))
            found = found.T
            found = found if columns is None else found[:, columns]
        elif columns is not None:
            found, _ = self.owner.sweep(self, None, Units(self.shape[1], columns), None)
        else:
            found, _ = self.owner.sweep(self, None, Units(self.shape[1], np.arange(self.shape[1])), None)
        return found.reshape(_shape(place, found.shape))

    def __setitem__(self, place: Any, values: Any) -> None:
        if place is Ellipsis and isinstance(values, Blocks):
            self.history = values.history
            return
        rows, columns = _sides(place, self.shape)
        sides = (self.shape[0] if rows is None else len(rows)), (self.shape[1] if columns is None else len(columns))
        given = np.asarray(values, self.dtype)
        given = np.broadcast_to(given if given.ndim == 2 else given.reshape(-1), sides) if given.size == 1 else given
        self.owner.put(self, Put(rows, columns, np.ascontiguousarray(given.reshape(sides))))


class FlippedBlocks:
    """The transpose of a matrix in blocks."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows, columns = self.blocks.shape
        return columns, rows

    @property
    def T(self) -> Blocks:  # noqa: N802
        """The matrix itself."""
        return self.blocks


def _sides(place: Any, shape: tuple[int, int]) -> tuple[Any | None, Any | None]:
    """The rows and columns that an index names; None stands for all."""
    row, column = place if isinstance(place, tuple) else (place, slice(None))
    return _places(row, shape[0]), _places(column, shape[1])


def _places(side: Any, count: int) -> Any | None:
    if isinstance(side, slice):
        return None if side == slice(None) else np.arange(count)[side]
    return np.atleast_1d(np.asarray(side, np.int64)) % count


def _shape(place: Any, found: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that NumPy would give: an axis with a single place is left out."""
    sides = place if isinstance(place, tuple) else (place, slice(None))
    return tuple(size for side, size in zip(sides, found, strict=True) if isinstance(side, slice) or np.ndim(side))
