"""A stored matrix that stays sparse: SciPy's compressed rows while few entries are not zero, an array afterwards.

A pass over it takes time in the number of its entries, and so does a change of rows, columns or entries.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from viewlet.linalg.errors import MatrixDataError
from viewlet.linalg.values import Units, dense

DENSEST = 0.125
"""The share of entries that are not zero from which on the matrix is an array."""


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse matrix of SciPy."""
    return callable(getattr(value, "tocsr", None))


def checked_sparse(value: Any, name: str, dtype: Any) -> Any:
    """A sparse matrix of finite numbers, in compressed rows."""
    from scipy.sparse import csr_array

    found = csr_array(value, dtype=dtype)
    if not np.isfinite(found.data).all():
        raise MatrixDataError(f"{name} has numbers that are not finite: only finite numbers are accepted")
    return found


class SparseMatrix:
    """A matrix of a run; `value` is a sparse or a dense array of the same numbers."""

    __array_ufunc__ = None
    __iter__ = None

    def __init__(self, value: Any) -> None:
        self.value = value
        self._settle()

    def _settle(self) -> None:
        if is_sparse(self.value) and self.value.nnz > DENSEST * max(1, self.value.shape[0] * self.value.shape[1]):
            self.value = self.value.toarray()

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows, columns = self.value.shape
        return int(rows), int(columns)

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return self.value.dtype

    @property
    def density(self) -> float:
        """The share of entries that are stored."""
        rows, columns = self.shape
        return float(self.value.nnz / max(1, rows * columns)) if is_sparse(self.value) else 1.0

    @property
    def T(self) -> Any:  # noqa: N802
        """The transposed array."""
        return self.value.T

    def __len__(self) -> int:
        return self.shape[0]

    def copy(self) -> SparseMatrix:
        """The same numbers in memory of their own."""
        return SparseMatrix(self.value.copy())

    def toarray(self) -> Any:
        """The numbers as an array of NumPy."""
        return self.value.toarray() if is_sparse(self.value) else self.value

    def resized(self, axis: int, count: int, without: int | None) -> SparseMatrix:
        """Another number of rows or columns: zeros that come, or one that goes."""
        if without is not None:
            kept = np.delete(np.arange(self.shape[axis]), without)
            return SparseMatrix(self.value[kept] if axis == 0 else self.value[:, kept])
        sides = (count, self.shape[1]) if axis == 0 else (self.shape[0], count)
        if is_sparse(self.value):
            found = self.value.copy()
            found.resize(sides)
            return SparseMatrix(found)
        room = np.zeros(sides, self.dtype)
        room[: self.shape[0], : self.shape[1]] = self.value
        return SparseMatrix(room)

    def add(self, left: Any, right: Any) -> None:
        """P += U V'; factors are arrays or unit vectors."""
        if not is_sparse(self.value):
            self.value += dense(left) @ dense(right).T
            return
        self.value = (self.value + _sparse(left, self.dtype) @ _sparse(right, self.dtype).T).tocsr()
        self._settle()

    def __getitem__(self, place: Any) -> Any:
        found = self.value[place]
        return found.toarray() if is_sparse(found) else found

    def __setitem__(self, place: Any, values: Any) -> None:
        if isinstance(values, SparseMatrix):
            self.value = values.value.copy()
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy warns that a change of compressed rows is not constant time
            self.value[place] = values
        if is_sparse(self.value):
            self.value.eliminate_zeros()
        self._settle()


def _sparse(factor: Any, dtype: Any) -> Any:
    from scipy.sparse import csr_array

    if isinstance(factor, Units):
        columns = np.arange(len(factor.places))
        return csr_array((np.ones(len(columns), dtype), (factor.places, columns)), shape=factor.shape)
    return csr_array(factor)
