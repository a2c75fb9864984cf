"""Whole matrices from others, block by block: what a task computes for the rows of one block.

Operands are read from the checkpoint directory, a block at a time, so that a task holds three blocks at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from viewlet.spark.matrices.block_files import BlockReader
from viewlet.spark.matrices.history import Stored


@dataclass(frozen=True, slots=True)
class ScaledIdentity:
    """Zeros, with a number on the diagonal."""

    columns: int
    diagonal: float

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        found = np.zeros((end - begin, self.columns))
        places = np.arange(begin, min(end, self.columns))
        found[places - begin, places] = self.diagonal
        return found


@dataclass(frozen=True, slots=True)
class Outer:
    """U V' of two thin arrays."""

    left: Any
    right: Any

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        return self.left[begin:end] @ self.right.T


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of numbers times matrices."""

    terms: tuple[tuple[float, Stored], ...]

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        total = None
        for factor, matrix in self.terms:
            part = read.rows(matrix, begin, end)
            part = part * part.dtype.type(factor)
            total = part if total is None else total + part
        return total


@dataclass(frozen=True, slots=True)
class Transposed:
    """P'."""

    matrix: Stored

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        return np.hstack([block[:, begin:end].T for _, _, block in read.blocks(self.matrix)])


@dataclass(frozen=True, slots=True)
class Times:
    """P Q, the sum over the blocks of Q."""

    left: Stored
    right: Stored

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        own = read.rows(self.left, begin, end)
        total = np.zeros((end - begin, self.right.layout.columns), own.dtype)
        for first, last, block in read.blocks(self.right):
            total += own[:, first:last] @ block
        return total


@dataclass(frozen=True, slots=True)
class TimesTransposed:
    """P Q', a block of columns for each block of Q."""

    left: Stored
    right: Stored

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        own = read.rows(self.left, begin, end)
        return np.hstack([own @ block.T for _, _, block in read.blocks(self.right)])


@dataclass(frozen=True, slots=True)
class TransposedTimes:
    """P' Q, the sum over the blocks of both."""

    left: Stored
    right: Stored

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        total = np.zeros((end - begin, self.right.layout.columns), self.right.dtype)
        for first, last, block in read.blocks(self.right):
            total += read.rows(self.left, first, last)[:, begin:end].T @ block
        return total


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Matrices side by side or on top of each other."""

    parts: tuple[Stored, ...]
    vertical: bool

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        if not self.vertical:
            return np.hstack([read.rows(part, begin, end) for part in self.parts])
        found, first = [], 0
        for part in self.parts:
            own = max(begin - first, 0), min(end - first, part.layout.rows)
            if own[0] < own[1]:
                found.append(read.rows(part, *own))
            first += part.layout.rows
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class Resized:
    """A matrix with more rows or columns, which are zeros, or without one of them."""

    matrix: Stored
    axis: int
    count: int
    without: int | None

    def rows(self, read: BlockReader, begin: int, end: int) -> Any:
        if self.axis == 1:
            part = read.rows(self.matrix, begin, end)
            if self.without is not None:
                return np.delete(part, self.without, axis=1)
            return np.pad(part, ((0, 0), (0, self.count - part.shape[1])))
        if self.without is None:
            part = read.rows(self.matrix, min(begin, self.matrix.layout.rows), min(end, self.matrix.layout.rows))
            return np.pad(part, ((0, end - begin - len(part)), (0, 0)))
        before = read.rows(self.matrix, begin, max(begin, min(end, self.without)))
        after = read.rows(self.matrix, max(begin, self.without) + 1, max(end, self.without) + 1)
        return np.concatenate([before, after])


Recipe: TypeAlias = (
    ScaledIdentity | Outer | Linear | Transposed | Times | TimesTransposed | TransposedTimes | Concatenation | Resized
)
