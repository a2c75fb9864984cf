"""Functions of dates and timestamps as code: parts, truncation, differences, shifts."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.calendar import MICROSECONDS_PER_DAY
from viewlet.algebra.nodes import Call
from viewlet.codegen.bounds import WORD, reach
from viewlet.codegen.functions.writer import FunctionWriter, Support, strict
from viewlet.codegen.word import Word
from viewlet.types import BIGINT, Kind

_DAY_PARTS = {
    "year": "year_of({0})",
    "quarter": "quarter_of({0})",
    "month": "month_of({0})",
    "week": "week_of({0})",
    "day": "day_of({0})",
    "dayofweek": "((weekday_of({0}) + 1) % 7)",
    "isodow": "(weekday_of({0}) + 1)",
    "dayofyear": "day_of_year({0})",
}
_SECOND = 1_000_000
_TIME_PARTS = {
    "hour": (MICROSECONDS_PER_DAY, 3600 * _SECOND),
    "minute": (3600 * _SECOND, 60 * _SECOND),
    "second": (60 * _SECOND, _SECOND),
    "millisecond": (60 * _SECOND, 1000),
    "microsecond": (60 * _SECOND, 1),
}
_DAY_STARTS = {
    "year": "year_start({0})",
    "quarter": "quarter_start({0})",
    "month": "month_start({0})",
    "week": "week_start({0})",
    "day": "{0}",
}
_TIME_UNITS = {"hour": 3600 * _SECOND, "minute": 60 * _SECOND, "second": _SECOND}
_DAY_NUMBERS = {
    "year": "year_of({0})",
    "quarter": "(months_of({0}) // 3)",
    "month": "months_of({0})",
}


def _day(support: Support, call: Call, position: int, word: Word) -> str:
    """The day of an argument, which must be in the calendar."""
    arg = call.args[position]
    function = "civil_day" if arg.type.kind is Kind.DATE else "day_of_moment"
    return f"{function}({word.code}, {support.asking(_failing(call, position))})"


def _moment(support: Support, call: Call, position: int, word: Word) -> str:
    """The moment of an argument, which must be in the calendar."""
    if call.args[position].type.kind is Kind.DATE:
        return f"({_day(support, call, position, word)} * {MICROSECONDS_PER_DAY})"
    return f"civil_moment({word.code}, {support.asking(_failing(call, position))})"


def _failing(call: Call, position: int) -> Call:
    """A call that fails as the given one does because of one of its arguments."""
    return Call("extract_year", (call.args[position],), BIGINT.with_nullable(call.args[position].type.nullable))


def _part(name: str) -> FunctionWriter:
    def write(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
        if name in _TIME_PARTS:
            whole, unit = _TIME_PARTS[name]
            return strict(f"({_moment(support, call, 0, words[0])} % {whole} // {unit})", words)
        simple = name in ("year", "month") and call.args[0].type.kind is Kind.DATE
        day = words[0].code if simple else _day(support, call, 0, words[0])
        return strict(_DAY_PARTS[name].format(day), words)

    return write


def _truncation(unit: str) -> FunctionWriter:
    def write(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
        if unit in _TIME_UNITS:
            moment = _moment(support, call, 0, words[0])
            return strict(f"({moment} // {_TIME_UNITS[unit]} * {_TIME_UNITS[unit]})", words)
        day = _day(support, call, 0, words[0])
        return strict(f"({_DAY_STARTS[unit].format(day)} * {MICROSECONDS_PER_DAY})", words)

    return write


def _difference(unit: str) -> FunctionWriter:
    def number(support: Support, call: Call, position: int, word: Word) -> str:
        if unit in _TIME_UNITS:
            return f"({_moment(support, call, position, word)} // {_TIME_UNITS[unit]})"
        return _DAY_NUMBERS[unit].format(_day(support, call, position, word))

    def write(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
        first, second = (number(support, call, i, word) for i, word in enumerate(words))
        return strict(f"({second} - {first})", words)

    return write


def _add(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    a, b = words
    if reach(call.args[0]) + reach(call.args[1]) < WORD:
        return strict(f"({a.code} + {b.code})", words)
    return strict(f"checked_add({a.code}, {b.code}, OVERFLOW, control)", words)


def _days_between(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    return strict(f"({words[0].code} - {words[1].code})", words)


def _add_months(support: Support, call: Call, words: Sequence[Word]) -> Word | None:
    function = "add_months" if call.args[0].type.kind is Kind.DATE else "add_months_to_moment"
    return strict(f"{function}({words[0].code}, {words[1].code}, {support.asking(call)})", words)


CALENDAR: dict[str, FunctionWriter] = {
    "add_days": _add,
    "add_months": _add_months,
    "add_microseconds": _add,
    "date_diff_days": _days_between,
    **{f"extract_{name}": _part(name) for name in (*_DAY_PARTS, *_TIME_PARTS)},
    **{f"date_trunc_{unit}": _truncation(unit) for unit in (*_DAY_STARTS, *_TIME_UNITS)},
    **{f"date_diff_{unit}s": _difference(unit) for unit in (*_DAY_NUMBERS, *_TIME_UNITS)},
}
