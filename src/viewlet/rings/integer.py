"""The integers: multiplicities, sums of integers, and (scaled) sums of decimals. Exact under any sequence of
changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from viewlet.rings.ring import Field, Lift


@dataclass(frozen=True, slots=True)
class IntegerRing:
    """The ring of integers: sums of the product of `variables`, or counts of rows without them."""

    variables: frozenset[str] = frozenset()
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

    def lift(self, variables: Sequence[str]) -> Lift[int]:
        positions = [i for i, variable in enumerate(variables) if variable in self.variables]
        return lambda values: prod(values[i] for i in positions)

    @property
    def layout(self) -> tuple[Field, ...]:
        return (Field("sum", "integer"),)

    def to_flat(self, element: int) -> tuple[int, ...]:
        return (element,)

    def from_flat(self, numbers: Sequence[int]) -> int:
        return int(numbers[0])


INTEGER_RING = IntegerRing()
