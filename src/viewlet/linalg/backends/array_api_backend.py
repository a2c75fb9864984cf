"""The back end on the array API standard: any library that has it, such as CuPy, with updates in blocks of rows.

    run = program.start(A=a, backend=linalg.ArrayApiBackend(cupy))

Only functions of the standard are used. Arrays have to be mutable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.linalg.backends.contract import Progress, Recorder, Thin
from viewlet.linalg.errors import MatrixDataError, ProgramError
from viewlet.linalg.inputs import number_type
from viewlet.linalg.machine import NOMINAL, Machine, fastest
from viewlet.linalg.values import Units, checked_matrix
from viewlet.visible import described

BLOCK = 1 << 22
"""Entries of the product U V' that are formed at a time."""
SIZE = 512
"""Of the matrices whose product is measured."""


class ArrayApiBackend:
    """Arrays of a library that follows the standard, given as its namespace."""

    name = "array API"
    recorder: Recorder | None = None
    is_exact = False
    factors = False
    is_durable = False
    progress: Progress | None = None
    """Nothing outlives the process."""

    def __init__(self, namespace: Any, dtype: Any = np.float64) -> None:
        self._xp = namespace
        self.dtype = number_type(dtype)
        self._kind = getattr(namespace, self.dtype.name, None)
        if self._kind is None:
            raise ProgramError(f"{described(namespace)} is no namespace of arrays that has the type {self.dtype}")
        self._machine: Machine | None = None

    def machine(self) -> Machine:
        """The rates of a product of matrices and of an addition."""
        if self._machine is None:
            left = self._xp.ones((SIZE, SIZE), dtype=self._kind)
            product = fastest(lambda: float((left @ left)[0, 0]))
            traffic = fastest(lambda: float((left + left)[0, 0]))
            moved = 2 * SIZE * SIZE * self.dtype.itemsize
            self._machine = Machine(SIZE**3 / product, moved / traffic, NOMINAL.step, self.dtype.itemsize)
        return self._machine

    def checked(self, value: Any, name: str) -> Any:
        """A matrix of finite numbers: an array of the library stays where it is."""
        if not self.is_native(value):
            return checked_matrix(value, name, self.dtype, (None, None))
        value = self._xp.reshape(value, (-1, 1)) if value.ndim < 2 else value
        if value.ndim != 2 or not self._xp.isdtype(value.dtype, "real floating"):
            raise MatrixDataError(f"{name} is a matrix of real numbers, not {value.ndim} axes of {value.dtype}")
        if not self.is_finite(value):
            raise MatrixDataError(f"{name} has numbers that are not finite")
        return value

    def is_native(self, value: Any) -> bool:
        """Whether a value is an array of the standard that is not NumPy's, which is checked more closely."""
        return hasattr(value, "__array_namespace__") and not isinstance(value, np.ndarray)

    def index(self, units: Units) -> Any:
        """The range of the places: the standard assigns to slices only."""
        return slice(int(units.places.min()), int(units.places.max()) + 1)

    def thin(self, factor: Any) -> Thin:
        """A factor as an array of the library."""
        return factor if isinstance(factor, Units) else self.array(factor, copy=False)

    def array(self, data: Any, *, copy: bool) -> Any:
        """An array of the library."""
        return self._xp.asarray(data, dtype=self._kind, copy=True if copy else None)

    def numpy(self, array: Any) -> Any:
        """The numbers as an array of NumPy."""
        return np.asarray(array)

    def sweep(
        self, matrix: Any, update: tuple[Thin, Thin] | None, forward: Thin | None, backward: Thin | None
    ) -> tuple[Any, Any]:
        """P X and P' Y with the old P, then P += U V', a block of rows at a time."""
        ahead = None if forward is None else self.multiply(matrix, forward)
        behind = None if backward is None else self.multiply(matrix.T, backward)
        if update is not None:
            self._update(matrix, *update)
        return ahead, behind

    def _update(self, matrix: Any, left: Thin, right: Thin) -> None:
        if isinstance(left, Units):
            other = self._dense(right)
            for place, row in enumerate(left.places.tolist()):
                matrix[row : row + 1, :] += other[:, place : place + 1].T
            return
        if isinstance(right, Units):
            for place, column in enumerate(right.places.tolist()):
                matrix[:, column : column + 1] += left[:, place : place + 1]
            return
        rows = max(1, BLOCK // max(1, matrix.shape[1]))
        for first in range(0, matrix.shape[0], rows):
            last = min(first + rows, matrix.shape[0])
            matrix[first:last, :] += left[first:last, :] @ right.T

    def _dense(self, factor: Thin) -> Any:
        if not isinstance(factor, Units):
            return factor
        found = self.zeros(*factor.shape)
        for place, row in enumerate(factor.places.tolist()):
            found[row, place] = 1.0
        return found

    def multiply(self, left: Thin, right: Thin) -> Any:
        """The product; with unit vectors it reads columns."""
        if isinstance(right, Units):
            return self._xp.take(self._dense(left), self._xp.asarray(right.places), axis=1)
        return self._dense(left) @ right

    def combine(self, terms: Sequence[tuple[float, Thin]]) -> Any:
        """The sum of numbers times arrays."""
        (factor, first), *rest = terms
        total = self._dense(first) * factor
        for factor, part in rest:
            total = total + self._dense(part) * factor
        return total

    def stack(self, parts: Sequence[Thin], *, vertical: bool) -> Any:
        """Arrays side by side or on top of each other."""
        return self._xp.concat([self._dense(part) for part in parts], axis=0 if vertical else 1)

    def identity(self, size: int) -> Any:
        """The identity matrix."""
        return self._xp.eye(size, dtype=self._kind)

    def zeros(self, rows: int, columns: int) -> Any:
        """A matrix of zeros."""
        return self._xp.zeros((rows, columns), dtype=self._kind)

    def invert(self, array: Any) -> Any:
        """The inverse; a library that gives no error for a singular matrix gives numbers that are not finite."""
        found = self._xp.linalg.inv(array)
        if not self.is_finite(found):
            raise np.linalg.LinAlgError("singular matrix")
        return found

    def strengths(self, array: Any) -> tuple[float, float]:
        """The largest and the smallest singular value of a small matrix."""
        if not self.is_finite(array):
            return float("inf"), 0.0
        found = self._xp.linalg.svdvals(array)
        return float(found[0]), float(found[-1])

    def symmetrise(self, array: Any) -> None:
        """(P + P') / 2."""
        array[:, :] = (array + array.T) / 2

    def norm(self, array: Any) -> float:
        """The Frobenius norm."""
        return float(self._xp.sqrt(self._xp.sum(array * array)))

    def copy(self, array: Any) -> Any:
        """The numbers in memory of their own."""
        return self._xp.asarray(array, copy=True)

    def is_finite(self, array: Any) -> bool:
        """Whether all numbers are finite."""
        return bool(self._xp.all(self._xp.isfinite(array)))

    def commit(self, progress: Progress) -> None:
        """Nothing outlives the process."""
