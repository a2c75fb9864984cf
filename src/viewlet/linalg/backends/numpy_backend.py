"""The back end on NumPy: products by BLAS, updates in place."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.linalg.backends.cholesky_inverse import CholeskyInverse
from viewlet.linalg.backends.contract import Progress, Recorder, Thin
from viewlet.linalg.backends.sparse_matrix import SparseMatrix, checked_sparse, is_sparse
from viewlet.linalg.machine import Machine, this_processor
from viewlet.linalg.values import Units, checked_matrix, dense, frobenius

Floats = npt.NDArray[Any]

BLOCK = 1 << 20
"""Entries of the product U V' that are formed at a time where an update is not done by a compiled kernel."""


class NumpyBackend:
    """Arrays of NumPy in row order."""

    name = "numpy"
    recorder: Recorder | None = None
    is_exact = False
    is_durable = False
    factors = find_spec("scipy") is not None
    progress: Progress | None = None
    """Nothing outlives the process."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)

    def machine(self) -> Machine:
        """The rates of this machine, measured once."""
        return this_processor(self.name, self.dtype, self.sweep)

    def checked(self, value: Any, name: str) -> Any:
        """A matrix of finite numbers; a sparse matrix of SciPy stays sparse."""
        if is_sparse(value):
            return checked_sparse(value, name, self.dtype)
        return checked_matrix(value, name, self.dtype, (None, None))

    def is_native(self, value: Any) -> bool:
        """Everything is converted by NumPy."""
        return False

    def index(self, units: Units) -> Any:
        """The places of unit vectors; a single one is a slice, which copies nothing."""
        if len(units.places) == 1:
            return slice(int(units.places[0]), int(units.places[0]) + 1)
        return units.places

    def thin(self, factor: Any) -> Thin:
        """The factor itself."""
        return factor

    def array(self, data: Any, *, copy: bool) -> Any:
        """A matrix in row order, copied if asked for or if it has to be."""
        if isinstance(data, SparseMatrix | CholeskyInverse):
            return data
        if is_sparse(data):
            return SparseMatrix(data.tocsr(copy=True))
        found = np.ascontiguousarray(data, dtype=self.dtype)
        return found.copy() if copy and np.shares_memory(found, data) else found

    def numpy(self, array: Any) -> Floats:
        """The array itself; of a sparse matrix or a factor, one of all entries."""
        is_whole = not isinstance(array, SparseMatrix | CholeskyInverse) and not is_sparse(array)
        found: Floats = array if is_whole else array.toarray()
        return found

    def sweep(
        self, matrix: Any, update: tuple[Thin, Thin] | None, forward: Thin | None, backward: Thin | None
    ) -> tuple[Floats | None, Floats | None]:
        """P X and P' Y with the old P, then P += U V'; unit vectors touch the rows or columns that they name alone."""
        ahead = None if forward is None else self.multiply(matrix, forward)
        behind = None if backward is None else self.multiply(matrix.T, backward)
        if update is not None:
            self._update(matrix, *update)
        return ahead, behind

    def _update(self, matrix: Any, left: Thin, right: Thin) -> None:
        if isinstance(matrix, CholeskyInverse):
            matrix.follow(self.dense(left), self.dense(right))
        elif isinstance(matrix, SparseMatrix):
            matrix.add(left, right)
        elif isinstance(left, Units):
            matrix[self.index(left)] += self.dense(right).T
        elif isinstance(right, Units):
            matrix[:, self.index(right)] += left
        else:
            self.add_product(matrix, left, right)

    def add_product(self, matrix: Floats, left: Floats, right: Floats) -> None:
        """P += U V', a block of rows at a time, so that no second matrix of this size is made."""
        rows = max(1, BLOCK // max(1, matrix.shape[1]))
        for first in range(0, len(matrix), rows):
            matrix[first : first + rows] += left[first : first + rows] @ right.T

    def multiply(self, left: Thin, right: Thin) -> Floats:
        """The product; with unit vectors it reads columns or rows."""
        if isinstance(left, CholeskyInverse):
            return left @ self.dense(right)
        if isinstance(right, CholeskyInverse):
            return (right @ self.dense(left).T).T
        first = self._operand(self.dense(left) if isinstance(left, Units) else left)
        second = self._operand(right)
        found = first[:, second.places] if isinstance(second, Units) else first @ second
        return np.asarray(found.toarray() if is_sparse(found) else found)

    def _operand(self, value: Any) -> Any:
        """A factor that can be multiplied: an array, a sparse one, or on the right unit vectors."""
        return value.value if isinstance(value, SparseMatrix) else value

    def dense(self, factor: Thin) -> Floats:
        """A factor as an array."""
        if isinstance(factor, Units):
            return dense(factor, lambda shape: np.zeros(shape, self.dtype))
        return self.numpy(factor)

    def combine(self, terms: Sequence[tuple[float, Thin]]) -> Any:
        """The sum of numbers times arrays."""
        (factor, first), *rest = terms
        if isinstance(first, CholeskyInverse) and not rest and (scaled := first.scaled(factor)) is not None:
            return scaled
        total: Floats = self.dense(first) * self.dtype.type(factor)
        for factor, part in rest:
            total += self.dense(part) if factor == 1.0 else self.dense(part) * self.dtype.type(factor)
        return total

    def stack(self, parts: Sequence[Thin], *, vertical: bool) -> Floats:
        """Arrays side by side or on top of each other."""
        return np.concatenate([self.dense(part) for part in parts], axis=0 if vertical else 1)

    def identity(self, size: int) -> Floats:
        """The identity matrix."""
        return np.eye(size, dtype=self.dtype)

    def zeros(self, rows: int, columns: int) -> Floats:
        """A matrix of zeros."""
        return np.zeros((rows, columns), self.dtype)

    def invert(self, array: Floats) -> Floats:
        """The inverse by LAPACK."""
        return np.linalg.inv(self.numpy(array))

    def strengths(self, array: Floats) -> tuple[float, float]:
        """The largest and the smallest singular value of a small matrix."""
        if not array.size:
            return 1.0, 1.0
        if not np.isfinite(array).all():
            return np.inf, 0.0
        found = np.linalg.svd(array, compute_uv=False)
        return float(found[0]), float(found[-1])

    def symmetrise(self, array: Floats) -> None:
        """(P + P') / 2, a block of rows at a time."""
        rows = max(1, BLOCK // max(1, len(array)))
        for first in range(0, len(array), rows):
            last = first + rows
            array[first:last, first:] += array[first:, first:last].T
            array[first:last, first:] *= 0.5
            array[last:, first:last] = array[first:last, last:].T

    def norm(self, array: Any) -> float:
        """The Frobenius norm."""
        return frobenius(self.numpy(array))

    def copy(self, array: Any) -> Any:
        """A copy in row order."""
        if isinstance(array, SparseMatrix):
            return array.copy()
        if is_sparse(array):
            return SparseMatrix(array.tocsr(copy=True))
        if isinstance(array, CholeskyInverse):
            return array.toarray()
        return np.array(array, order="C")

    def is_finite(self, array: Floats) -> bool:
        """Whether all numbers are finite."""
        return bool(np.isfinite(self.numpy(array)).all())

    def commit(self, progress: Progress) -> None:
        """Nothing outlives the process."""
