"""One value at a time: Python values to the representation of `viewlet.types`, and back."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from viewlet.errors import DataError
from viewlet.types import INTEGER_BITS, MAX_DECIMAL_DIGITS, CofactorValue, Column, Datum, Kind, Row, SqlType

_EPOCH = datetime(1970, 1, 1)
EPOCH_DAY = _EPOCH.toordinal()
DAYS = (date.min.toordinal() - EPOCH_DAY, date.max.toordinal() - EPOCH_DAY)
_MICROSECOND = timedelta(microseconds=1)
MICROSECONDS = ((datetime.min - _EPOCH) // _MICROSECOND, (datetime.max - _EPOCH) // _MICROSECOND)
_WIDE = Context(prec=2 * MAX_DECIMAL_DIGITS)
MISSING = ("NaTType", "NAType", "MaskedConstant")
"""Classes of the values by which pandas and NumPy say that there is none."""
_EXCESS_DIGITS = re.compile(r"[.,]\d{6}\d*[1-9]")


class Misfit(Exception):  # noqa: N818 - users never see it
    """A value that does not fit its column; the text says why."""


def too_long(column: Column, value: str) -> str:
    """Why a string does not enter a column of limited length."""
    return f"{len(value)} characters, and {column.declared} takes {column.length}; cut it first, or declare VARCHAR"


def converter(type: SqlType) -> Callable[[object], Datum]:
    """The function that takes a Python value of this type to its internal representation, or raises."""
    match type.kind:
        case Kind.BOOLEAN:
            return _boolean
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            low, high = integer_range(type)
            return lambda value: _integer(value, low, high)
        case Kind.REAL:
            return _real
        case Kind.DOUBLE:
            return _double
        case Kind.DECIMAL:
            return lambda value: _decimal(value, type)
        case Kind.VARCHAR:
            return _varchar
        case Kind.DATE:
            return _date
        case Kind.TIMESTAMP:
            return _timestamp
        case Kind.NULL | Kind.COFACTOR | Kind.ARRAY:
            return _never


def integer_range(type: SqlType) -> tuple[int, int]:
    bound: int = 2 ** (INTEGER_BITS[type.kind] - 1)
    return -bound, bound - 1


def plain(value: Any) -> object:
    """A NumPy scalar as the Python value it stands for; anything else as it is."""
    package, name = type(value).__module__, type(value).__name__
    if package == "builtins":
        return value
    if name in MISSING:
        raise Misfit("in rows, NULL is None")
    if package != "numpy":
        return value
    if name == "datetime64":
        exact = value.astype("datetime64[us]")
        if exact != exact:
            raise Misfit("in rows, NULL is None")
        if exact.astype(value.dtype) != value:  # NumPy wraps around
            is_fine = value.dtype.name.endswith(("ns]", "ps]", "fs]", "as]"))
            raise Misfit("finer than microseconds" if is_fine else "out of range")
        if exact != value:
            raise Misfit("finer than microseconds")
        return exact.item()
    return value.item() if hasattr(value, "item") else value


def _never(value: object) -> Datum:
    raise Misfit("no value can be stored in such a column")


def _boolean(value: object) -> Datum:
    value = plain(value)
    if isinstance(value, bool):
        return value
    raise Misfit("expected True or False")


def _integer(value: object, low: int, high: int) -> Datum:
    value = plain(value)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value) if value.adjusted() < _WIDE.prec else high + 1  # it may have a billion digits
    if not isinstance(value, int) or isinstance(value, bool):
        raise Misfit("expected an integer")
    if not low <= value <= high:
        raise Misfit(f"out of range, {low} to {high}")
    return int(value)


def _double(value: object) -> Datum:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, float | int | Decimal):
        raise Misfit("expected a number")
    try:
        number = float(value)
    except (OverflowError, ValueError):  # Python makes no float of a signalling NaN
        number = math.inf
    if not math.isfinite(number):
        is_finite = isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite())
        raise Misfit("too large" if is_finite else "NaN and infinities cannot be stored")
    return number + 0.0  # -0.0 becomes 0.0, so that equal values are one key with one face


def _real(value: object) -> Datum:
    number = _double(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise Misfit("too large") from None


def _decimal(value: object, type: SqlType) -> Datum:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, Decimal | int | str | float):
        raise Misfit("expected a decimal number")
    try:
        number = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise Misfit("not a decimal number") from None
    if not number.is_finite():
        raise Misfit("NaN and infinities cannot be stored")
    if number.adjusted() >= type.precision - type.scale and number:
        raise Misfit(f"more than {type.precision - type.scale} digits before the point")
    scaled = number.scaleb(type.scale, _WIDE) if len(number.as_tuple().digits) <= _WIDE.prec else Decimal("0.1")
    unscaled = int(scaled)
    if unscaled != scaled:
        raise Misfit(f"more than {type.scale} digits after the point; round it first")
    return unscaled


def _varchar(value: object) -> Datum:
    if not isinstance(value, str):
        raise Misfit("expected a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit("not valid Unicode") from None
    return str(value)


def _date(value: object) -> Datum:
    value = plain(value)
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise Misfit("not a date; expected YYYY-MM-DD") from None
    if isinstance(value, datetime):
        if value.tzinfo is not None or _microseconds(value) % 86_400_000_000:
            raise Misfit("a time of day does not fit a DATE")
    elif not isinstance(value, date):
        raise Misfit("expected a date or an ISO string")
    return value.toordinal() - EPOCH_DAY


def _timestamp(value: object) -> Datum:
    value = plain(value)
    if isinstance(value, str):
        if _EXCESS_DIGITS.search(value):
            raise Misfit("finer than microseconds")
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Misfit("not a timestamp; expected YYYY-MM-DD HH:MM:SS") from None
    if isinstance(value, datetime):
        return _microseconds(value)
    if isinstance(value, date):
        return (value.toordinal() - EPOCH_DAY) * 86_400_000_000
    raise Misfit("expected a datetime or an ISO string")


def _microseconds(value: datetime) -> int:
    if value.tzinfo is not None:
        raise Misfit("it has a time zone; TIMESTAMP has none, so convert it first")
    if getattr(value, "nanosecond", 0):
        raise Misfit("finer than microseconds")
    plain = datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return (plain - _EPOCH) // _MICROSECOND


def to_python(type: SqlType) -> Callable[[Datum], object]:
    """The function that takes an internal value of this type to the Python value users see."""
    match type.kind:
        case Kind.DECIMAL:
            return lambda value: None if value is None else Decimal(value).scaleb(-type.scale, _WIDE)
        case Kind.DATE:
            return _to_date
        case Kind.TIMESTAMP:
            return _to_datetime
        case Kind.ARRAY:
            return lambda value: list(value) if isinstance(value, tuple) else None
        case Kind.COFACTOR:
            return lambda value: value.to_python() if isinstance(value, CofactorValue) else None
        case _:
            return lambda value: value


def row_to_python(types: Sequence[SqlType]) -> Callable[[Row], tuple[object, ...]]:
    """The function that takes a row of internal values to the tuple users see; the row itself where they are the same.

    >>> from viewlet.types import BIGINT, DATE
    >>> row_to_python([BIGINT, DATE])((1, 0))
    (1, datetime.date(1970, 1, 1))
    """
    converted = [(i, to_python(type)) for i, type in enumerate(types) if type.kind in _CONVERTED]
    if not converted:
        return lambda row: row

    def convert(row: Row) -> tuple[object, ...]:
        values: list[object] = list(row)
        for i, function in converted:
            values[i] = function(row[i])
        return tuple(values)

    return convert


_CONVERTED = {Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.ARRAY, Kind.COFACTOR}
"""Kinds of types whose internal values are not those users see."""


def _to_date(value: Datum) -> date | None:
    try:
        return None if value is None else date.fromordinal(int(value) + EPOCH_DAY)
    except (ValueError, OverflowError):
        raise _not_in_python("DATE", f"{value} days") from None


def _to_datetime(value: Datum) -> datetime | None:
    try:
        return None if value is None else _EPOCH + int(value) * _MICROSECOND
    except OverflowError:
        raise _not_in_python("TIMESTAMP", f"{value} microseconds") from None


def _not_in_python(type: str, distance: str) -> DataError:
    return DataError(
        f"a {type} {distance} from 1970-01-01 has no Python value (years 1 to 9999): read it with to_arrow()"
    )
