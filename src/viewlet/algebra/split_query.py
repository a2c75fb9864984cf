"""Queries over joins of four relations that have sublinear updates: paths, cycles, Loomis-Whitney joins.

    SELECT COUNT(*), SUM(x.w * z.w) FROM e w, e x, e y, e z WHERE w.b = x.a AND x.b = y.a AND y.b = z.a

    path: r(b)   s(b, c)   t(c, d)   u(d)       numbers 1 and w * w       result over (count, sum)

There is one group: numbers are added up over the whole join.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewlet.algebra.query import Query
from viewlet.algebra.triangle_query import Shown, Side
from viewlet.types import Table


@dataclass(frozen=True, slots=True)
class SplitQuery:
    """What an adaptive view over four tables keeps; the relations are in the order of `shape`."""

    shape: str
    sides: tuple[Side, ...]
    shown: tuple[Shown, ...]
    table: Table
    result: Query
    epsilon: float | None = None
    """The exponent of the thresholds; the best one for the shape if it is not given."""

    grouped: bool = field(default=False, repr=False)
    keys: tuple[int, ...] = field(default=(), repr=False)
    places: tuple[tuple[int, int | None], ...] = field(default=(), repr=False)
    key_columns: int = field(default=0, repr=False)

    @property
    def width(self) -> int:
        """How many numbers there are."""
        return len(self.sides[0].numbers)
