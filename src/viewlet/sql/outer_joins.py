"""Outer joins as sums: the matches, and the rows of one side without a match, padded with NULLs.

    L left join R on c   =   L * ( R * c  +  (n := Sum[](R' * c')) * {n = 0} * (r := NULL) * ... )

R' and c' are copies under fresh names; the columns of R are the same variables in both terms, hence nullable.

Where L is made of outer joins, a part of it often tells as much as L does, and chains stay small:

    L has a row with c   <=>   A has a row with c        L preserves A, c is about columns of A and not TRUE for NULLs

For L's rows with A in them hold all rows of A and nothing else in its columns, and the others fail c.

An operand that is written more than once is `shared`: in a query with layers a large one becomes a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viewlet.algebra.fold import fold
from viewlet.algebra.nodes import Cond, Const, Expr, Lift, Scalar, Value, Var, add, compare, mul, sum_over
from viewlet.algebra.rename import rename
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import mentioned, substitute_scalar
from viewlet.sql.coerce import constant, null_of
from viewlet.sql.context import Context
from viewlet.sql.rename import bound_variables, fresh_copy
from viewlet.sql.scope import Field, Item, Part
from viewlet.types import BIGINT, VARCHAR, Kind

Condition = Callable[[Item, Item], tuple[Expr, ...]]
"""Binds ON over the columns of both sides."""


def left_join(left: Item, right: Item, on: Condition, context: Context, flipped: bool = False) -> Item:
    """Every row of `left`, with its matches or with NULLs; `flipped` keeps the columns in written order."""
    right = _shared(padded(right, context), context)
    condition = on(right, left) if flipped else on(left, right)
    columns = _columns(right)
    matched = _project(columns, right.factors + condition)
    unmatched = _project(columns, _without_match(right, condition, context) + _nulls(columns))
    fields = right.fields + left.fields if flipped else left.fields + right.fields
    return Item((*left.factors, add(matched, unmatched)), fields, _parts(left))


def full_join(left: Item, right: Item, on: Condition, context: Context) -> Item:
    """Matches, rows of `left` without one, rows of `right` without one."""
    left, right = (_shared(padded(item, context), context) for item in (left, right))
    condition = on(left, right)
    left_columns, right_columns = _columns(left), _columns(right)
    columns = left_columns + right_columns
    terms = (
        left.factors + right.factors + condition,
        left.factors + _without_match(right, condition, context) + _nulls(right_columns),
        right.factors + _without_match(left, condition, context) + _nulls(left_columns),
    )
    joined = add(*(_project(columns, term) for term in terms))
    return Item((joined,), left.fields + right.fields, _parts(left) + _parts(right))


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
    parts = tuple(_retype(part, retyped) for part in item.preserved)
    return Item(factors + binds, fields, parts)


def _shared(item: Item, context: Context) -> Item:
    """An item with all columns variables of its own, to be written several times."""
    factors = context.shared(item.factors, _columns(item))
    return item if factors is item.factors else Item(factors, item.fields)


def semi_join(left: Item, right: Item, on: Condition, context: Context, negated: bool) -> Item:
    """The rows of `left` with (without) a match."""
    condition = on(left, right)
    rows, count = context.count("rows", *right.factors, *condition)
    test = compare("=" if negated else ">", rows, constant(0, BIGINT))
    return Item((*left.factors, count, Cond(test)), left.fields)


def _columns(item: Item) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(f.scalar for f in item.fields if isinstance(f.scalar, Var)))


def _without_match(item: Item, condition: tuple[Expr, ...], context: Context) -> tuple[Expr, ...]:
    """No row of the item fulfils the condition."""
    rows, count = context.count("matches", *fresh_copy(_decisive(item, condition) + condition, context.names))
    return count, Cond(compare("=", rows, constant(0, BIGINT)))


def _decisive(item: Item, condition: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The factors of a part that fulfils the condition wherever the item does, or those of the item."""
    if not all(isinstance(each, Cond) for each in condition):
        return item.factors
    needed = {var for each in condition for var in mentioned(each)} & set(bound_variables(item.factors))
    for part in item.preserved:
        if needed <= part.columns and _rejects_nulls(condition, part.columns):
            return part.factors
    return item.factors


def _rejects_nulls(condition: tuple[Expr, ...], columns: frozenset[Var]) -> bool:
    """The condition is not TRUE where all the columns are NULL."""
    nulls = {var: null_of(var.type) for var in columns}
    tests = [fold(substitute_scalar(each.scalar, nulls)) for each in condition if isinstance(each, Cond)]
    return any(isinstance(test, Const) and test.value is not True for test in tests)


def _parts(item: Item) -> tuple[Part, ...]:
    return item.preserved or (Part(item.factors, frozenset(_columns(item))),)


def _retype(part: Part, types: Mapping[Var, Var]) -> Part:
    factors = tuple(rename(factor, types) for factor in part.factors)
    return Part(factors, frozenset(types.get(var, var) for var in part.columns))


def _nulls(columns: tuple[Var, ...]) -> tuple[Expr, ...]:
    return tuple(Lift(var, Value(null_of(var.type))) for var in columns)


def _project(columns: tuple[Var, ...], factors: tuple[Expr, ...]) -> Expr:
    """Terms of one sum bind the same variables: what only one of them binds is summed away."""
    product = mul(*factors)
    return product if outputs(product) == frozenset(columns) else sum_over(columns, product)
