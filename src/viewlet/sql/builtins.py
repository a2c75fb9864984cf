"""Scalar functions by their SQL name: how many arguments, of which types, and what comes out.

Each entry takes the bound arguments and returns the call; a type that does not fit raises `MismatchError`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from viewlet.algebra.calendar import DIFFERENCE_UNITS, PARTS, TRUNCATIONS
from viewlet.algebra.nodes import Const, Scalar
from viewlet.sql.coerce import (
    arithmetic,
    case,
    cast_to,
    comparison,
    constant,
    integer_constant,
    null_of,
    read_literal,
    strict,
    total,
    unify,
)
from viewlet.sql.source import MismatchError
from viewlet.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_DECIMAL_DIGITS,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Kind,
    SqlType,
    decimal,
)

Builder = Callable[..., Scalar]


def text(scalar: Scalar) -> Scalar:
    if scalar.type.kind in (Kind.VARCHAR, Kind.NULL):
        return cast_to(scalar, VARCHAR)
    raise MismatchError(f"a VARCHAR is needed, not {scalar.type}")


def number(scalar: Scalar) -> Scalar:
    if scalar.type.kind is Kind.NULL:
        return cast_to(scalar, DOUBLE)
    if not scalar.type.is_numeric:
        raise MismatchError(f"a number is needed, not {scalar.type}")
    return scalar


def whole(scalar: Scalar) -> Scalar:
    if scalar.type.kind is Kind.NULL:
        return cast_to(scalar, BIGINT)
    if not scalar.type.is_integer:
        raise MismatchError(f"an integer is needed, not {scalar.type}")
    return scalar


def moment(scalar: Scalar) -> Scalar:
    scalar = read_literal(scalar, TIMESTAMP)
    if scalar.type.kind is Kind.NULL:
        return cast_to(scalar, TIMESTAMP)
    if scalar.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise MismatchError(f"a DATE or TIMESTAMP is needed, not {scalar.type}")
    return scalar


def _texts(op: str, result: SqlType, *args: Scalar) -> Scalar:
    return strict(op, *(text(arg) for arg in args), type=result)


def _text_and_numbers(op: str, value: Scalar, *counts: Scalar) -> Scalar:
    return strict(op, text(value), *(whole(count) for count in counts), type=VARCHAR)


def _double(op: str, *args: Scalar) -> Scalar:
    return strict(op, *(cast_to(number(arg), DOUBLE) for arg in args), type=DOUBLE)


def _same_type(op: str, value: Scalar) -> Scalar:
    return strict(op, number(value), type=number(value).type)


def _integral(op: str, value: Scalar) -> Scalar:
    """floor and ceil."""
    value = number(value)
    if value.type.kind is Kind.DECIMAL:
        return strict(op, value, type=decimal(value.type.precision, 0))
    return strict(op, cast_to(value, DOUBLE), type=DOUBLE)


def _round(value: Scalar, digits: Scalar | None = None) -> Scalar:
    value, digits = number(value), whole(digits) if digits is not None else integer_constant(0)
    kind = value.type
    if kind.kind is Kind.DECIMAL and isinstance(digits, Const) and isinstance(digits.value, int):
        scale = min(max(digits.value, 0), kind.scale)
        carry = digits.value < kind.scale == 0  # no digit is freed for it
        return strict("round", value, digits, type=decimal(min(kind.precision + carry, MAX_DECIMAL_DIGITS), scale))
    if kind.is_integer:
        return strict("round", value, digits, type=kind)
    return strict("round", cast_to(value, DOUBLE), digits, type=DOUBLE)


def _coalesce(*args: Scalar) -> Scalar:
    if len(args) == 1 or not args[0].type.nullable:
        return unify(args)[0]
    args = unify(args)
    return total("coalesce", *args, type=args[0].type, nullable=all(arg.type.nullable for arg in args))


def _nullif(a: Scalar, b: Scalar) -> Scalar:
    return case(comparison("=", a, b), null_of(a.type), a)


def _extreme(op: str, *args: Scalar) -> Scalar:
    args = unify(args)
    return total(op, *args, type=args[0].type, nullable=all(arg.type.nullable for arg in args))


def _concat(*args: Scalar) -> Scalar:
    return total("concat", *(cast_to(arg, VARCHAR) for arg in args), type=VARCHAR)


def concatenate(a: Scalar, b: Scalar) -> Scalar:
    return strict("||", cast_to(a, VARCHAR), cast_to(b, VARCHAR), type=VARCHAR)


def _sign(value: Scalar) -> Scalar:
    return strict("sign", number(value), type=SMALLINT)


def extract(part: str, value: Scalar) -> Scalar:
    part = PART_SYNONYMS.get(part.lower(), part.lower())
    if part not in PARTS:
        raise MismatchError(f"EXTRACT knows no '{part}': use one of {', '.join(PARTS)}")
    value = moment(value)
    if value.type.kind is Kind.DATE and part in ("hour", "minute", "second", "millisecond", "microsecond"):
        value = cast_to(value, TIMESTAMP)
    return strict(f"extract_{part}", value, type=BIGINT)


def date_trunc(unit: str, value: Scalar) -> Scalar:
    if unit.lower() not in TRUNCATIONS:
        raise MismatchError(f"DATE_TRUNC knows no '{unit}': use one of {', '.join(TRUNCATIONS)}")
    return strict(f"date_trunc_{unit.lower()}", moment(value), type=TIMESTAMP)


def date_diff(unit: str, start: Scalar, end: Scalar) -> Scalar:
    unit = unit.lower()
    if unit not in DIFFERENCE_UNITS:
        raise MismatchError(f"DATE_DIFF knows no '{unit}': use one of {', '.join(DIFFERENCE_UNITS)}")
    start, end = moment(start), moment(end)
    if unit in ("day", "week"):
        days = strict("date_diff_days", cast_to(end, DATE), cast_to(start, DATE), type=BIGINT)
        return days if unit == "day" else arithmetic("//", days, constant(7, BIGINT))
    return strict(f"date_diff_{unit}s", start, end, type=BIGINT)


PART_SYNONYMS = {
    "dow": "dayofweek",
    "weekday": "dayofweek",
    "doy": "dayofyear",
    "dayofmonth": "day",
    "years": "year",
    "months": "month",
    "days": "day",
    "hours": "hour",
    "minutes": "minute",
    "seconds": "second",
    "weekofyear": "week",
    "dayofweekiso": "isodow",
}


def date_part(part: Scalar, value: Scalar) -> Scalar:
    if not (isinstance(part, Const) and isinstance(part.value, str)):
        raise MismatchError("the part must be a string literal")
    return extract(part.value, value)


def log10(value: Scalar) -> Scalar:
    return _double("log10", value)


def log(first: Scalar, second: Scalar | None = None) -> Scalar:
    """log(x) and log10(x) to the base 10, log(base, x) to a constant one; the parser writes log10(x) as log(10, x)."""
    if second is None:
        return log10(first)
    if not isinstance(first, Const):
        raise MismatchError("the base of a logarithm must be a constant")
    base = number(first)
    if base == integer_constant(10):
        return log10(second)
    if base == integer_constant(1):
        raise MismatchError("there is no logarithm to the base 1")
    return arithmetic("/", log10(second), log10(base))


def is_boolean(scalar: Scalar) -> Scalar:
    """A condition, or the NULL literal as one."""
    if scalar.type.kind is Kind.NULL:
        return cast_to(scalar, BOOLEAN)
    if scalar.type.kind is not Kind.BOOLEAN:
        raise MismatchError(f"a condition is needed, not {scalar.type}")
    return scalar


def choose(condition: Scalar, then: Scalar, otherwise: Scalar | None = None) -> Scalar:
    """IF(c, a, b)"""
    values = unify((then, otherwise if otherwise is not None else constant(None, then.type)))
    nullable = any(value.type.nullable for value in values)
    return total("case", is_boolean(condition), *values, type=values[0].type, nullable=nullable)


ANY_NUMBER = inf
"""Of arguments."""

FUNCTIONS: dict[str, tuple[int, float, Builder]] = {
    # name: least and most arguments, builder
    "coalesce": (1, ANY_NUMBER, _coalesce),
    "nullif": (2, 2, _nullif),
    "least": (1, ANY_NUMBER, partial(_extreme, "least")),
    "greatest": (1, ANY_NUMBER, partial(_extreme, "greatest")),
    "if": (2, 3, choose),
    "iff": (3, 3, choose),
    "upper": (1, 1, partial(_texts, "upper", VARCHAR)),
    "lower": (1, 1, partial(_texts, "lower", VARCHAR)),
    "trim": (1, 2, partial(_texts, "trim", VARCHAR)),
    "ltrim": (1, 2, partial(_texts, "ltrim", VARCHAR)),
    "rtrim": (1, 2, partial(_texts, "rtrim", VARCHAR)),
    "reverse": (1, 1, partial(_texts, "reverse", VARCHAR)),
    "replace": (3, 3, partial(_texts, "replace", VARCHAR)),
    "length": (1, 1, partial(_texts, "length", BIGINT)),
    "position": (2, 2, partial(_texts, "position", BIGINT)),
    "contains": (2, 2, partial(_texts, "contains", BOOLEAN)),
    "starts_with": (2, 2, partial(_texts, "starts_with", BOOLEAN)),
    "ends_with": (2, 2, partial(_texts, "ends_with", BOOLEAN)),
    "concat": (1, ANY_NUMBER, _concat),
    "substring": (2, 3, partial(_text_and_numbers, "substring")),
    "left": (2, 2, partial(_text_and_numbers, "left")),
    "right": (2, 2, partial(_text_and_numbers, "right")),
    "abs": (1, 1, partial(_same_type, "abs")),
    "neg": (1, 1, partial(_same_type, "neg")),
    "sign": (1, 1, _sign),
    "floor": (1, 1, partial(_integral, "floor")),
    "ceil": (1, 1, partial(_integral, "ceil")),
    "round": (1, 2, _round),
    "sqrt": (1, 1, partial(_double, "sqrt")),
    "power": (2, 2, partial(_double, "power")),
    "ln": (1, 1, partial(_double, "ln")),
    "log10": (1, 1, log10),
    "log": (1, 2, log),
    "exp": (1, 1, partial(_double, "exp")),
    "date_part": (2, 2, date_part),
    "datepart": (2, 2, date_part),
    **{part: (1, 1, partial(extract, part)) for part in (*PARTS, "dayofmonth", "weekday", "weekofyear")},
}
