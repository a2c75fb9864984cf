"""Functions of numbers: arithmetic that checks its range, rounding, and aggregates finished from their parts."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from viewlet.algebra.casts import check_decimal, check_finite, check_integer, divide_half_away, round_single
from viewlet.algebra.scalar_function import Function, Implementation, Types, simple
from viewlet.errors import DataError
from viewlet.types import MAX_DECIMAL_DIGITS, Kind, SqlType

_MANTISSA = sys.float_info.mant_dig


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
    check = _checked(result)

    def divide(a: int, b: int) -> int | None:
        if b == 0:
            return None
        magnitude = abs(a) // abs(b)
        return int(check(magnitude if (a < 0) == (b < 0) else -magnitude))

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
    if not source.is_exact:
        return _round_double
    check = _checked(result)

    def round_exact(value: int, digits: int) -> int:
        if digits >= source.scale:
            return value
        digits = max(digits, -MAX_DECIMAL_DIGITS - 1)  # beyond the digits of any number all units are alike
        unit = 10 ** (source.scale - digits)
        return int(check(divide_half_away(value, unit) * 10 ** max(result.scale - digits, 0)))

    return round_exact


def _round_double(value: float, digits: int) -> float:
    if digits > sys.float_info.max_10_exp:
        return value
    if digits < -sys.float_info.max_10_exp:
        return math.copysign(0.0, value)
    factor = 10.0**digits
    scaled = value * factor
    if not math.isfinite(scaled):
        return value
    rounded = math.floor(abs(scaled) + 0.5)
    return check_finite(math.copysign(rounded / factor, value))


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

    return simple(apply)


def _average(types: Types, result: SqlType) -> Implementation:
    """avg(sum, count): the sum may be exact and scaled."""
    unit = 10 ** types[0].scale
    return lambda total, count: None if count == 0 else total / (count * unit)


def _square(value: float) -> float:
    return check_finite(value * value)


def _square_error(value: float) -> float:
    """What the square of a number leaves when it is rounded."""
    fraction, exponent = math.frexp(value)
    whole, unit = int(math.ldexp(fraction, _MANTISSA)), 2 * (exponent - _MANTISSA)
    return math.ldexp(whole * whole - int(math.ldexp(_square(value), -unit)), unit)


def _variance(freedom: int, finish: Callable[[float], float]) -> Function:
    """f(n, sum x, sum x*x), computed exactly and rounded once.

    Of doubles each sum is given in parts, each the nearest double to what those before it leave: two of x, two of the
    rounded squares, two of what their rounding leaves. A negative result of rounding counts as 0.
    """

    def build(types: Types, result: SqlType) -> Implementation:
        unit = 10 ** (2 * types[1].scale)

        def compute(n: int, *sums: Any) -> float | None:
            if n <= freedom:
                return None
            total, squares = sums if len(sums) == 2 else (_whole(sums[:2]), _whole(sums[2:]))
            return finish(check_finite(max(n * squares - total * total, 0) / (n * (n - freedom) * unit)))

        return compute

    return Function(True, build)


def _whole(parts: Sequence[float]) -> Fraction:
    return sum(map(Fraction, parts), Fraction(0))


VARIANCES: dict[str, Function] = {
    "var_samp": _variance(1, float),
    "var_pop": _variance(0, float),
    "stddev_samp": _variance(1, math.sqrt),
    "stddev_pop": _variance(0, math.sqrt),
}
"""Of a count, a sum and a sum of squares."""

NUMERIC: dict[str, Function] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "neg": _arithmetic(operator.neg),
    "abs": _arithmetic(abs),
    "/": simple(_quotient),
    "//": Function(True, _truncating_quotient),
    "%": Function(True, _remainder),
    "floor": _toward(math.floor, lambda value, unit: value // unit),
    "ceil": _toward(math.ceil, lambda value, unit: -(-value // unit)),
    "round": Function(True, _round),
    "sign": simple(lambda value: (value > 0) - (value < 0)),
    "sqrt": _guarded(_root),
    "square": simple(_square),
    "square_error": simple(_square_error),
    "power": _guarded(operator.pow),
    "ln": _guarded(_logarithm(math.log)),
    "log10": _guarded(_logarithm(math.log10)),
    "exp": _guarded(math.exp),
    "avg": Function(True, _average),
    **VARIANCES,
}
