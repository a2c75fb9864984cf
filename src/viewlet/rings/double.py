"""Sums of doubles without a residue of deleted values: exact dyadic numbers.

Every finite double is an integer times a power of two, and so are sums and products of them. The reference keeps them
exactly, rounding once when a value is read: adding 0.1 a million times and taking it away again leaves exactly nothing,
where a plain double keeps a residue. A compiled engine may hold the same ring as unevaluated pairs of doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

from viewlet.rings.ring import Field, Lift


@dataclass(frozen=True, slots=True)
class Dyadic:
    """mantissa * 2**exponent."""

    mantissa: int
    exponent: int = 0

    @staticmethod
    def of(number: int | float | Dyadic) -> Dyadic:
        """The exact value of a finite number."""
        if isinstance(number, Dyadic):
            return number
        if isinstance(number, int):
            return Dyadic(number)
        numerator, denominator = number.as_integer_ratio()
        return Dyadic(numerator, 1 - denominator.bit_length())

    @property
    def fraction(self) -> Fraction:
        return Fraction(self.mantissa) * Fraction(2) ** self.exponent

    @overload
    def __add__(self, other: int | Dyadic) -> Dyadic: ...

    @overload
    def __add__(self, other: Fraction) -> Fraction: ...

    def __add__(self, other: int | Dyadic | Fraction) -> Dyadic | Fraction:
        if isinstance(other, Fraction):
            return self.fraction + other
        right = Dyadic.of(other)
        exponent = min(self.exponent, right.exponent)
        mantissa = (self.mantissa << (self.exponent - exponent)) + (right.mantissa << (right.exponent - exponent))
        return Dyadic(mantissa, exponent if mantissa else 0)

    __radd__ = __add__

    @overload
    def __mul__(self, other: int | Dyadic) -> Dyadic: ...

    @overload
    def __mul__(self, other: Fraction) -> Fraction: ...

    def __mul__(self, other: int | Dyadic | Fraction) -> Dyadic | Fraction:
        if isinstance(other, Fraction):
            return self.fraction * other
        right = Dyadic.of(other)
        return Dyadic(self.mantissa * right.mantissa, self.exponent + right.exponent)

    __rmul__ = __mul__

    def __neg__(self) -> Dyadic:
        return Dyadic(-self.mantissa, self.exponent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Dyadic):
            return NotImplemented
        return not self + -Dyadic.of(other)

    def __hash__(self) -> int:
        return hash(float(self))

    def __bool__(self) -> bool:
        return self.mantissa != 0

    def __float__(self) -> float:
        """The nearest double; infinite where it is out of range."""
        try:
            if self.exponent >= 0:
                return float(self.mantissa << self.exponent)
            return self.mantissa / (1 << -self.exponent)
        except OverflowError:
            return float("inf") if self.mantissa > 0 else float("-inf")


@dataclass(frozen=True, slots=True)
class DoubleRing:
    """The ring of dyadic numbers: exact sums of the product of `variables`, or counts of rows without them."""

    variables: frozenset[str] = frozenset()
    name: str = "double"
    width: int = 2
    zero: Dyadic = Dyadic(0)
    one: Dyadic = Dyadic(1)

    def add(self, left: Dyadic, right: Dyadic) -> Dyadic:
        return left + right

    def mul(self, left: Dyadic, right: Dyadic) -> Dyadic:
        return left * right

    def neg(self, element: Dyadic) -> Dyadic:
        return -element

    def is_zero(self, element: Dyadic) -> bool:
        return not element

    def lift(self, variables: Sequence[str]) -> Lift[Dyadic]:
        positions = [i for i, variable in enumerate(variables) if variable in self.variables]

        def lifted(values: Sequence[int | float]) -> Dyadic:
            product = self.one
            for i in positions:
                product = product * Dyadic.of(values[i])
            return product

        return lifted

    @property
    def layout(self) -> tuple[Field, ...]:
        return (Field("high", "float"), Field("low", "float"))

    def to_flat(self, element: Dyadic) -> tuple[float, float]:
        """The nearest double and the nearest to what that leaves: about 32 digits."""
        high = float(element)
        return high, float(element + -Dyadic.of(high))

    def from_flat(self, numbers: Sequence[float]) -> Dyadic:
        return Dyadic.of(float(numbers[0])) + Dyadic.of(float(numbers[1]))


DOUBLE_RING = DoubleRing()
