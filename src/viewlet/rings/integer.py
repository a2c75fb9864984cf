"""The integers: multiplicities, sums of integers, and (scaled) sums of decimals. Exact under any sequence of
changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntegerRing:
    name: str = "integer"
    width: int = 1
    zero: int = 0
    one: int = 1

    def add(self, left: int, right: int) -> int:
        return left + right

    def mul(self, left: int, right: int) -> int:
        return left * right

    def neg(self, element: int) -> int:
        return -element

    def is_zero(self, element: int) -> bool:
        return element == 0


INTEGER_RING = IntegerRing()
