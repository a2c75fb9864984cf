"""Outer joins as sums: the matches, and the rows of one side without a match, padded with NULLs.

    L left join R on c   =   L * ( R * c  +  (n := Sum[](R' * c')) * {n = 0} * (r := NULL) * ... )

R' and c' are copies under fresh names; the columns of R are the same variables in both terms, hence nullable.
"""

from __future__ import annotations

from collections.abc import Callable

from viewlet.algebra.nodes import Cond, Expr, Lift, Scalar, Value, Var, add, compare, mul, sum_over
from viewlet.algebra.scope import outputs
from viewlet.sql.coerce import constant, null_of
from viewlet.sql.context import Context
from viewlet.sql.rename import fresh_copy, rename
from viewlet.sql.scope import Field, Item
from viewlet.types import BIGINT, VARCHAR, Kind

Condition = Callable[[Item, Item], tuple[Expr, ...]]
"""Binds ON over the columns of both sides."""


def left_join(left: Item, right: Item, on: Condition, context: Context, flipped: bool = False) -> Item:
    """Every row of `left`, with its matches or with NULLs; `flipped` keeps the columns in written order."""
    right = padded(right, context)
    condition = on(right, left) if flipped else on(left, right)
    columns = _columns(right)
    matched = _project(columns, right.factors + condition)
    unmatched = _project(columns, _without_match(right.factors + condition, context) + _nulls(columns))
    fields = right.fields + left.fields if flipped else left.fields + right.fields
    return Item((*left.factors, add(matched, unmatched)), fields)


def full_join(left: Item, right: Item, on: Condition, context: Context) -> Item:
    """Matches, rows of `left` without one, rows of `right` without one."""
    left, right = padded(left, context), padded(right, context)
    condition = on(left, right)
    left_columns, right_columns = _columns(left), _columns(right)
    columns = left_columns + right_columns
    terms = (
        left.factors + right.factors + condition,
        left.factors + _without_match(right.factors + condition, context) + _nulls(right_columns),
        right.factors + _without_match(left.factors + condition, context) + _nulls(left_columns),
    )
    return Item((add(*(_project(columns, term) for term in terms)),), left.fields + right.fields)


def padded(item: Item, context: Context) -> Item:
    """The item with every column a nullable variable of its own, so that it can also be bound to NULL."""
    bound = outputs(mul(*item.factors))
    images: dict[Scalar, Var] = {}
    retyped: dict[Var, Var] = {}
    lifts: list[tuple[Var, Scalar]] = []
    for field in item.fields:
        scalar = field.scalar
        if scalar in images:
            continue
        if isinstance(scalar, Var) and scalar in bound:
            images[scalar] = retyped[scalar] = Var(scalar.name, scalar.type.with_nullable(True))
        else:
            type = VARCHAR if scalar.type.kind is Kind.NULL else scalar.type
            images[scalar] = context.fresh(field.name, type.with_nullable(True))
            lifts.append((images[scalar], scalar))
    factors = tuple(rename(factor, retyped) for factor in item.factors)
    binds = tuple(rename(Lift(var, Value(scalar)), retyped) for var, scalar in lifts)
    fields = tuple(Field(f.table, f.name, images[f.scalar], f.hidden) for f in item.fields)
    return Item(factors + binds, fields)


def semi_join(left: Item, right: Item, on: Condition, context: Context, negated: bool) -> Item:
    """The rows of `left` with (without) a match."""
    condition = on(left, right)
    rows, count = context.count("rows", *right.factors, *condition)
    test = compare("=" if negated else ">", rows, constant(0, BIGINT))
    return Item((*left.factors, count, Cond(test)), left.fields)


def _columns(item: Item) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(f.scalar for f in item.fields if isinstance(f.scalar, Var)))


def _without_match(factors: tuple[Expr, ...], context: Context) -> tuple[Expr, ...]:
    rows, count = context.count("matches", *fresh_copy(factors, context.names))
    return count, Cond(compare("=", rows, constant(0, BIGINT)))


def _nulls(columns: tuple[Var, ...]) -> tuple[Expr, ...]:
    return tuple(Lift(var, Value(null_of(var.type))) for var in columns)


def _project(columns: tuple[Var, ...], factors: tuple[Expr, ...]) -> Expr:
    """Terms of one sum bind the same variables: what only one of them binds is summed away."""
    product = mul(*factors)
    return product if outputs(product) == frozenset(columns) else sum_over(columns, product)
