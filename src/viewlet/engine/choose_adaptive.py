"""The choice of adaptive maintenance under `auto`: where the worst update of a triangle is far better off with it.

Other plans enumerate the shorter of two sides of a triangle, which a skewed table makes as long as its values have
tuples. How skewed it will be is not known when a view is declared, so worst cases are compared:

    others:    for every table that changes, the shorter of the longest sides that keys and sizes allow
    adaptive:  FACTOR * sqrt(N) for every table that changes

Groups and lists are left to the others: an update changes a row for every triangle that it closes, and for each changed
row adaptive maintenance runs the rest of the query in Python, which takes as long as others take for thousands of
tuples. A count is one row.

A primary key within a column of the join bounds a side to one tuple. Where the two other tables are static, other plans
keep their join, and an update is a look-up.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from viewlet.algebra.join_sums import NotTriangleError
from viewlet.algebra.nodes import Var
from viewlet.algebra.query import Query
from viewlet.algebra.recognise_triangle import recognise_triangle
from viewlet.algebra.traverse import variable_set
from viewlet.algebra.triangle_query import Side, TriangleQuery
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Tables
from viewlet.triggers.statistics import Statistics
from viewlet.types import TableKind

FACTOR = 4.0
"""What an adaptive update costs for each tuple that it may meet: the views over the parts change, too."""


def choose_adaptive(declared: Declaration, tables: Tables, statistics: Statistics) -> Declaration:
    """The same view, kept by adaptive maintenance if `auto` prefers that: counts of triangles.

    Sums stay with the other plans, which add them up in 128 bits, and so do paths, stars and joins on several columns,
    which have no worse cases than other joins that these are made for.
    """
    if declared.strategy != "auto" or not isinstance(declared.definition, Query):
        return declared
    try:
        triangle = recognise_triangle(declared.definition)
    except NotTriangleError:
        return declared
    others, adaptive = other_cost(triangle, tables, statistics), adaptive_cost(triangle, tables, statistics)
    is_count = triangle.is_triangle and not triangle.grouped and triangle.width == 1
    if not is_count or others <= adaptive:
        return declared
    reason = f"an update may meet {others:,.0f} tuples under other plans; the bound of this one is {adaptive:,.0f}"
    return chosen_adaptive(declared, reason)


def chosen_adaptive(declared: Declaration, reason: str) -> Declaration:
    """A view for which adaptive maintenance was chosen."""
    assert isinstance(declared.definition, Query)
    return replace(declared, definition=replace(recognise_triangle(declared.definition), reason=reason), chosen=reason)


def other_cost(query: TriangleQuery, tables: Tables, statistics: Statistics) -> float:
    """Tuples that the worst update meets, on average over the tables that change."""
    costs = []
    for i, side in enumerate(query.sides):
        following, before = query.sides[(i + 1) % 3], query.sides[(i + 2) % 3]
        if not _changes(side, tables):
            continue
        if _changes(following, tables) or _changes(before, tables):
            sides = _longest(following, 0, tables, statistics), _longest(before, 1, tables, statistics)
            costs.append((statistics.rate(side.table), min(sides)))
        else:
            costs.append((statistics.rate(side.table), 1.0))
    return _mean(costs)


def adaptive_cost(query: TriangleQuery, tables: Tables, statistics: Statistics) -> float:
    """The cost of a change under adaptive maintenance, which is the same for all tables that change."""
    size = sum(statistics.size(tables[side.table]).rows for side in query.sides)
    return FACTOR * sqrt(2 * size + 1)


def _mean(costs: list[tuple[float, float]]) -> float:
    weights = sum(rate for rate, _ in costs)
    return sum(rate * cost for rate, cost in costs) / weights if weights else 0.0


def _changes(side: Side, tables: Tables) -> bool:
    return tables[side.table].kind is not TableKind.STATIC


def _longest(side: Side, place: int, tables: Tables, statistics: Statistics) -> float:
    """The most tuples that one value of a variable may have."""
    table = tables[side.table]
    size, known = statistics.size(table), side.table in statistics.sizes
    names = dict(zip(side.columns, table.column_names, strict=True))
    if table.primary_key and set(table.primary_key) <= {names[var] for var in variable_set(side.variables[place])}:
        return 1.0
    other = side.variables[1 - place]
    if known and isinstance(other, Var):
        return min(size.rows, size.distinct[table.column_names.index(names[other])])
    return size.rows
