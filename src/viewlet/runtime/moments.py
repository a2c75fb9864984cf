"""Functions of dates (days since 1970-01-01) and timestamps (microseconds) for generated code.

Days are those of the proleptic Gregorian calendar from year 1 to 9999, as in Python; others are an error, which Python
raises.
"""

from __future__ import annotations

from typing import Any

from viewlet.runtime.arithmetic import month_of, year_of
from viewlet.runtime.functions import ask
from viewlet.runtime.jit import compiled

_FIRST, _LAST = -719162, 2932896  # 0001-01-01 and 9999-12-31
_DAY = 86_400_000_000


@compiled
def civil_day(days: Any, calls: Any, number: Any, control: Any) -> Any:
    """The day, which must be in the calendar."""
    if _FIRST <= days <= _LAST:
        return days
    ask(calls, number, (days,), control)
    return days * 0


@compiled
def civil_moment(moment: Any, calls: Any, number: Any, control: Any) -> Any:
    """The moment, which must be in the calendar."""
    if _FIRST <= moment // _DAY <= _LAST:
        return moment
    ask(calls, number, (moment,), control)
    return moment * 0


@compiled
def day_of_moment(moment: Any, calls: Any, number: Any, control: Any) -> Any:
    """The day of a moment, which must be in the calendar."""
    return civil_moment(moment, calls, number, control) // _DAY


@compiled
def first_of(year: Any, month: Any) -> Any:
    """The first day of a month."""
    shifted = year - (1 if month <= 2 else 0)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


@compiled
def quarter_of(days: Any) -> Any:
    return (month_of(days) + 2) // 3


@compiled
def day_of(days: Any) -> Any:
    """The day of the month, from 1."""
    return days - first_of(year_of(days), month_of(days)) + 1


@compiled
def day_of_year(days: Any) -> Any:
    return days - first_of(year_of(days), 1) + 1


@compiled
def weekday_of(days: Any) -> Any:
    """Monday is 0."""
    return (days + 3) % 7


@compiled
def week_start(days: Any) -> Any:
    """The Monday of the week."""
    return days - weekday_of(days)


@compiled
def week_of(days: Any) -> Any:
    """The week of the ISO calendar: that of its Thursday."""
    thursday = days - weekday_of(days) + 3
    return (thursday - first_of(year_of(thursday), 1)) // 7 + 1


@compiled
def year_start(days: Any) -> Any:
    return first_of(year_of(days), 1)


@compiled
def quarter_start(days: Any) -> Any:
    return first_of(year_of(days), (month_of(days) - 1) // 3 * 3 + 1)


@compiled
def month_start(days: Any) -> Any:
    return first_of(year_of(days), month_of(days))


@compiled
def months_of(days: Any) -> Any:
    """Months since the year 0."""
    return year_of(days) * 12 + month_of(days) - 1


@compiled
def add_months(days: Any, months: Any, calls: Any, number: Any, control: Any) -> Any:
    """The same day of another month, or its last one where it is shorter."""
    if _FIRST <= days <= _LAST and -1_000_000 < months < 1_000_000:
        month = months_of(days) + months
        if 12 <= month < 120_000:
            first, following = first_of(month // 12, month % 12 + 1), first_of((month + 1) // 12, (month + 1) % 12 + 1)
            return first + min(day_of(days), following - first) - 1
    return ask(calls, number, (days, months), control)


@compiled
def add_months_to_moment(moment: Any, months: Any, calls: Any, number: Any, control: Any) -> Any:
    """The same time of another month."""
    days = moment // _DAY
    if _FIRST <= days <= _LAST and -1_000_000 < months < 1_000_000:
        month = months_of(days) + months
        if 12 <= month < 120_000:
            return add_months(days, months, calls, number, control) * _DAY + moment % _DAY
    return ask(calls, number, (moment, months), control)
