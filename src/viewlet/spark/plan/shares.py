"""Shares of a cyclic join: a hypercube over its variables, whose cells are partitions (Afrati and Ullman, HyperCube).

    R(a, b)   S(b, c)   T(c, a)       8 partitions: each variable is hashed to 0 or 1

    R(7, 9)   h(7) = 0, h(9) = 1      cells (0, 1, 0) and (0, 1, 1)
    T(4, 7)   h(4) = 1, h(7) = 0      cells (0, 0, 1) and (0, 1, 1)

A triangle (a, b, c) is in the cell (h(a), h(b), h(c)) and in no other, so the triangles of all cells are those of the
join, each once. A tuple lacks one variable, so it goes to a line of cells: p^(1/3) of p. The tuples of one value,
however many, are spread by their other value: over the p^(1/3) lines of cells that the value belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from viewlet.spark.plan.hashing import partition_of
from viewlet.types import Datum

Relation = tuple[tuple[int, ...], float]
"""The numbers of its variables, and about how many tuples it has."""


@dataclass(frozen=True, slots=True)
class Shares:
    """In how many parts each variable is hashed; the cells are numbered with the last variable first."""

    counts: tuple[int, ...]

    @property
    def cells(self) -> int:
        return prod(self.counts)

    def of(self, variables: Sequence[int], values: Sequence[Datum]) -> list[int]:
        """The cells of a tuple.

        >>> [len(Shares((2, 2, 2)).of((0, 1), (a, b))) for a, b in [(7, 9), (1, 1), ("x", None)]]
        [2, 2, 2]
        """
        known = {
            variable: partition_of((value,), self.counts[variable])
            for variable, value in zip(variables, values, strict=True)
        }
        found = [0]
        for variable, count in enumerate(self.counts):
            places = (known[variable],) if variable in known else range(count)
            found = [cell * count + place for cell in found for place in places]
        return found

    def __str__(self) -> str:
        return " x ".join(map(str, self.counts))


def best_shares(partitions: int, variables: int, relations: Sequence[Relation], fixed: Collection[int] = ()) -> Shares:
    """The shares with the fewest tuples in a cell, among those with no more cells than there are partitions.

    `fixed` are variables with a single value. Of shares with as many tuples, those with the fewest cells are taken.

    >>> edges = [((0, 1), 1.0), ((1, 2), 1.0), ((2, 0), 1.0)]
    >>> [str(best_shares(p, 3, edges)) for p in (1, 4, 8, 30)]
    ['1 x 1 x 1', '1 x 2 x 2', '2 x 2 x 2', '3 x 3 x 3']
    """

    def cost(counts: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        held = sum(size / prod(counts[variable] for variable in mentioned) for mentioned, size in relations)
        return held, prod(counts), counts

    found: list[tuple[int, ...]] = [()]
    for variable in range(variables):
        most = 1 if variable in fixed else partitions
        found = [(*counts, n) for counts in found for n in range(1, most + 1) if prod(counts) * n <= partitions]
    return Shares(min(found, key=cost))
