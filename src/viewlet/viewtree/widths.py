"""Fractional edge covers: how large the join of some variables can get (the AGM bound).

    variables A, B, C over R(A, B), S(B, C), T(C, A): half of each relation covers all, so N^1.5 rows at most

The smallest cover and the largest packing have the same value; the packing is a linear programme that starts at zero,
and the simplex method with exact fractions finds it. The programmes have a row per relation: a handful.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

Edges = Mapping[frozenset[str], Fraction]
"""The variables of each relation, and its size as a power of the database's."""


def cover_number(variables: Collection[str], edges: Edges) -> Fraction:
    """The least weight of relations that covers all variables, each with the weight of those it is in at least 1.

    >>> triangle = {frozenset(pair): Fraction(1) for pair in ("AB", "BC", "CA")}
    >>> cover_number("ABC", triangle), cover_number("AB", triangle)
    (Fraction(3, 2), Fraction(1, 1))
    """
    wanted = sorted(set(variables))
    rows = [(edge & frozenset(wanted), size) for edge, size in edges.items() if edge & frozenset(wanted)]
    if missing := set(wanted).difference(*(edge for edge, _ in rows)) if rows else set(wanted):
        raise ValueError(f"no relation has {sorted(missing)}")
    return _largest_packing(wanted, rows) if wanted else Fraction(0)


def _largest_packing(variables: list[str], rows: list[tuple[frozenset[str], Fraction]]) -> Fraction:
    """max Σ y(v) where the y of each relation's variables add up to its size at most, by Bland's rule."""
    count = len(rows)
    table = [
        [Fraction(name in edge) for name in variables] + [Fraction(i == j) for j in range(count)] + [size]
        for i, (edge, size) in enumerate(rows)
    ]
    goal = [Fraction(-1)] * len(variables) + [Fraction(0)] * (count + 1)
    while (entering := next((j for j, weight in enumerate(goal[:-1]) if weight < 0), None)) is not None:
        bounded = [(row[-1] / row[entering], i) for i, row in enumerate(table) if row[entering] > 0]
        _, leaving = min(bounded)
        pivot = table[leaving][entering]
        table[leaving] = [number / pivot for number in table[leaving]]
        for row in (*(table[i] for i in range(count) if i != leaving), goal):
            factor = row[entering]
            if factor:
                row[:] = [number - factor * other for number, other in zip(row, table[leaving], strict=True)]
    return goal[-1]
