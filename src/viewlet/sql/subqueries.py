"""Subqueries inside expressions, as counts and values lifted to variables.

    EXISTS (Q)          (n := Sum[](Q))            n > 0
    x IN (SELECT q)     (n := Sum[](Q * {x = q}))  n > 0      where only TRUE matters
    x NOT IN (...)      the rows where x = q is not FALSE are counted, where only FALSE matters
    (SELECT q ...)      the number of rows and the largest q; more than one row is an error

Where the difference between FALSE and NULL shows, two counts decide: the matches and the unknowns.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from sqlglot import exp

from viewlet.algebra.nodes import Cond, Expr, Extreme, Extremum, Scalar, mul, sum_over
from viewlet.sql import coerce
from viewlet.sql.common_tables import subquery
from viewlet.sql.scope import Relation
from viewlet.types import BIGINT, BOOLEAN, VARCHAR, Kind

if TYPE_CHECKING:
    from viewlet.sql.scalars import ScalarBinder

_ZERO = coerce.constant(0, BIGINT)


class Want(Enum):
    """Which outcome of a condition the place it stands in depends on."""

    TRUE = "true"  # as in WHERE: FALSE and NULL may be exchanged
    FALSE = "false"  # under NOT in such a place: TRUE and NULL may be exchanged
    EXACT = "exact"

    def negated(self) -> Want:
        return {Want.TRUE: Want.FALSE, Want.FALSE: Want.TRUE, Want.EXACT: Want.EXACT}[self]


def _inner(node: exp.Expr) -> exp.Expr:
    """The query inside ANY (...), EXISTS (...) and parentheses."""
    return node.this if isinstance(node, exp.Any | exp.All | exp.Paren | exp.Exists) else node


def _rows(binder: ScalarBinder, node: exp.Expr) -> Relation:
    return subquery(binder.context.query(node, binder.scope), binder.context)


def _single_column(binder: ScalarBinder, node: exp.Expr) -> tuple[Relation, Scalar]:
    relation = _rows(binder, node)
    if len(relation.columns) != 1:
        count = len(relation.columns)
        raise binder.context.source.error(f"a subquery used as a value must have one column, not {count}", node)
    return relation, relation.columns[0].scalar


def scalar_subquery(binder: ScalarBinder, node: exp.Expr) -> Scalar:
    """The value of a subquery: NULL without rows, an error with two."""
    relation, value = _single_column(binder, node)
    if relation.single:
        binder.prelude.extend(relation.factors)
        return value
    context = binder.context
    rows, count = context.count("rows", *relation.factors)
    if value.type.kind is Kind.NULL:
        value = coerce.cast_to(value, VARCHAR)
    of, bind = context.bind("value", value)
    present: list[Expr] = [Cond(coerce.is_not_null(of))] if of.type.nullable else []
    largest = context.fresh("only", value.type.with_nullable(True))
    body = sum_over((of,), mul(*relation.factors, bind, *present))
    binder.prelude += [count, Extremum(largest, Extreme.MAX, of, body)]
    return coerce.total("only_row", rows, largest, type=value.type, nullable=True)


def exists_subquery(binder: ScalarBinder, node: exp.Exists) -> Scalar:
    relation = _rows(binder, _inner(node))
    return _some(binder, relation.factors)


def _some(binder: ScalarBinder, factors: tuple[Expr, ...], *conditions: Scalar) -> Scalar:
    """Whether there is a row for which the conditions hold."""
    tests = tuple(Cond(condition) for condition in conditions if condition != coerce.TRUE)
    rows, count = binder.context.count("rows", *factors, *tests)
    binder.prelude.append(count)
    return coerce.comparison(">", rows, _ZERO)


def in_subquery(binder: ScalarBinder, value: exp.Expr, query: exp.Expr, want: Want) -> Scalar:
    if isinstance(value, exp.Tuple):
        return _row_in_subquery(binder, value, query, want)
    return _any(binder, "=", binder.bind(value), query, want)


def _row_in_subquery(binder: ScalarBinder, row: exp.Tuple, query: exp.Expr, want: Want) -> Scalar:
    """(x, y) IN (SELECT p, q ...)"""
    relation = _rows(binder, query)
    values = [binder.bind(part) for part in row.expressions]
    if len(values) != len(relation.columns):
        message = f"{len(values)} values are compared with {len(relation.columns)} columns"
        raise binder.context.source.error(message, query)
    equal = [coerce.comparison("=", v, c.scalar) for v, c in zip(values, relation.columns, strict=True)]
    return _decide(binder, relation.factors, coerce.conjunction(*equal), want)


def quantified(binder: ScalarBinder, op: str, left: exp.Expr, right: exp.Expr, want: Want) -> Scalar:
    """x op ANY (Q); x op ALL (Q) is NOT (x not-op ANY (Q))."""
    query = _inner(right)
    while isinstance(query, exp.Paren):
        query = query.this
    if not isinstance(query, exp.Query):
        raise binder.context.source.unsupported("ANY over a list", right, "use IN or a subquery")
    value = binder.bind(left)
    if isinstance(right, exp.All):
        return coerce.negation(_any(binder, coerce.NEGATED[op], value, query, want.negated()))
    return _any(binder, op, value, query, want)


def _any(binder: ScalarBinder, op: str, value: Scalar, query: exp.Expr, want: Want) -> Scalar:
    relation, candidate = _single_column(binder, query)
    return _decide(binder, relation.factors, coerce.comparison(op, value, candidate), want)


def _decide(binder: ScalarBinder, factors: tuple[Expr, ...], test: Scalar, want: Want) -> Scalar:
    """Whether the test holds for some row, in three-valued logic as far as it is wanted."""
    if want is Want.TRUE or not test.type.nullable:
        return _some(binder, factors, test)
    if want is Want.FALSE:
        return _some(binder, factors, possible(test))
    unknown = coerce.is_null(test)
    null = coerce.null_of(BOOLEAN)
    return coerce.case(_some(binder, factors, test), coerce.TRUE, _some(binder, factors, unknown), null, coerce.FALSE)


def possible(test: Scalar) -> Scalar:
    """The test is not FALSE."""
    return coerce.negation(coerce.total("is_true", coerce.negation(test), type=BOOLEAN))
