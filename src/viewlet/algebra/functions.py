"""The open table of scalar functions, and the compilation of a scalar to a Python closure.

    compile_scalar(a + 1)({"a": 41}) = 42

A strict function is NULL where an argument is NULL, and its implementation never sees one. Logic, CASE and COALESCE
evaluate only the arguments they need, so that a guarded expression cannot fail; they are the special forms.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, assert_never

from viewlet.algebra.calendar import (
    DIFFERENCE_UNITS,
    MICROSECONDS_PER_DAY,
    PARTS,
    TRUNCATIONS,
    add_months_to_days,
    boundary_number,
    from_datetime,
    to_datetime,
)
from viewlet.algebra.casts import cast, check_decimal, check_finite, check_integer, divide_half_away, round_single
from viewlet.algebra.nodes import Call, Const, Scalar, Var
from viewlet.errors import DataError, InternalError
from viewlet.types import Datum, Kind, SqlType

Environment = Mapping[str, Datum]
Closure = Callable[[Environment], Any]
Implementation = Callable[..., Any]
Types = tuple[SqlType, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """`build` picks the implementation from the argument types and the result type."""

    strict: bool
    build: Callable[[Types, SqlType], Implementation]


@lru_cache(maxsize=65536)
def compile_scalar(scalar: Scalar) -> Closure:
    """A closure that computes the scalar from the values of its variables."""
    match scalar:
        case Var(name, _):
            return operator.itemgetter(name)
        case Const(value, _):
            return lambda env: value
        case Call(op, args, type):
            closures = tuple(compile_scalar(arg) for arg in args)
            if op in _SPECIAL_FORMS:
                return _SPECIAL_FORMS[op](scalar, closures)
            if op not in FUNCTIONS:
                raise InternalError(f"unknown scalar function {op!r}")
            function = FUNCTIONS[op]
            implementation = function.build(tuple(arg.type for arg in args), type)
            return _strict(implementation, closures) if function.strict else _eager(implementation, closures)
        case _:
            assert_never(scalar)


def _strict(implementation: Implementation, closures: tuple[Closure, ...]) -> Closure:
    if len(closures) == 1:
        (only,) = closures

        def unary(env: Environment) -> Any:
            value = only(env)
            return None if value is None else implementation(value)

        return unary
    if len(closures) == 2:
        first, second = closures

        def binary(env: Environment) -> Any:
            left = first(env)
            if left is None:
                return None
            right = second(env)
            return None if right is None else implementation(left, right)

        return binary

    def general(env: Environment) -> Any:
        values = [closure(env) for closure in closures]
        return None if None in values else implementation(*values)

    return general


def _eager(implementation: Implementation, closures: tuple[Closure, ...]) -> Closure:
    return lambda env: implementation(*(closure(env) for closure in closures))


# Special forms


def _and(node: Call, closures: tuple[Closure, ...]) -> Closure:
    def conjunction(env: Environment) -> bool | None:
        result: bool | None = True
        for closure in closures:
            value = closure(env)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return conjunction


def _or(node: Call, closures: tuple[Closure, ...]) -> Closure:
    def disjunction(env: Environment) -> bool | None:
        result: bool | None = False
        for closure in closures:
            value = closure(env)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return disjunction


def _case(node: Call, closures: tuple[Closure, ...]) -> Closure:
    branches = tuple(zip(closures[:-1:2], closures[1::2], strict=True))
    otherwise = closures[-1]

    def case(env: Environment) -> Any:
        for condition, value in branches:
            if condition(env) is True:
                return value(env)
        return otherwise(env)

    return case


def _coalesce(node: Call, closures: tuple[Closure, ...]) -> Closure:
    def coalesce(env: Environment) -> Any:
        for closure in closures:
            value = closure(env)
            if value is not None:
                return value
        return None

    return coalesce


def _in(node: Call, closures: tuple[Closure, ...]) -> Closure:
    """x in (c1, c2, ...): the members are constants other than NULL."""
    needle = closures[0]
    members = frozenset(closure({}) for closure in closures[1:])

    def contains(env: Environment) -> bool | None:
        value = needle(env)
        return None if value is None else value in members

    return contains


_SPECIAL_FORMS: dict[str, Callable[[Call, tuple[Closure, ...]], Closure]] = {
    "and": _and,
    "or": _or,
    "case": _case,
    "coalesce": _coalesce,
    "in": _in,
}

# Arithmetic


def _checked(type: SqlType) -> Callable[[Any], Any]:
    """What a number has to pass to be a value of the type."""
    if type.is_integer:
        return check_integer(type)
    if type.kind is Kind.DECIMAL:
        return check_decimal(type)
    return round_single if type.kind is Kind.REAL else check_finite


def _arithmetic(apply: Implementation) -> Function:
    def build(types: Types, result: SqlType) -> Implementation:
        check = _checked(result)
        return lambda *values: check(apply(*values))

    return Function(True, build)


def _quotient(a: float, b: float) -> float | None:
    return None if b == 0 else check_finite(a / b)


def _truncating_quotient(types: Types, result: SqlType) -> Implementation:
    def divide(a: int, b: int) -> int | None:
        if b == 0:
            return None
        magnitude = abs(a) // abs(b)
        return magnitude if (a < 0) == (b < 0) else -magnitude

    return divide


def _remainder(types: Types, result: SqlType) -> Implementation:
    if result.is_float:
        return lambda a, b: None if b == 0 else math.fmod(a, b)

    def remainder(a: int, b: int) -> int | None:
        if b == 0:
            return None
        magnitude = abs(a) % abs(b)
        return magnitude if a >= 0 else -magnitude

    return remainder


def _round(types: Types, result: SqlType) -> Implementation:
    """round(x, n); a DECIMAL result has n digits after the point, whatever the argument had."""
    source = types[0]
    if source.kind is Kind.DECIMAL:

        def round_decimal(value: int, digits: int) -> int:
            unit = 10 ** (source.scale - min(digits, source.scale))
            return (
                divide_half_away(value, unit) * 10 ** max(result.scale - digits, 0) if digits < source.scale else value
            )

        return round_decimal
    if source.is_integer:
        return lambda value, digits: value if digits >= 0 else divide_half_away(value, 10**-digits) * 10**-digits
    return _round_double


def _round_double(value: float, digits: int) -> float:
    factor = 10.0**digits
    scaled = value * factor
    if not math.isfinite(scaled):
        return value
    rounded = math.floor(abs(scaled) + 0.5)
    return math.copysign(rounded / factor, value)


def _toward(direction: Callable[[float], int], exact: Callable[[int, int], int]) -> Function:
    """floor and ceil: an integral DECIMAL for a DECIMAL, a DOUBLE for a DOUBLE."""

    def build(types: Types, result: SqlType) -> Implementation:
        if types[0].kind is Kind.DECIMAL:
            unit = 10 ** types[0].scale
            return lambda value: exact(value, unit)
        return lambda value: float(direction(value))

    return Function(True, build)


def _root(value: float) -> float:
    if value < 0:
        raise DataError(f"square root of a negative number: {value!r}")
    return math.sqrt(value)


def _logarithm(function: Callable[[float], float]) -> Implementation:
    def logarithm(value: float) -> float:
        if value <= 0:
            raise DataError(f"logarithm of a number that is not positive: {value!r}")
        return function(value)

    return logarithm


def _guarded(function: Callable[..., Any]) -> Function:
    """A function of DOUBLEs whose result must be a finite DOUBLE."""

    def apply(*values: float) -> float:
        try:
            result = function(*values)
        except (OverflowError, ValueError, ZeroDivisionError):
            raise DataError("a DOUBLE result is not finite") from None
        if isinstance(result, complex):
            raise DataError("a DOUBLE result is not a real number")
        return check_finite(float(result))

    return _simple(apply)


def _simple(implementation: Implementation, strict: bool = True) -> Function:
    return Function(strict, lambda types, result: implementation)


# Aggregates finished from their parts


def _average(types: Types, result: SqlType) -> Implementation:
    """avg(sum, count): the sum may be exact and scaled."""
    unit = 10 ** types[0].scale
    return lambda total, count: None if count == 0 else total / (count * unit)


def _variance(freedom: int, finish: Callable[[float], float]) -> Function:
    """f(n, sum x, sum x*x): exact for exact types; a tiny negative result of rounding counts as 0."""

    def build(types: Types, result: SqlType) -> Implementation:
        exact = types[1].is_exact
        square_unit = 10 ** (2 * types[1].scale)

        def compute(n: int, total: Any, squares: Any) -> float | None:
            if n <= freedom:
                return None
            if exact:
                return finish((n * squares - total * total) / (n * (n - freedom) * square_unit))
            return finish(max(squares - total * total / n, 0.0) / (n - freedom))

        return compute

    return Function(True, build)


def _only_row(rows: int, value: Datum) -> Datum:
    if rows > 1:
        raise DataError("scalar subquery returned more than one row")
    return value


# Text


@lru_cache(maxsize=1024)
def _pattern(pattern: str, escape: str, flags: int) -> re.Pattern[str]:
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            following = next(characters, None)
            if following is None:
                raise DataError(f"LIKE pattern '{pattern}' ends in its escape character")
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL | flags)


def _like(flags: int) -> Function:
    def like(value: str, pattern: str, escape: str = "") -> bool:
        return _pattern(pattern, escape, flags).fullmatch(value) is not None

    return _simple(like)


def _substring(value: str, start: int, length: int | None = None) -> str:
    """Positions count from 1; a negative start counts from the end."""
    if start < 0:
        start = max(len(value) + start, 0) + 1 if -start <= len(value) else len(value) + start + 1
    begin = start - 1
    end = len(value) if length is None else begin + length
    if length is not None and length < 0:
        begin, end = end, begin
    return value[max(begin, 0) : max(end, 0)]


def _left(value: str, count: int) -> str:
    return value[:count] if count >= 0 else value[: max(len(value) + count, 0)]


def _right(value: str, count: int) -> str:
    return value[len(value) - min(count, len(value)) :] if count >= 0 else value[-count:]


def _concat(*values: str | None) -> str:
    return "".join(value for value in values if value is not None)


# Time


def _moment(type: SqlType) -> Callable[[int], datetime]:
    if type.kind is Kind.DATE:
        return lambda days: to_datetime(days * MICROSECONDS_PER_DAY)
    return to_datetime


def _part(get: Callable[[datetime], int]) -> Function:
    def build(types: Types, result: SqlType) -> Implementation:
        moment = _moment(types[0])
        return lambda value: get(moment(value))

    return Function(True, build)


def _truncation(truncate: Callable[[datetime], datetime]) -> Function:
    def build(types: Types, result: SqlType) -> Implementation:
        moment = _moment(types[0])
        return lambda value: from_datetime(truncate(moment(value)))

    return Function(True, build)


def _difference(unit: str) -> Function:
    """The number of boundaries of `unit` between two moments."""

    def build(types: Types, result: SqlType) -> Implementation:
        first, second = _moment(types[0]), _moment(types[1])
        return lambda a, b: boundary_number(unit, second(b)) - boundary_number(unit, first(a))

    return Function(True, build)


def _add_months(types: Types, result: SqlType) -> Implementation:
    if types[0].kind is Kind.DATE:
        return add_months_to_days

    def add(moment: int, months: int) -> int:
        days, time = divmod(moment, MICROSECONDS_PER_DAY)
        return add_months_to_days(days, months) * MICROSECONDS_PER_DAY + time

    return add


# The table


def _not_distinct(a: Datum, b: Datum) -> bool:
    return a == b


def _extreme(pick: Callable[..., Any]) -> Function:
    """least and greatest: NULLs are left out, as in DuckDB and Spark."""

    def apply(*values: Datum) -> Datum:
        present = [value for value in values if value is not None]
        return pick(present) if present else None

    return _simple(apply, strict=False)


def _form(op: str) -> Function:
    """The eager reading of a special form, for callers that hold values already."""

    def build(types: Types, result: SqlType) -> Implementation:
        def apply(*values: Datum) -> Datum:
            args = tuple(Const(value, type) for value, type in zip(values, types, strict=True))
            return _SPECIAL_FORMS[op](Call(op, args, result), tuple(map(compile_scalar, args)))({})  # type: ignore[no-any-return]

        return apply

    return Function(False, build)


FUNCTIONS: dict[str, Function] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "neg": _arithmetic(operator.neg),
    "abs": _arithmetic(abs),
    "/": _simple(_quotient),
    "//": Function(True, _truncating_quotient),
    "%": Function(True, _remainder),
    "=": _simple(operator.eq),
    "<>": _simple(operator.ne),
    "<": _simple(operator.lt),
    "<=": _simple(operator.le),
    ">": _simple(operator.gt),
    ">=": _simple(operator.ge),
    "not": _simple(operator.not_),
    "is_null": _simple(lambda value: value is None, strict=False),
    "is_not_null": _simple(lambda value: value is not None, strict=False),
    "is_not_distinct": _simple(_not_distinct, strict=False),
    "is_true": _simple(lambda value: value is True, strict=False),
    "nullif": _simple(lambda a, b: None if a is not None and a == b else a, strict=False),
    "least": _extreme(min),
    "greatest": _extreme(max),
    "cast": Function(True, lambda types, result: cast(types[0], result)),
    "like": _like(0),
    "ilike": _like(re.IGNORECASE),
    "substring": _simple(_substring),
    "upper": _simple(str.upper),
    "lower": _simple(str.lower),
    "trim": _simple(lambda value, characters=" ": value.strip(characters)),
    "ltrim": _simple(lambda value, characters=" ": value.lstrip(characters)),
    "rtrim": _simple(lambda value, characters=" ": value.rstrip(characters)),
    "length": _simple(len),
    "position": _simple(lambda value, part: value.find(part) + 1),
    "contains": _simple(lambda value, part: part in value),
    "starts_with": _simple(str.startswith),
    "ends_with": _simple(str.endswith),
    "replace": _simple(lambda value, old, new: value.replace(old, new) if old else value),
    "left": _simple(_left),
    "right": _simple(_right),
    "reverse": _simple(lambda value: value[::-1]),
    "concat": _simple(_concat, strict=False),
    "||": _simple(operator.add),
    "floor": _toward(math.floor, lambda value, unit: value // unit),
    "ceil": _toward(math.ceil, lambda value, unit: -(-value // unit)),
    "round": Function(True, _round),
    "sign": _simple(lambda value: (value > 0) - (value < 0)),
    "sqrt": _guarded(_root),
    "power": _guarded(operator.pow),
    "ln": _guarded(_logarithm(math.log)),
    "log10": _guarded(_logarithm(math.log10)),
    "exp": _guarded(math.exp),
    "add_days": _simple(operator.add),
    "add_months": Function(True, _add_months),
    "add_microseconds": _simple(operator.add),
    "date_diff_days": _simple(operator.sub),
    "avg": Function(True, _average),
    "var_samp": _variance(1, float),
    "var_pop": _variance(0, float),
    "stddev_samp": _variance(1, math.sqrt),
    "stddev_pop": _variance(0, math.sqrt),
    "only_row": _simple(_only_row, strict=False),
    **{f"extract_{name}": _part(get) for name, get in PARTS.items()},
    **{f"date_trunc_{unit}": _truncation(truncate) for unit, truncate in TRUNCATIONS.items()},
    **{f"date_diff_{unit}s": _difference(unit) for unit in DIFFERENCE_UNITS if unit != "day"},
    **{op: _form(op) for op in _SPECIAL_FORMS},
}
