"""Values that nobody could read: infinities, NaN, and times outside of the years 1 to 9999, which Python does not have.

Streams take none. A part of a view that would have one is refused when it is computed; where the queries of a view
only copy values, there is nothing to look for.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from viewlet.streams.definition import PartView
from viewlet.types import Column, Kind

UNREADABLE = "infinite, NaN, or outside of the years 1 to 9999"


def _outside(type: str, last: str = "") -> dict[str, str]:
    """The test for values that are in no year from 1 to 9999."""
    types = {"duckdb": type, "postgres": type, "spark": "TIMESTAMP_NTZ" if type == "TIMESTAMP" else type}
    between = "NOT ({{0}} BETWEEN CAST('0001-01-01' AS {0}) AND CAST('9999-12-31{1}' AS {0}))"
    return {dialect: between.format(name, last) for dialect, name in types.items()}


_NOT_FINITE = {
    "duckdb": "NOT isfinite({0})",
    "postgres": "{0} IN ('NaN', 'Infinity', '-Infinity')",
    "spark": "({0} = CAST('NaN' AS DOUBLE) OR ABS({0}) = CAST('Infinity' AS DOUBLE))",
}
_TESTS = {
    Kind.DOUBLE: _NOT_FINITE,
    Kind.REAL: _NOT_FINITE,
    Kind.DATE: _outside("DATE"),
    Kind.TIMESTAMP: _outside("TIMESTAMP", " 23:59:59.999999"),
}
_REFUSALS = {
    "duckdb": "error({0})",
    "postgres": "CASE WHEN refuse({0}) THEN {{0}} END",
    "spark": "raise_error({0})",
}
_COPYING = (
    *(exp.Select, exp.From, exp.Join, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias, exp.Star),
    *(exp.Where, exp.Group, exp.Having, exp.Predicate, exp.And, exp.Or, exp.Not, exp.Paren, exp.Null, exp.Boolean),
    *(exp.Min, exp.Max, exp.Count, exp.Coalesce, exp.Case, exp.If, exp.Subquery, exp.Union, exp.Distinct, exp.Literal),
    *(exp.Order, exp.Ordered, exp.Window, exp.Lag, exp.RowNumber, exp.WindowSpec, exp.With, exp.CTE),
)
"""What has no other values than what it reads, and numbers that are written down."""
_CALCULATING = (exp.Sum, exp.Avg, exp.Mul, exp.Div, exp.Neg, exp.Stddev, exp.Variance, exp.VariancePop, exp.Filter)
"""What makes numbers, but no times."""


def guards(view: PartView, dialect: str, user: str) -> dict[str, str]:
    """What surrounds values of the columns of a view on a host, in place of {0}, to refuse those that cannot be read.

    Errors name the `user`: the view, or one whose helper it is. Helpers that nobody reads have none.
    """
    if not view.statement:
        return {}
    family = [each for each in (view, *view.helpers) if each.matching is None]  # matches are looked at one by one
    queries = {query.sql for each in family for query in (each.initialize, each.update)}
    nodes = [node for sql in queries for node in sqlglot.parse_one(sql, read="duckdb").walk()]
    made = [
        node for node in nodes if not isinstance(node, _COPYING) or (isinstance(node, exp.Literal) and node.is_string)
    ]
    if not made:
        return {}
    makes_times = any(not isinstance(node, _CALCULATING) for node in made)
    kinds = _TESTS if makes_times else (Kind.DOUBLE, Kind.REAL)
    where = f"view {user}"
    return {each.name: guard(each, dialect, where) for each in view.columns if each.type.kind in kinds}


def guard(column: Column, dialect: str, where: str) -> str:
    """What surrounds a value of a column, likewise; the value alone where each can be read."""
    if column.type.kind not in _TESTS:
        return "{0}"
    message = f"column {column.name} of {where} has a value that nobody can read: {UNREADABLE}"
    refusal = _REFUSALS[dialect].format("'" + message.replace("'", "''").replace("{", "(") + "'")
    return f"CASE WHEN {_TESTS[column.type.kind][dialect]} THEN {refusal} ELSE {{0}} END"
