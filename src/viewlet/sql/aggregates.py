"""Aggregates of a block as lifted sums over copies of its body.

    COUNT(*)            n := Sum[](body)
    SUM(x)              s := Sum[](body * x), NULL where no x is present
    MIN(x)              m := min v: body * (v := x) * {v is not null}
    COUNT(DISTINCT x)   n := Sum[](Exists(Sum[keys, v](body * (v := x) * {v is not null})))

The keys of the block are bound around the lifts; everything else in the body is local to each copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from viewlet.algebra.nodes import (
    Cond,
    Exists,
    Expr,
    Extreme,
    Extremum,
    Lift,
    Scalar,
    Sum,
    Value,
    Var,
    add,
    mul,
    neg,
    sum_over,
)
from viewlet.algebra.scope import outputs
from viewlet.sql import coerce
from viewlet.sql.conditions import bind_conditions
from viewlet.sql.context import Context
from viewlet.sql.scalars import ScalarBinder
from viewlet.sql.scope import Scope
from viewlet.sql.source import MismatchError
from viewlet.types import BIGINT, BOOLEAN, COUNT, DOUBLE, MAX_DECIMAL_DIGITS, VARCHAR, Kind, SqlType, decimal

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate

_ZERO = coerce.constant(0, BIGINT)
_VARIANCES: dict[type[exp.Expr], str] = {
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """What is aggregated: the factors the rows pass through (FILTER, subqueries), then the value."""

    factors: tuple[Expr, ...]
    value: Scalar
    filtered: bool


@dataclass(frozen=True, slots=True)
class UserCall:
    """A call of a user-defined aggregate: what it reads, through which factors, and the variable for its result."""

    aggregate: Aggregate
    values: tuple[Scalar, ...]
    factors: tuple[Expr, ...]
    result: Var


class Aggregates:
    """The aggregates of one block, each computed once; `calls` are those that users defined."""

    def __init__(self, context: Context, scope: Scope, body: tuple[Expr, ...], keys: tuple[Var, ...], grouped: bool):
        self.context = context
        self.scope = scope
        self.body = body
        self.keys = keys
        self.grouped = grouped
        self.lifts: list[Lift | Extremum] = []
        self.calls: list[UserCall] = []
        self._arguments: dict[tuple[exp.Expr | None, exp.Expr | None], Argument] = {}
        self._known: dict[object, Scalar] = {}

    def translate(self, node: exp.Expr) -> Scalar:
        """The value of an aggregate call, as a scalar over lifted variables."""
        condition = None
        call = node
        if isinstance(node, exp.Filter):
            call, condition = node.this, node.expression.this
        if isinstance(call, exp.AnonymousAggFunc):
            return self._user_call(call, condition, node)
        name = call.sql_name().lower() if isinstance(call, exp.Func) else type(call).__name__.lower()
        handler = AGGREGATES.get(type(call))
        if handler is None:
            raise self.context.source.unsupported(f"aggregate {name}()", node)
        operand = call.this
        distinct = isinstance(operand, exp.Distinct)
        if distinct:
            if len(operand.expressions) != 1:
                raise self.context.source.unsupported(f"{name}(DISTINCT a, b)", node)
            operand = operand.expressions[0]
        if isinstance(operand, exp.Order):
            raise self.context.source.unsupported("ORDER BY in an aggregate", node)
        if call.args.get("count") is not None or call.expressions:
            raise self.context.source.error(f"{name}() takes 1 argument", node)
        self._check_level(operand, node)
        if isinstance(operand, exp.Star) or operand is None:
            if not isinstance(call, exp.Count):
                raise self.context.source.error(f"{name}() takes 1 argument", node)
            operand = None
        try:
            return handler(self, call, self._argument(operand, condition), distinct)
        except MismatchError as problem:
            raise self.context.source.error(str(problem), node) from None

    def _user_call(self, call: exp.AnonymousAggFunc, condition: exp.Expr | None, node: exp.Expr) -> Scalar:
        """A variable for the result of an aggregate that a user defined."""
        source, name = self.context.source, str(call.this)
        key = (call, condition)
        if key in self._known:
            return self._known[key]
        aggregate = self.context.aggregates[name]
        for operand in call.expressions:
            if isinstance(operand, exp.Distinct):
                hint = "declare a view with SELECT DISTINCT, and a second one with the aggregate over it"
                raise source.unsupported(f"{name}(DISTINCT ...)", node, hint)
            if isinstance(operand, exp.Order):
                raise source.unsupported(f"ORDER BY in {name}()", node, "user-defined aggregates see rows in any order")
            if isinstance(operand, exp.Star):
                raise source.error(f"{name}() takes values: write {name}(1) to give it every row", node)
            self._check_level(operand, node)
        if len(call.expressions) != len(aggregate.arguments):
            count = len(aggregate.arguments)
            wanted = f"{count} argument{'s' if count > 1 else ''}"
            raise source.error(f"{name}() takes {wanted}, not {len(call.expressions)}", node)
        binder = ScalarBinder(self.context, self.scope, "inside another aggregate")
        filtered = binder.condition(condition) if condition is not None else None
        values = []
        for operand, type in zip(call.expressions, aggregate.arguments, strict=True):
            value = _argument_of(name, binder.bind(operand), type, operand, self.context)
            if filtered is not None:
                value = coerce.case(filtered, value, coerce.null_of(value.type))
            values.append(value)
        result = self.context.fresh(name, aggregate.returns)
        self.calls.append(UserCall(aggregate, tuple(values), binder.take_prelude(), result))
        self._known[key] = result
        return result

    def _check_level(self, operand: exp.Expr | None, node: exp.Expr) -> None:
        """In the standard an aggregate over columns of an outer block belongs to that block."""
        if operand is None or operand.find(exp.Query) is not None:
            return
        columns = list(operand.find_all(exp.Column))
        own = Scope(self.scope.fields)
        if columns and not any(own.own(column, self.context.source) for column in columns):
            ScalarBinder(self.context, self.scope, "inside another aggregate").bind(operand)  # names that do not exist
            raise self.context.source.unsupported("an aggregate over columns of an outer query", node)

    def _argument(self, operand: exp.Expr | None, condition: exp.Expr | None) -> Argument:
        key = (operand, condition)
        if key not in self._arguments:
            binder = ScalarBinder(self.context, self.scope, "inside another aggregate")
            factors = bind_conditions(binder, condition) if condition is not None else ()
            value = binder.bind(operand) if operand is not None else coerce.constant(1, BIGINT)
            self._arguments[key] = Argument(factors + binder.take_prelude(), value, condition is not None)
        return self._arguments[key]

    # Building blocks; each is lifted once

    def rows(self, *factors: Expr) -> Scalar:
        """The number of rows of the group that pass the factors."""
        return self._lift("count", COUNT, *factors)

    def present(self, argument: Argument) -> Scalar:
        """The number of rows where the argument is not NULL.

        It is a sum of ones and zeros over the rows of the group, not a count of fewer rows, so that the engine keeps it
        in one payload with the group's other sums.
        """
        value = argument.value
        factors = argument.factors if argument.filtered or value.type.nullable else ()
        if not value.type.nullable:
            return self.rows(*factors)
        there = coerce.case(coerce.is_not_null(value), coerce.constant(1, BIGINT), coerce.constant(0, BIGINT))
        return self.rows(*factors, Value(there))

    def sum(self, argument: Argument, value: Scalar, type: SqlType) -> Scalar:
        return self._lift("sum", type.with_nullable(False), *argument.factors, Value(value))

    def unrounded(self, argument: Argument, value: Scalar) -> tuple[Scalar, Scalar]:
        """A sum of doubles as the nearest double and what that leaves, which together have twice the digits."""
        total = self.sum(argument, value, DOUBLE)
        key = ("rest", total)
        if key not in self._known:
            rest = self.context.fresh("rest", DOUBLE.with_nullable(False))
            body = sum_over((), mul(*self.body, *argument.factors, Value(value)))
            self.lifts.append(Lift(rest, add(body, neg(Value(total)))))
            self._known[key] = rest
        return total, self._known[key]

    def _lift(self, name: str, type: SqlType, *factors: Expr) -> Scalar:
        key = (name, type, factors)
        if key not in self._known:
            var, lift = self.context.total(name, type, *self.body, *factors)
            self.lifts.append(lift)
            self._known[key] = var
        return self._known[key]

    def never_empty(self, argument: Argument) -> bool:
        """A group has rows; if each of them has a value, the aggregate is never NULL."""
        return self.grouped and not argument.filtered and not argument.value.type.nullable

    def unless_empty(self, argument: Argument, value: Scalar) -> Scalar:
        """The value, or NULL where there was nothing to aggregate."""
        if self.never_empty(argument):
            return value
        return coerce.case(coerce.comparison("=", self.present(argument), _ZERO), coerce.null_of(value.type), value)

    def extreme(self, argument: Argument, which: Extreme) -> Scalar:
        key = (which, argument)
        if key not in self._known:
            of, bind = self.variable(argument.value)
            type = argument.value.type.with_nullable(not self.never_empty(argument))
            var = self.context.fresh(which.value, type)
            body = mul(*self.body, *argument.factors, *bind, *_not_null(of))
            self.lifts.append(Extremum(var, which, of, sum_over((of,), body)))
            self._known[key] = var
        return self._known[key]

    def variable(self, value: Scalar) -> tuple[Var, tuple[Expr, ...]]:
        """A variable local to a copy of the body that holds the value, and the lift that binds it, if it takes one."""
        if isinstance(value, Var) and value in outputs(mul(*self.body)) and value not in self.keys:
            return value, ()
        var, lift = self.context.bind("value", value)
        return var, (lift,)

    def distinct(self, argument: Argument) -> tuple[Var, Expr]:
        """The set of values of the argument in the group, over a variable that runs through it."""
        var, bind = self.variable(argument.value)
        body = mul(*self.body, *argument.factors, *bind, *_not_null(var))
        return var, Exists(Sum((*self.keys, var), body))

    def lift_distinct(self, name: str, argument: Argument, type: SqlType, weigh: bool) -> Scalar:
        key = (name, "distinct", argument)
        if key not in self._known:
            var, values = self.distinct(argument)
            total = self.context.fresh(name, type.with_nullable(False))
            weight: tuple[Expr, ...] = (Value(var),) if weigh else ()
            self.lifts.append(Lift(total, sum_over((), mul(values, *weight))))
            self._known[key] = total
        return self._known[key]


def _argument_of(name: str, value: Scalar, type: SqlType | None, node: exp.Expr, context: Context) -> Scalar:
    """An argument of a user-defined aggregate in the type that it takes; numbers are cast if they keep all digits."""
    own = value.type
    if own.kind is Kind.NULL:
        return coerce.cast_to(value, type or VARCHAR)
    if type is None or own.kind is type.kind is not Kind.DECIMAL:
        return value
    if own.is_numeric and (type.is_float or (own.is_exact and type.is_exact and own.scale <= type.scale)):
        return coerce.cast_to(value, type)
    raise context.source.error(f"{name}() takes a {type}, not a {own}: write CAST(... AS {type})", node)


def _not_null(value: Scalar) -> tuple[Expr, ...]:
    return (Cond(coerce.is_not_null(value)),) if value.type.nullable else ()


def sum_type(type: SqlType) -> SqlType:
    if type.is_integer:
        return BIGINT
    if type.kind is Kind.DECIMAL:
        return decimal(MAX_DECIMAL_DIGITS, type.scale)
    return DOUBLE


def _numeric(call: exp.Expr, argument: Argument) -> Argument:
    if argument.value.type.kind is Kind.NULL:
        return Argument(argument.factors, coerce.cast_to(argument.value, BIGINT), argument.filtered)
    if not argument.value.type.is_numeric:
        raise MismatchError(f"{call.sql_name()}() needs a number, not {argument.value.type}")  # type: ignore[attr-defined]
    return argument


def _count(aggregates: Aggregates, call: exp.Expr, argument: Argument, distinct: bool) -> Scalar:
    if distinct:
        return aggregates.lift_distinct("count", argument, BIGINT, weigh=False)
    return aggregates.present(argument)


def _sum(aggregates: Aggregates, call: exp.Expr, argument: Argument, distinct: bool) -> Scalar:
    argument = _numeric(call, argument)
    type = sum_type(argument.value.type)
    if distinct:
        total = aggregates.lift_distinct("sum", argument, type, weigh=True)
    else:
        total = aggregates.sum(argument, argument.value, type)
    return aggregates.unless_empty(argument, total)


def _avg(aggregates: Aggregates, call: exp.Expr, argument: Argument, distinct: bool) -> Scalar:
    argument = _numeric(call, argument)
    type = sum_type(argument.value.type)
    if distinct:
        total = aggregates.lift_distinct("sum", argument, type, weigh=True)
        count = aggregates.lift_distinct("count", argument, BIGINT, weigh=False)
    else:
        total = aggregates.sum(argument, argument.value, type)
        count = aggregates.present(argument)
    return coerce.strict("avg", total, count, type=DOUBLE, may_be_null=not aggregates.never_empty(argument))


def _extreme(aggregates: Aggregates, call: exp.Expr, argument: Argument, distinct: bool) -> Scalar:
    if argument.value.type.kind is Kind.NULL:
        return coerce.null_of(VARCHAR)
    return aggregates.extreme(argument, Extreme.MIN if isinstance(call, exp.Min) else Extreme.MAX)


def _variance(aggregates: Aggregates, call: exp.Expr, argument: Argument, distinct: bool) -> Scalar:
    if distinct:
        raise MismatchError(f"{_VARIANCES[type(call)]}(DISTINCT) is not supported")
    argument = _numeric(call, argument)
    value = argument.value
    if value.type.is_integer:
        value = coerce.cast_to(value, decimal(19, 0))
    if value.type.is_float or 2 * value.type.scale > MAX_DECIMAL_DIGITS:
        value = coerce.cast_to(value, DOUBLE)
    if value.type.is_float:
        square = coerce.strict("square", value, type=DOUBLE)
        error = coerce.strict("square_error", value, type=DOUBLE)
        sums = [part for each in (value, square, error) for part in aggregates.unrounded(argument, each)]
    else:
        square = coerce.arithmetic("*", value, value)
        sums = [aggregates.sum(argument, each, sum_type(each.type)) for each in (value, square)]
    return coerce.strict(_VARIANCES[type(call)], aggregates.present(argument), *sums, type=DOUBLE, may_be_null=True)


def _boolean(aggregates: Aggregates, call: exp.Expr, argument: Argument, distinct: bool) -> Scalar:
    """bool_and: no FALSE was seen; bool_or: a TRUE was seen."""
    value = argument.value
    if value.type.kind is not Kind.BOOLEAN:
        raise MismatchError(f"a condition is needed, not {value.type}")
    every = isinstance(call, exp.LogicalAnd)
    seen = aggregates.rows(*argument.factors, Cond(coerce.negation(value) if every else value))
    return aggregates.unless_empty(argument, coerce.comparison("=" if every else ">", seen, _ZERO))


def _count_if(aggregates: Aggregates, call: exp.Expr, argument: Argument, distinct: bool) -> Scalar:
    if argument.value.type.kind not in (BOOLEAN.kind, Kind.NULL):
        raise MismatchError(f"a condition is needed, not {argument.value.type}")
    return aggregates.rows(*argument.factors, Cond(argument.value))


AGGREGATES: dict[type[exp.Expr], Callable[[Aggregates, exp.Expr, Argument, bool], Scalar]] = {
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Min: _extreme,
    exp.Max: _extreme,
    **dict.fromkeys(_VARIANCES, _variance),
    exp.LogicalAnd: _boolean,
    exp.LogicalOr: _boolean,
    exp.CountIf: _count_if,
}
