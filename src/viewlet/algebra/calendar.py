"""Dates as days and timestamps as microseconds since 1970-01-01: reading, printing, parts, truncation, months.

days_of("2026-01-02") = 20455        date_text(20455) = "2026-01-02"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from viewlet.errors import DataError

MICROSECONDS_PER_DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_EPOCH_ORDINAL = _EPOCH.toordinal()
_EPOCH_TIME = datetime(1970, 1, 1)
_DATE = re.compile(r"\s*(\d{4})[-/](\d{1,2})[-/](\d{1,2})\s*$")
_TIMESTAMP = re.compile(
    r"\s*(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*Z?\s*$"
)


def to_date(days: int) -> date:
    try:
        return date.fromordinal(days + _EPOCH_ORDINAL)
    except (ValueError, OverflowError):
        raise DataError(f"date out of range: {days} days from 1970-01-01") from None


def from_date(day: date) -> int:
    return day.toordinal() - _EPOCH_ORDINAL


def to_datetime(microseconds: int) -> datetime:
    try:
        return _EPOCH_TIME + timedelta(microseconds=microseconds)
    except OverflowError:
        raise DataError(f"timestamp out of range: {microseconds} microseconds from 1970-01-01") from None


def from_datetime(moment: datetime) -> int:
    delta = moment - _EPOCH_TIME
    return delta.days * MICROSECONDS_PER_DAY + delta.seconds * 1_000_000 + delta.microseconds


def days_of(text: str) -> int:
    """Reads a date; a timestamp is read as its day."""
    match = _DATE.match(text) or _TIMESTAMP.match(text)
    try:
        if match is None:
            raise ValueError(text)
        return from_date(date(*(int(part) for part in match.group(1, 2, 3))))
    except ValueError:
        raise DataError(f"not a date: '{text}' (expected YYYY-MM-DD)") from None


def microseconds_of(text: str) -> int:
    match = _TIMESTAMP.match(text)
    try:
        if match is None:
            raise ValueError(text)
        year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 4, 5, 6))
        fraction = int((match.group(7) or "0").ljust(6, "0")[:6])
        return from_datetime(datetime(year, month, day, hour, minute, second, fraction))
    except ValueError:
        raise DataError(f"not a timestamp: '{text}' (expected YYYY-MM-DD HH:MM:SS)") from None


def date_text(days: int) -> str:
    return to_date(days).isoformat()


def timestamp_text(microseconds: int) -> str:
    text = to_datetime(microseconds).isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text


def add_months_to_days(days: int, months: int) -> int:
    """The same day of the month, or the last one where the month is shorter."""
    day = to_date(days)
    month = day.year * 12 + day.month - 1 + months
    year, month = month // 12, month % 12 + 1
    if not 1 <= year <= 9999:
        raise DataError(f"date out of range: {day} plus {months} months")
    return from_date(date(year, month, min(day.day, _month_length(year, month))))


def _month_length(year: int, month: int) -> int:
    following = date(year + month // 12, month % 12 + 1, 1) if (year, month) != (9999, 12) else None
    return 31 if following is None else (following - timedelta(days=1)).day


PARTS: dict[str, Callable[[datetime], int]] = {
    "year": lambda t: t.year,
    "quarter": lambda t: (t.month + 2) // 3,
    "month": lambda t: t.month,
    "week": lambda t: t.isocalendar()[1],
    "day": lambda t: t.day,
    "dayofweek": lambda t: t.isoweekday() % 7,
    "isodow": lambda t: t.isoweekday(),
    "dayofyear": lambda t: t.timetuple().tm_yday,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "millisecond": lambda t: t.second * 1000 + t.microsecond // 1000,
    "microsecond": lambda t: t.second * 1_000_000 + t.microsecond,
}
"""What EXTRACT knows; Sunday is day 0 of the week, as in DuckDB."""


def _midnight(moment: datetime, month: int | None = None, day: int | None = None) -> datetime:
    return datetime(moment.year, month or moment.month, day or moment.day)


TRUNCATIONS: dict[str, Callable[[datetime], datetime]] = {
    "year": lambda t: _midnight(t, month=1, day=1),
    "quarter": lambda t: _midnight(t, month=(t.month - 1) // 3 * 3 + 1, day=1),
    "month": lambda t: _midnight(t, day=1),
    "week": lambda t: _midnight(t) - timedelta(days=t.weekday()),
    "day": lambda t: _midnight(t),
    "hour": lambda t: t.replace(minute=0, second=0, microsecond=0),
    "minute": lambda t: t.replace(second=0, microsecond=0),
    "second": lambda t: t.replace(microsecond=0),
}


def boundary_number(unit: str, moment: datetime) -> int:
    """The number of `unit` boundaries passed since a fixed origin; DATE_DIFF subtracts two of these."""
    if unit == "year":
        return moment.year
    if unit == "quarter":
        return moment.year * 4 + (moment.month - 1) // 3
    if unit == "month":
        return moment.year * 12 + moment.month - 1
    seconds = from_datetime(moment) // 1_000_000
    return seconds // {"hour": 3600, "minute": 60, "second": 1}[unit]


BOUNDARY_UNITS = ("year", "quarter", "month", "hour", "minute", "second")
"""Units of DATE_DIFF that count the boundaries between two moments; days and weeks are differences of dates."""
DIFFERENCE_UNITS = (*BOUNDARY_UNITS, "week", "day")
