"""Making two scalars meet in one representation: common types, explicit casts, comparison and arithmetic.

price * (1 - discount)    DECIMAL(15,2), DECIMAL(15,2)  ->  price * (1.00 - discount), DECIMAL(31,4)
orderdate < '1995-03-15'  DATE, VARCHAR literal         ->  orderdate < DATE '1995-03-15'
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from viewlet.algebra.calendar import MICROSECONDS_PER_DAY
from viewlet.algebra.casts import is_castable
from viewlet.algebra.fold import fold
from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import Call, Const, Scalar
from viewlet.sql.source import MismatchError
from viewlet.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTEGER_BITS,
    MAX_DECIMAL_DIGITS,
    REAL,
    TIMESTAMP,
    VARCHAR,
    Datum,
    Kind,
    SqlType,
    decimal,
)

_INTEGER_DIGITS = {Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def constant(value: Datum, type: SqlType) -> Const:
    return Const(value, type.with_nullable(value is None))


def integer_constant(value: int) -> Const:
    limit = 1 << 31
    return constant(value, INTEGER if -limit <= value < limit else BIGINT)


def null_of(type: SqlType) -> Const:
    return Const(None, type.with_nullable(True))


TRUE = constant(True, BOOLEAN)
FALSE = constant(False, BOOLEAN)


def strict(op: str, *args: Scalar, type: SqlType, may_be_null: bool = False) -> Scalar:
    """A call that is NULL where an argument is NULL, computed at once where it can be."""
    nullable = may_be_null or any(arg.type.nullable for arg in args)
    return _settle(fold(Call(op, args, type.with_nullable(nullable))))


def total(op: str, *args: Scalar, type: SqlType, nullable: bool = False) -> Scalar:
    """A call that decides itself about NULL."""
    return _settle(fold(Call(op, args, type.with_nullable(nullable))))


def _settle(scalar: Scalar) -> Scalar:
    """The type of a computed constant says whether it is NULL."""
    return constant(scalar.value, scalar.type) if isinstance(scalar, Const) else scalar


def case(*parts: Scalar) -> Scalar:
    """case(c1, v1, c2, v2, ..., otherwise); the values have one type already, apart from nullability."""
    values = (*parts[1:-1:2], parts[-1])
    return total("case", *parts, type=values[0].type, nullable=any(value.type.nullable for value in values))


def conjunction(*args: Scalar) -> Scalar:
    return total("and", *args, type=BOOLEAN, nullable=any(arg.type.nullable for arg in args))


def disjunction(*args: Scalar) -> Scalar:
    return total("or", *args, type=BOOLEAN, nullable=any(arg.type.nullable for arg in args))


def negation(arg: Scalar) -> Scalar:
    if isinstance(arg, Call) and arg.op in NEGATED:
        return Call(NEGATED[arg.op], arg.args, arg.type)
    if isinstance(arg, Call) and arg.op == "not":
        return arg.args[0]
    opposite = {"is_null": "is_not_null", "is_not_null": "is_null"}
    if isinstance(arg, Call) and arg.op in opposite:
        return Call(opposite[arg.op], arg.args, arg.type)
    return strict("not", arg, type=BOOLEAN)


def is_null(arg: Scalar) -> Scalar:
    return total("is_null", arg, type=BOOLEAN)


def is_not_null(arg: Scalar) -> Scalar:
    return total("is_not_null", arg, type=BOOLEAN)


def cast_to(scalar: Scalar, type: SqlType) -> Scalar:
    """The scalar in the representation of `type`; constants are converted now, and may fail now."""
    if scalar.type.kind is Kind.NULL:
        return null_of(type)
    target = type.with_nullable(scalar.type.nullable)
    if scalar.type == target:
        return scalar
    if not is_castable(scalar.type, target):
        raise MismatchError(f"{scalar.type} cannot be cast to {type}")
    call = Call("cast", (scalar,), target)
    if isinstance(scalar, Const):
        return constant(compile_scalar(call)({}), target)
    return call


# Common types


def as_decimal(scalar_type: SqlType) -> SqlType:
    if scalar_type.kind is Kind.DECIMAL:
        return scalar_type
    return decimal(_INTEGER_DIGITS[scalar_type.kind], 0)


def _narrow(scalar: Scalar, other: SqlType) -> SqlType:
    """An integer literal takes the type of the integer it meets, and only the digits it has beside a DECIMAL."""
    if isinstance(scalar, Const) and scalar.type.is_integer and isinstance(scalar.value, int):
        if other.is_integer and abs(scalar.value) < 1 << (INTEGER_BITS[other.kind] - 1):
            return other
        if other.kind is Kind.DECIMAL:
            return decimal(len(str(abs(scalar.value))), 0)
    return scalar.type


def common_type(a: SqlType, b: SqlType) -> SqlType:
    """The type both can be cast to without loss, as CASE, COALESCE, UNION and comparisons need it."""
    if a.kind is Kind.NULL or a.kind is b.kind is not Kind.DECIMAL:
        return b
    if b.kind is Kind.NULL:
        return a
    if a.is_numeric and b.is_numeric:
        return _common_number(a, b)
    if {a.kind, b.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    raise MismatchError(f"{a} and {b} do not go together: use CAST")


def _common_number(a: SqlType, b: SqlType) -> SqlType:
    if a.is_float or b.is_float:
        return DOUBLE if Kind.DOUBLE in (a.kind, b.kind) else REAL
    if a.is_integer and b.is_integer:
        return max(a, b, key=lambda type: INTEGER_BITS[type.kind])
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return decimal(min(whole + scale, MAX_DECIMAL_DIGITS), scale)


def unify(scalars: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """All the scalars cast to their common type."""
    if len({scalar.type.kind for scalar in scalars} - {Kind.VARCHAR, Kind.NULL}) == 1:
        target = next(s.type for s in scalars if s.type.kind not in (Kind.VARCHAR, Kind.NULL))
        scalars = [read_literal(scalar, target) for scalar in scalars]
    target = reduce(common_type, (scalar.type for scalar in scalars))
    return tuple(cast_to(scalar, VARCHAR if target.kind is Kind.NULL else target) for scalar in scalars)


def read_literal(scalar: Scalar, target: SqlType) -> Scalar:
    """A string literal beside another type is a literal of that type."""
    if isinstance(scalar, Const) and scalar.type.kind is Kind.VARCHAR and target.kind is not Kind.VARCHAR:
        if target.is_exact:
            return cast_to(scalar, BIGINT if target.is_integer else decimal(MAX_DECIMAL_DIGITS, target.scale))
        return cast_to(scalar, target)
    return scalar


def align(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Both sides of a comparison in one representation."""
    a, b = read_literal(a, b.type), read_literal(b, a.type)
    a, b = _as_date(a, b.type), _as_date(b, a.type)
    if a.type.same_representation(b.type):
        return a, b
    target = common_type(_narrow(a, b.type), _narrow(b, a.type))
    return cast_to(a, target), cast_to(b, target)


def _as_date(scalar: Scalar, other: SqlType) -> Scalar:
    """A constant midnight beside a DATE is compared as a DATE, so that the column stays bare."""
    if isinstance(scalar, Const) and scalar.type.kind is Kind.TIMESTAMP and other.kind is Kind.DATE:
        days, time = divmod(int(scalar.value or 0), MICROSECONDS_PER_DAY)
        if scalar.value is not None and time == 0:
            return constant(days, DATE)
    return scalar


def comparison(op: str, a: Scalar, b: Scalar) -> Scalar:
    a, b = align(a, b)
    if isinstance(a, Const) and not isinstance(b, Const):
        a, b, op = b, a, MIRRORED[op]
    return strict(op, a, b, type=BOOLEAN)


def not_distinct(a: Scalar, b: Scalar) -> Scalar:
    return total("is_not_distinct", *align(a, b), type=BOOLEAN)


# Arithmetic


def arithmetic(op: str, a: Scalar, b: Scalar) -> Scalar:
    """a op b for numbers."""
    a, b = _number(op, a, b), _number(op, b, a)
    if op == "/":
        return _division(a, b)
    if op == "//" and not (a.type.is_integer and b.type.is_integer):
        return _division(a, b)
    left, right = _narrow(a, b.type), _narrow(b, a.type)
    if op == "*" and Kind.DECIMAL in (left.kind, right.kind) and left.is_exact and right.is_exact:
        return _decimal_product(a, b, as_decimal(left), as_decimal(right))
    target = _common_number(left, right)
    args = cast_to(a, target), cast_to(b, target)
    if op in ("//", "%"):
        return strict(op, *args, type=target, may_be_null=not _is_nonzero(b))
    if target.kind is Kind.DECIMAL:
        target = decimal(min(target.precision + 1, MAX_DECIMAL_DIGITS), target.scale)
    return strict(op, *args, type=target)


def _number(op: str, scalar: Scalar, other: Scalar) -> Scalar:
    if scalar.type.kind is Kind.NULL:
        return null_of(other.type if other.type.is_numeric else INTEGER)
    scalar = read_literal(scalar, other.type) if other.type.is_numeric else scalar
    if not scalar.type.is_numeric:
        raise MismatchError(f"{op} needs numbers, not {scalar.type}")
    return scalar


def _division(a: Scalar, b: Scalar) -> Scalar:
    return strict("/", cast_to(a, DOUBLE), cast_to(b, DOUBLE), type=DOUBLE, may_be_null=not _is_nonzero(b))


def _is_nonzero(scalar: Scalar) -> bool:
    return isinstance(scalar, Const) and bool(scalar.value)


def _decimal_product(a: Scalar, b: Scalar, left: SqlType, right: SqlType) -> Scalar:
    """Scaled integers multiply, scales add up; past the digits a DECIMAL has, the product is a DOUBLE."""
    scale = left.scale + right.scale
    if scale > MAX_DECIMAL_DIGITS:
        return strict("*", cast_to(a, DOUBLE), cast_to(b, DOUBLE), type=DOUBLE)
    precision = min(left.precision + right.precision, MAX_DECIMAL_DIGITS)
    return strict("*", a, b, type=decimal(max(precision, scale, 1), scale))
