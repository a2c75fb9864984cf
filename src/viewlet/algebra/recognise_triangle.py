"""Recognises queries over the triangles of three relations, and over all other joins of three.

    (n := Sum[](r(a, b) * s(b', c) * t(c', a') * {b = b'} * {c = c'} * {a' = a} * w))   ->   table(n)

A path r(a, b) * s(b, c) * t(c, d) is a triangle whose ends meet at a constant: r(0, b) * s(b, c) * t(c, 0). Columns
that two tables share are one variable, and those that all three share are part of every variable (`TriangleQuery`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from viewlet.algebra.join_columns import Column, JoinColumns
from viewlet.algebra.join_sums import JoinSums, NotTriangleError
from viewlet.algebra.nodes import Rel, Scalar, Var
from viewlet.algebra.printer import show_scalar
from viewlet.algebra.query import Query
from viewlet.algebra.triangle_query import SHARED, TriangleQuery, packed

_PAIRS = ({0, 2}, {0, 1}, {1, 2})
"""The relations that have each variable, besides what all three share."""


def recognise_triangle(
    query: Query, epsilons: tuple[float, float, float] = (0.5, 0.5, 0.5), linear: bool = True
) -> TriangleQuery:
    """The query as one over triangles; raises `NotTriangleError` with the reason if it is not."""
    sums = JoinSums()
    result = sums.read(query)
    if len(sums.rels) != 3:
        raise NotTriangleError(f"its join has {len(sums.rels)} table{'' if len(sums.rels) == 1 else 's'}, not three")
    join = _TriangleColumns(sums.rels, sums.common())
    carried = join.carried(sums.keys)
    keys, places = join.keys([key for key in sums.keys if key not in carried])
    if carried:
        at = iter(places or [(at, None) for at in range(len(keys))])
        others = iter(range(len(keys), len(keys) + len(carried)))
        places = tuple((next(others), None) if key in carried else next(at) for key in sums.keys)
    numbers = join.numbers(sums.sums, sums.common())
    r, s, t = (
        replace(
            join.side(i, (join.variable(i, i), join.variable((i + 1) % 3, i)), numbers.kept),
            carried=tuple(key for key, relation in carried.items() if relation == i),
        )
        for i in range(3)
    )
    return TriangleQuery(
        *((r, s, t), keys, sums.grouped, numbers.shown, sums.table(), result, epsilons, linear),
        places=places,
        shared=len(join.common),
        carried=tuple(carried.values()),
    )


class _TriangleColumns(JoinColumns):
    """The columns of three relations as the three variables of a triangle."""

    def __init__(self, rels: tuple[Rel, ...], conditions: Iterable[Scalar]) -> None:
        super().__init__(rels, conditions)
        self.common = [each for each in self.columns if len(each) == 3]
        """The columns that all three tables share."""
        self._own = [[each for each in self.columns if each.keys() == pair] for pair in _PAIRS]
        """The other columns of every variable."""

    def keys(self, columns: Sequence[Var]) -> tuple[tuple[int, ...], tuple[tuple[int, int | None], ...]]:
        """The variables that groups are told apart by, and which columns of these the given ones are, in their order.

        A column of a variable that has several is a key only together with the others, or with all that are shared.
        """
        found = [self._column(key) for key in columns]
        if len({id(column) for column in found}) < len(found):
            raise NotTriangleError("it is grouped by the same variable twice")
        keys: list[int] = []
        for column in found:
            keys += [i for i in range(3) if column in self._own[i] and i not in keys]
        if found and not keys:  # all tables have these: a variable that is nothing else, or what all variables share
            keys = [next((i for i in range(3) if not self._own[i]), SHARED)]
        for column in [column for key in keys for column in self._columns(key)]:
            if column not in found:
                name = show_scalar(next(iter(column.values()))[0])
                raise NotTriangleError(f"it is grouped by some columns of a vertex, but not by its column {name!r}")
        places = tuple(self._place_of(column, keys) for column in found)
        return tuple(keys), () if places == tuple((at, None) for at in range(len(keys))) else places

    def carried(self, columns: Sequence[Var]) -> dict[Var, int]:
        """Columns that are none of the join, and the relations that have them."""
        return {key: self.owner(key) for key in columns if not self._is_joined(key)}

    def _is_joined(self, key: Var) -> bool:
        return any(key in scalars for column in self.columns for scalars in column.values())

    def _columns(self, key: int) -> list[Column]:
        """The columns of a variable, or of what all of them share."""
        return self.common if key == SHARED else self._own[key] + self.common

    def _column(self, key: Var) -> Column:
        """The column of the join that a column of a table is equal to."""
        return next(column for column in self.columns if any(key in scalars for scalars in column.values()))

    def _place_of(self, column: Column, keys: Sequence[int]) -> tuple[int, int | None]:
        """The key that has a column, and its place in it if there are several."""
        at = next(at for at, key in enumerate(keys) if column in self._columns(key))
        columns = self._columns(keys[at])
        return at, None if len(columns) == 1 else columns.index(column)

    def variable(self, variable: int, relation: int) -> Scalar:
        """A variable as one of the relations has it."""
        return packed(tuple(column[relation][0] for column in self._columns(variable)))
