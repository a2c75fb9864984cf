"""Floating-point sums that forget what was deleted: numbers as unevaluated pairs of doubles.

A `DoubleDouble` is hi + lo with |lo| at most half a unit in the last place of hi, about 32 significant digits. Adding 0.1
a million times and taking it away again leaves nothing a user can see, where a plain double would keep a residue. The
error-free transformations are Knuth's two-sum and Dekker's split product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_SPLIT = 134217729.0  # 2**27 + 1: splits a double into two halves of 26 bits
_SPLIT_LIMIT = 2.0**996  # above this, splitting would overflow


@dataclass(frozen=True, slots=True)
class DoubleDouble:
    hi: float
    lo: float = 0.0

    @staticmethod
    def of(number: int | float | DoubleDouble) -> DoubleDouble:
        if isinstance(number, DoubleDouble):
            return number
        if isinstance(number, int):
            hi = float(number)
            return DoubleDouble(hi, float(number - int(hi)))
        return DoubleDouble(number)

    def __add__(self, other: int | DoubleDouble) -> DoubleDouble:
        right = DoubleDouble.of(other)
        high, error = _two_sum(self.hi, right.hi)
        low, low_error = _two_sum(self.lo, right.lo)
        high, error = _quick_two_sum(high, error + low)
        return DoubleDouble(*_quick_two_sum(high, error + low_error))

    __radd__ = __add__

    def __mul__(self, other: int | DoubleDouble) -> DoubleDouble:
        right = DoubleDouble.of(other)
        high, error = _two_product(self.hi, right.hi)
        return DoubleDouble(*_quick_two_sum(high, error + (self.hi * right.lo + self.lo * right.hi)))

    __rmul__ = __mul__

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.hi, -self.lo)

    def __bool__(self) -> bool:
        return self.hi != 0.0 or self.lo != 0.0

    def __float__(self) -> float:
        return self.hi + self.lo


def _two_sum(a: float, b: float) -> tuple[float, float]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _quick_two_sum(a: float, b: float) -> tuple[float, float]:
    total = a + b
    return total, b - (total - a)


def _two_product(a: float, b: float) -> tuple[float, float]:
    product = a * b
    if abs(a) > _SPLIT_LIMIT or abs(b) > _SPLIT_LIMIT or not math.isfinite(product):
        return product, 0.0
    a_high = _SPLIT * a - (_SPLIT * a - a)
    b_high = _SPLIT * b - (_SPLIT * b - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@dataclass(frozen=True, slots=True)
class DoubleRing:
    name: str = "double"
    width: int = 2
    zero: DoubleDouble = DoubleDouble(0.0)
    one: DoubleDouble = DoubleDouble(1.0)

    def add(self, left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
        return left + right

    def mul(self, left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
        return left * right

    def neg(self, element: DoubleDouble) -> DoubleDouble:
        return -element

    def is_zero(self, element: DoubleDouble) -> bool:
        return not element


DOUBLE_RING = DoubleRing()
