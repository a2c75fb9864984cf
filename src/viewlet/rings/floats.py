"""Plain doubles: fast, and rounded at every step.

Deletes leave a rounding residue in this ring, but not in `DOUBLE_RING`. Use this ring where values are replaced rather
than deleted (matrices), or where they are integers anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from viewlet.rings.ring import Field, Lift, bounded, largest


@dataclass(frozen=True, slots=True)
class FloatRing:
    """The ring of doubles: rounded sums of the product of `variables`, or counts of rows without them."""

    variables: frozenset[str] = frozenset()
    name: str = "float"
    width: int = 1
    zero: float = 0.0
    one: float = 1.0

    def add(self, left: float, right: float) -> float:
        return left + right

    def mul(self, left: float, right: float) -> float:
        return left * right

    def neg(self, element: float) -> float:
        return -element

    def is_zero(self, element: float) -> bool:
        return element == 0.0

    def lift(self, variables: Sequence[str]) -> Lift[float]:
        positions = [i for i, variable in enumerate(variables) if variable in self.variables]
        limit = largest(len(self.variables))
        return lambda values: prod((bounded(values[i], limit) for i in positions), start=1.0)

    @property
    def layout(self) -> tuple[Field, ...]:
        return (Field("sum", "float"),)

    def to_flat(self, element: float) -> tuple[float, ...]:
        return (element,)

    def from_flat(self, numbers: Sequence[float]) -> float:
        return float(numbers[0])


FLOAT_RING = FloatRing()
