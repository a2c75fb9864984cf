"""Sums of products X'Y that lose nothing when rows are taken back: pairs of doubles, from slices of 21 bits.

    X / c = S₁ + S₂ + S₃ + S₄      c is a power of two for every column, and Sₖ has multiples of 2^(-21 k)
    X'X   = Σ Sᵢ'Sⱼ c c'           a product of slices of at most 512 rows has no rounding: 42 bits, and sums of 2,048

Slices with the same i + j are one product of matrices (Ozaki, Ogita, Oishi and Rump, *Error-free transformations of
matrix multiplication*). A number that is 10¹⁰ times the others, and its removal, leave twelve digits of those.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BITS, SLICES, ROWS = 21, 4, 512
DEEPEST = 5
"""The last sum i + j that a pair of doubles has room for."""


class ProductSum:
    """The products of the first columns of some rows with all columns, summed over the rows."""

    def __init__(self, high: Floats, low: Floats | None = None) -> None:
        self.high = high
        self._low = np.zeros_like(high) if low is None else low
        """What is left of the sum beside `high`."""

    def plus(self, rows: Floats, sign: float) -> ProductSum:
        """The sum with more rows, or with a negative sign without them."""
        found = ProductSum(self.high, self._low)
        for first in range(0, len(rows), ROWS):
            found._add(rows[first : first + ROWS], sign)
        return found

    def times(self, factor: float) -> ProductSum:
        """The sum multiplied by a number."""
        return ProductSum(self.high * factor, self._low * factor)

    def _add(self, rows: Floats, sign: float) -> None:
        count = len(self.high)
        slices, exponents = _slices(rows)
        scales = sign * np.ldexp(1.0, exponents[:count])[:, None], np.ldexp(1.0, exponents)
        for level in range(min(2 * len(slices) - 2, DEEPEST), -1, -1):
            places = range(max(0, level - len(slices) + 1), min(level, len(slices) - 1) + 1)
            left = np.concatenate([slices[i][:, :count] for i in places])
            right = np.concatenate([slices[level - i] for i in places])
            self._accumulate((left.T @ right) * scales[0] * scales[1])

    def _accumulate(self, change: Floats) -> None:
        total = self.high + change
        part = total - self.high
        low = self._low + ((self.high - (total - part)) + (change - part))
        self.high = total + low
        self._low = low - (self.high - total)


def _slices(values: Floats) -> tuple[list[Floats], npt.NDArray[np.int32]]:
    """The slices of an array that are not zero, and the exponents of its columns."""
    _, exponents = np.frexp(np.abs(values).max(axis=0, initial=0.0))
    rest, found = np.ldexp(values, -exponents), list[Floats]()
    while rest.any() and len(found) < SLICES:
        grid = 2.0 ** (BITS * (len(found) + 1))
        found.append(np.rint(rest * grid) / grid)
        rest = rest - found[-1]
    return found, exponents
