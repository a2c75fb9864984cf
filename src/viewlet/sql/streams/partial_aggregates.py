"""Aggregates of the rows of a window as aggregates of the aggregates of its parts (section 5.2).

    SUM(x)  =  SUM(SUM(x) of each part)           MAX(x)  =  MAX(MAX(x) of each part)
    AVG(x)  =  the sum of all parts / their count

A sum or an average is NULL where no row has a value, so that rows with one are counted. A column that is NOT NULL has
one in every row: the count of rows is that count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp

from viewlet.streams.definition import PartQuery
from viewlet.streams.running_totals import SUMMED
from viewlet.types import Table

ROWS = f"{SUMMED}rows"
_DEVIATIONS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop)
_DROPPED = ("expressions", "from_", "where", "group", "having", "kind")


@dataclass(slots=True)
class Partials:
    """The columns of a helper: groups, and aggregates of the rows of one part, by their SQL."""

    groups: dict[str, str] = field(default_factory=dict)
    aggregates: dict[str, tuple[str, str]] = field(default_factory=dict)
    """SQL of an aggregate -> its column, and the aggregate that merges it."""
    is_merged: bool = False
    """Rows are merged already: an expression reads their columns."""
    present: frozenset[str] = frozenset()
    """The columns of the source that are NOT NULL."""
    means: dict[str, tuple[str, str]] = field(default_factory=dict)
    """A column with the mean of all rows that are merged -> the columns of sums and of counts that it is made of."""

    def merge(self, function: str, column: str) -> str:
        return column if self.is_merged else f"{function}({column})"

    def sum(self, sql: str) -> str:
        known = self.aggregates.setdefault(sql, (f"{SUMMED}{len(self.aggregates)}", "SUM"))
        return known[0]

    def count(self, argument: exp.Expr) -> str:
        """The column that counts the rows in which an expression has a value."""
        return ROWS if _is_present(argument, self.present) else self.sum(f"COUNT({argument.sql('duckdb')})")

    def extreme(self, sql: str, function: str) -> str:
        return self.aggregates.setdefault(sql, (f"{function.lower()}_{len(self.aggregates)}", function))[0]


Found = tuple[Partials, list[exp.Expr], exp.Expr | None]
"""Partial aggregates, and SELECT and HAVING over them."""


def partials_of(node: exp.Expr, whole: PartQuery, source: Table, is_merged: bool = False) -> Found | None:
    """The partial aggregates of a query, and its SELECT and HAVING over them; None if it is made of other things."""
    if not isinstance(node, exp.Select) or any(value for key, value in node.args.items() if key not in _DROPPED):
        return None
    start = node.args.get("from_")
    if start is None or not isinstance(start.this, exp.Table) or node.find(exp.Subquery, exp.Window, exp.Distinct):
        return None
    if node.find(exp.Placeholder) or whole.start_marker in whole.sql:
        return None
    group = node.args.get("group")
    present = frozenset(column.name.lower() for column in source.columns if not column.type.nullable)
    partials = Partials(is_merged=is_merged, present=present)
    for each in group.expressions if group is not None else []:
        if isinstance(each, exp.Literal):
            return None
        partials.groups[each.sql("duckdb")] = f"g{len(partials.groups)}"
    if (
        group is not None
        and set(group.args) - {"expressions"}
        and any(group.args[k] for k in group.args if k != "expressions")
    ):
        return None
    try:
        select = [_merged(each, partials) for each in node.expressions]
        having = node.args.get("having")
        return partials, select, None if having is None else _merged(having.this, partials)
    except _NotDecomposableError:
        return None


class _NotDecomposableError(Exception):
    """An expression that partial aggregates do not determine."""


def _merged(node: exp.Expr, partials: Partials) -> exp.Expr:
    """An expression over rows of a window as one over partial aggregates of its parts."""

    def rewrite(each: exp.Expr) -> exp.Expr:
        sql = each.sql("duckdb")
        if sql in partials.groups:
            return exp.column(partials.groups[sql])
        if isinstance(each, exp.Filter):
            each = _with_condition(each)
        if isinstance(each, exp.AggFunc):
            return sqlglot.parse_one(_merge(each, partials), read="duckdb")
        if isinstance(each, exp.Column | exp.Star):
            raise _NotDecomposableError
        return each

    name = node.alias_or_name if isinstance(node, exp.Alias) else ""
    inner = node.this if isinstance(node, exp.Alias) else node
    found = inner.copy().transform(rewrite)
    return exp.alias_(found, name, quoted=True) if name else found


def _with_condition(node: exp.Filter) -> exp.Expr:
    """f(x) FILTER (WHERE c) = f(CASE WHEN c THEN x END), where f ignores NULL."""
    call = node.this.copy()
    if not isinstance(call, exp.AggFunc) or call.this is None or isinstance(call.this, exp.Distinct):
        raise _NotDecomposableError
    value = exp.Literal.number(1) if isinstance(call.this, exp.Star) else call.this.copy()
    call.set("this", exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=value)]))
    return call


def _merge(call: exp.AggFunc, partials: Partials) -> str:
    argument = call.this.sql("duckdb") if call.this is not None else "*"
    if call.expressions or argument.upper().startswith("DISTINCT"):
        raise _NotDecomposableError
    if isinstance(call, exp.Count):
        counted = ROWS if argument == "*" else partials.count(call.this)
        return f"COALESCE({partials.merge('SUM', counted)}, 0)"
    if isinstance(call, exp.Sum | exp.Avg):
        count = partials.merge("SUM", partials.count(call.this))
        total = partials.merge("SUM", partials.sum(f"COALESCE(SUM({argument}), 0)"))
        is_mean = isinstance(call, exp.Avg)
        value = f"CAST({total} AS DOUBLE) / CAST({count} AS DOUBLE)" if is_mean else total
        return f"CASE WHEN {count} > 0 THEN {value} END"
    if isinstance(call, exp.Min | exp.Max):
        function = "MIN" if isinstance(call, exp.Min) else "MAX"
        return partials.merge(function, partials.extreme(f"{function}({argument})", function))
    if isinstance(call, _DEVIATIONS):
        return _merged_deviation(call, argument, partials)
    raise _NotDecomposableError


def _is_present(node: exp.Expr, present: frozenset[str]) -> bool:
    """An expression is never NULL, given the columns that are not."""
    if isinstance(node, exp.Column):
        return node.name.lower() in present
    if isinstance(node, exp.Literal):
        return True
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Neg | exp.Paren):
        return all(_is_present(each, present) for each in node.iter_expressions())
    return False


def _merged_deviation(call: exp.AggFunc, argument: str, partials: Partials) -> str:
    """A variance or its root: the squares within parts, and those of the means of parts around the mean of all.

    What the mean of all has been rounded by is taken off again: the distances from it would add up to zero.
    """
    if partials.is_merged:
        raise _NotDecomposableError
    count = partials.count(call.this)
    total = partials.sum(f"CAST(COALESCE(SUM({argument}), 0) AS DOUBLE)")
    squares = partials.sum(f"CAST(COALESCE(VAR_POP({argument}) * COUNT({argument}), 0) AS DOUBLE)")
    mean = next((name for name, known in partials.means.items() if known == (total, count)), None)
    if mean is None:
        mean = f"mean_{len(partials.means)}"
        partials.means[mean] = total, count
    n = f"CAST({count} AS DOUBLE)"
    away = f"({total} / NULLIF({n}, 0) - {mean})"
    is_sample = not isinstance(call, exp.VariancePop | exp.StddevPop)
    rows = f"CAST(SUM({count}) AS DOUBLE)"
    rounded = f"SUM(COALESCE({n} * {away}, 0))"
    spread = f"SUM({squares} + COALESCE({n} * {away} * {away}, 0)) - {rounded} * {rounded} / NULLIF({rows}, 0)"
    value = f"GREATEST({spread}, 0) / NULLIF({rows}{' - 1' if is_sample else ''}, 0)"
    if isinstance(call, exp.Stddev | exp.StddevSamp | exp.StddevPop):
        value = f"SQRT({value})"
    return f"CASE WHEN SUM({count}) > {int(is_sample)} THEN {value} END"


def with_means(rows: str, partials: Partials) -> str:
    """Rows of parts, with the means of what they are merged to."""
    if not partials.means:
        return rows
    among = f"PARTITION BY {', '.join(partials.groups.values())}" if partials.groups else ""
    means = [
        f"SUM({total}) OVER ({among}) / NULLIF(CAST(SUM({count}) OVER ({among}) AS DOUBLE), 0) AS {mean}"
        for mean, (total, count) in partials.means.items()
    ]
    return f"SELECT *, {', '.join(means)} FROM ({rows}) AS parts"
