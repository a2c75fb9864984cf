"""The back end of whole numbers modulo m: sums and products are exact, however many paths a graph has.

Numbers are kept as doubles from 0 to m - 1. A sum of n products stays below 2^53, or is taken in pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.linalg.backends.contract import Thin
from viewlet.linalg.backends.numpy_backend import Floats, NumpyBackend
from viewlet.linalg.errors import MatrixDataError, ProgramError
from viewlet.linalg.values import Units, checked_matrix
from viewlet.visible import described

LARGEST = 1 << 26
"""The largest modulus: the product of two numbers is exact."""
PRIME = 1_048_573
"""The largest prime below 2^20: sums of 8,192 products are exact."""


class ModularBackend(NumpyBackend):
    """Arrays of whole numbers modulo m, a prime by default.

    A count that is not zero modulo m is not zero; one that is zero may be a multiple of m.
    """

    name = "modular"
    is_exact = True
    factors = False

    def __init__(self, modulus: int = PRIME) -> None:
        if isinstance(modulus, bool) or not isinstance(modulus, int) or not 2 <= modulus <= LARGEST:
            raise ProgramError(f"a modulus is a whole number from 2 to {LARGEST}, not {described(modulus)}")
        super().__init__(np.float64)
        self.modulus = modulus
        self._terms = max(1, (1 << 53) // (modulus * modulus))
        """Products that can be added without rounding."""

    def checked(self, value: Any, name: str) -> Floats:
        """A matrix of whole numbers."""
        return self._whole(checked_matrix(value, name, self.dtype, (None, None)), name)

    def thin(self, factor: Any) -> Thin:
        """A factor of whole numbers."""
        return factor if isinstance(factor, Units) else self._whole(factor, "a factor of an update")

    def array(self, data: Any, *, copy: bool) -> Floats:
        """A matrix of numbers from 0 to m - 1."""
        found: Floats = np.remainder(super().array(data, copy=True), self.modulus)
        return found

    def multiply(self, left: Thin, right: Thin) -> Floats:
        """The product, in pieces that are exact."""
        if isinstance(right, Units):
            return super().multiply(left, right)
        first, right = self.dense(left), self.dense(right)
        total = np.zeros((first.shape[0], right.shape[1]), self.dtype)
        for begin in range(0, first.shape[1], self._terms):
            end = begin + self._terms
            total = np.remainder(
                total + np.remainder(first[:, begin:end] @ right[begin:end], self.modulus), self.modulus
            )
        return total

    def add_product(self, matrix: Floats, left: Floats, right: Floats) -> None:
        """P += U V'."""
        matrix += self.multiply(left, right.T)

    def _update(self, matrix: Floats, left: Thin, right: Thin) -> None:
        super()._update(matrix, left, right)
        np.remainder(matrix, self.modulus, out=matrix)

    def combine(self, terms: Sequence[tuple[float, Thin]]) -> Floats:
        """The sum of whole numbers times arrays."""
        total = np.zeros(terms[0][1].shape, self.dtype)
        for factor, part in terms:
            if factor != math.floor(factor):
                raise MatrixDataError(
                    f"{factor} is not a whole number: a program modulo {self.modulus} has no fractions"
                )
            total = np.remainder(total + np.remainder(factor, self.modulus) * self.dense(part), self.modulus)
        return total

    def invert(self, array: Floats) -> Floats:
        """Inverses are refused."""
        raise ProgramError(f"a program modulo {self.modulus} has no inverses")

    def symmetrise(self, array: Floats) -> None:
        """Exact results are symmetric already."""

    def _whole(self, values: Any, name: str) -> Floats:
        found: Floats = np.asarray(values, self.dtype)
        if not (found == np.floor(found)).all():
            raise MatrixDataError(f"{name} has numbers that are not whole: a program modulo {self.modulus} needs those")
        return np.remainder(found, self.modulus)
