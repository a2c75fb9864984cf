"""Conversions between the representations of scalar types, rounding as DuckDB does.

cast(DECIMAL(4,2), INTEGER)(250) = 3        halves go away from zero
cast(DOUBLE, INTEGER)(2.5) = 2              halves go to the even neighbour
"""

from __future__ import annotations

import contextlib
import decimal
import math
import struct
from collections.abc import Callable
from typing import Any

from viewlet.algebra.calendar import MICROSECONDS_PER_DAY, date_text, days_of, microseconds_of, timestamp_text
from viewlet.errors import DataError
from viewlet.types import INTEGER_BITS, Kind, SqlType

Conversion = Callable[[Any], Any]
_TRUE_WORDS = frozenset(("true", "t", "yes", "y", "1"))
_FALSE_WORDS = frozenset(("false", "f", "no", "n", "0"))


def is_castable(source: SqlType, target: SqlType) -> bool:
    """Whether a cast between the two types means anything."""
    if Kind.NULL in (source.kind, target.kind) or source.kind is target.kind:
        return True
    if Kind.VARCHAR in (source.kind, target.kind):
        return True
    times = (Kind.DATE, Kind.TIMESTAMP)
    if source.kind in times or target.kind in times:
        return source.kind in times and target.kind in times
    return True


def is_widening(source: SqlType, target: SqlType) -> bool:
    """Whether a cast between numbers has a result for every value of the source."""
    if source.is_float or target.is_float:
        return source.is_numeric and target.kind in (source.kind, Kind.DOUBLE)
    if source.is_integer and target.is_integer:
        return INTEGER_BITS[source.kind] <= INTEGER_BITS[target.kind]
    if not source.is_exact or target.kind is not Kind.DECIMAL:
        return False
    digits = 19 if source.is_integer else source.precision - source.scale
    return source.scale <= target.scale and digits <= target.precision - target.scale


def cast(source: SqlType, target: SqlType) -> Conversion:
    """A function from a value of `source`, never NULL, to the value of `target`."""
    if target.kind is Kind.DECIMAL:
        return _to_decimal(source, target)
    if target.kind is source.kind or target.kind is Kind.NULL:
        return lambda value: value
    if target.is_integer:
        return _to_integer(source, target)
    if target.is_float:
        return _to_float(source, target)
    conversion = _OTHERS.get(target.kind)
    assert conversion is not None
    return conversion(source)


def check_integer(target: SqlType) -> Callable[[int], int]:
    """Raises where an integer does not fit the type."""
    limit = 1 << (INTEGER_BITS[target.kind] - 1)

    def check(value: int) -> int:
        if -limit <= value < limit:
            return value
        raise DataError(f"{value} is out of range for {target}")

    return check


def check_decimal(target: SqlType) -> Callable[[int], int]:
    limit = 10**target.precision

    def check(value: int) -> int:
        if -limit < value < limit:
            return value
        raise DataError(f"{decimal_text(value, target.scale)} is out of range for {target}")

    return check


def round_single(value: float) -> float:
    """The nearest single-precision number."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise DataError(f"{value!r} is out of range for REAL") from None


def check_finite(value: float) -> float:
    if math.isfinite(value):
        return value
    raise DataError("a DOUBLE result is not finite")


def divide_half_away(value: int, divisor: int) -> int:
    """value / divisor rounded to the nearest integer, halves away from zero."""
    magnitude = (2 * abs(value) + divisor) // (2 * divisor)
    return magnitude if value >= 0 else -magnitude


def rescale(value: int, source_scale: int, target_scale: int) -> int:
    if target_scale >= source_scale:
        return int(value * 10 ** (target_scale - source_scale))
    return divide_half_away(value, 10 ** (source_scale - target_scale))


def decimal_text(value: int, scale: int) -> str:
    if scale == 0:
        return str(value)
    digits = str(abs(value)).rjust(scale + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def scaled_integer(text: str, scale: int) -> int:
    """Reads a decimal number as an integer number of units of 10**-scale."""
    try:
        number = decimal.Decimal(text.strip())
        if not number.is_finite():
            raise ValueError(text)
        with decimal.localcontext(decimal.Context(prec=200)):
            return int(number.scaleb(scale).to_integral_value(decimal.ROUND_HALF_UP))
    except (ValueError, ArithmeticError):
        raise DataError(f"not a number: '{text}'") from None


def _to_decimal(source: SqlType, target: SqlType) -> Conversion:
    check, scale = check_decimal(target), target.scale
    if source.is_integer or source.kind is Kind.BOOLEAN:
        factor = 10**scale
        return lambda value: check(int(value) * factor)
    if source.kind is Kind.DECIMAL:
        return lambda value: check(rescale(value, source.scale, scale))
    if source.is_float:
        return lambda value: check(_round_half_away(check_finite(value * 10.0**scale)))
    return lambda value: check(scaled_integer(value, scale))


def _round_half_away(value: float) -> int:
    floor = math.floor(abs(value))
    magnitude = floor + 1 if abs(value) - floor >= 0.5 else floor
    return magnitude if value >= 0 else -magnitude


def _to_integer(source: SqlType, target: SqlType) -> Conversion:
    check = check_integer(target)
    if source.is_float:
        return lambda value: check(round(value))
    if source.kind is Kind.DECIMAL:
        unit = 10**source.scale
        return lambda value: check(divide_half_away(value, unit))
    if source.kind is Kind.VARCHAR:
        return lambda value: check(scaled_integer(value, 0))
    return lambda value: check(int(value))


def _to_float(source: SqlType, target: SqlType) -> Conversion:
    finish = round_single if target.kind is Kind.REAL else float
    if source.kind is Kind.DECIMAL:
        unit = 10**source.scale
        return lambda value: finish(value / unit)
    if source.kind is Kind.VARCHAR:
        return lambda value: finish(_float_of(value))
    return lambda value: finish(float(value))


def _float_of(text: str) -> float:
    try:
        return check_finite(float(text))
    except ValueError:
        raise DataError(f"not a number: '{text}'") from None


def _to_boolean(source: SqlType) -> Conversion:
    return _boolean_of if source.kind is Kind.VARCHAR else bool


def _boolean_of(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE_WORDS or word in _FALSE_WORDS:
        return word in _TRUE_WORDS
    raise DataError(f"not a boolean: '{text}'")


def _to_text(source: SqlType) -> Conversion:
    if source.kind is Kind.DECIMAL:
        return lambda value: decimal_text(value, source.scale)
    return {
        Kind.BOOLEAN: lambda value: "true" if value else "false",
        Kind.DATE: date_text,
        Kind.TIMESTAMP: timestamp_text,
        Kind.REAL: _single_text,
        Kind.DOUBLE: repr,
    }.get(source.kind, str)


def _single_text(value: float) -> str:
    """The shortest text that reads back as the same single-precision number.

    >>> _single_text(round_single(0.1)), _single_text(3.4028234663852886e38)
    ('0.1', '3.4028235e+38')
    """
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        with contextlib.suppress(DataError):  # fewer digits may round up beyond the largest number
            if round_single(short) == value:
                return repr(short)
    return repr(value)


def _to_date(source: SqlType) -> Conversion:
    return days_of if source.kind is Kind.VARCHAR else lambda value: value // MICROSECONDS_PER_DAY


def _to_timestamp(source: SqlType) -> Conversion:
    return microseconds_of if source.kind is Kind.VARCHAR else lambda value: value * MICROSECONDS_PER_DAY


_OTHERS: dict[Kind, Callable[[SqlType], Conversion]] = {
    Kind.BOOLEAN: _to_boolean,
    Kind.VARCHAR: _to_text,
    Kind.DATE: _to_date,
    Kind.TIMESTAMP: _to_timestamp,
}
