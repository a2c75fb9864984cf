"""Recognises sums over joins of four relations: paths, cycles and Loomis-Whitney joins.

    path             w.b = x.a, x.b = y.a, y.b = z.a                   three columns, each of two neighbours
    cycle            w.b = x.a, x.b = y.a, y.b = z.a, z.b = w.a         four columns, each of two neighbours
    Loomis-Whitney   each of four columns is in three of the tables

Several columns that the same tables share are one variable.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.algebra.join_columns import Column, JoinColumns
from viewlet.algebra.join_sums import JoinSums, NotTriangleError
from viewlet.algebra.nodes import Scalar
from viewlet.algebra.query import Query
from viewlet.algebra.split_query import SplitQuery
from viewlet.algebra.triangle_query import packed

PATH, LOOMIS_WHITNEY, CYCLE = "path", "Loomis-Whitney join", "cycle"
Owners = frozenset[int]


def recognise_split(query: Query, epsilon: float | None = None) -> SplitQuery:
    """The query as sums over a join of four; raises `NotTriangleError` with the reason if it is none."""
    sums = JoinSums()
    result = sums.read(query)
    if sums.grouped:
        raise NotTriangleError("its join has 4 tables: it can be added up, but neither grouped nor listed")
    join = JoinColumns(sums.rels, sums.common())
    columns: dict[Owners, list[Column]] = {}
    for column in join.columns:
        columns.setdefault(frozenset(column), []).append(column)
    shape, order, variables = _shape(columns)
    numbers = join.numbers(sums.sums, sums.common())
    sides = []
    for relation, owned in zip(order, variables, strict=True):
        scalars = tuple(_variable(columns[owners], relation) for owners in owned)
        sides.append(join.side(relation, scalars, numbers.kept))
    return SplitQuery(shape, tuple(sides), numbers.shown, sums.table(), result, epsilon)


def is_split(query: Query) -> bool:
    """Whether a query is over four tables, whatever their join is."""
    sums = JoinSums()
    sums.read(query)
    return len(sums.rels) == 4


def _variable(columns: list[Column], relation: int) -> Scalar:
    return packed(tuple(column[relation][0] for column in columns))


def _shape(columns: Mapping[Owners, object]) -> tuple[str, list[int], list[list[Owners]]]:
    """The shape of a join, its relations in order, and the variables of each, by the relations that have them."""
    sizes = sorted(map(len, columns))
    if sizes == [3, 3, 3, 3]:
        missing = {next(iter(set(range(4)) - owners)): owners for owners in columns}
        a, b, c, d = (missing[relation] for relation in (1, 2, 3, 0))
        return LOOMIS_WHITNEY, [0, 1, 2, 3], [[a, b, c], [b, c, d], [c, d, a], [d, a, b]]
    if set(sizes) == {2} and len(columns) in (3, 4):
        ends = [i for i in range(4) if sum(i in owners for owners in columns) == 1]
        order = [ends[0] if ends else 0]
        while len(order) < 4:
            after = [i for i in range(4) if i not in order and frozenset((order[-1], i)) in columns]
            if not after:
                break
            order.append(after[0])
        steps = [frozenset((order[i], order[(i + 1) % len(order)])) for i in range(len(order))]
        if len(order) == 4 and set(steps) == columns.keys():
            return CYCLE, order, [[steps[i - 1], steps[i]] for i in range(4)]
        if len(order) == 4 and set(steps[:3]) == columns.keys():
            b, c, d = steps[:3]
            return PATH, order, [[b], [b, c], [c, d], [d]]
    raise NotTriangleError("its join has 4 tables, and is neither a path, a cycle nor a Loomis-Whitney join of them")
