"""Exact decimals: sums and products of `Decimal` that are never rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from functools import reduce

from viewlet.rings.ring import Lift

DIGITS = 2_000
"""More than any sum of products in reach has; a longer one raises `decimal.Inexact` rather than being rounded."""

_EXACT = Context(prec=DIGITS, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow])


@dataclass(frozen=True, slots=True)
class DecimalRing:
    """The ring of exact decimals: sums of the product of `variables`, or counts of rows without them."""

    variables: frozenset[str] = frozenset()
    name: str = "decimal"
    width: int = 0
    zero: Decimal = Decimal(0)
    one: Decimal = Decimal(1)

    def add(self, left: Decimal, right: Decimal) -> Decimal:
        return _EXACT.add(left, right)

    def mul(self, left: Decimal, right: Decimal) -> Decimal:
        return _EXACT.multiply(left, right)

    def neg(self, element: Decimal) -> Decimal:
        return _EXACT.minus(element)

    def is_zero(self, element: Decimal) -> bool:
        return not element

    def lift(self, variables: Sequence[str]) -> Lift[Decimal]:
        positions = [i for i, variable in enumerate(variables) if variable in self.variables]
        return lambda values: reduce(self.mul, (Decimal(values[i]) for i in positions), self.one)


DECIMAL_RING = DecimalRing()
