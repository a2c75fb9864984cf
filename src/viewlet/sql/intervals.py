"""Dates and intervals: `x + INTERVAL 3 MONTH` as months plus microseconds added to a moment.

An interval is not a value of its own; it appears only beside the moment it is added to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from viewlet.algebra.calendar import MICROSECONDS_PER_DAY
from viewlet.algebra.nodes import Const, Scalar
from viewlet.sql.builtins import moment, whole
from viewlet.sql.coerce import arithmetic, cast_to, constant, read_literal, strict
from viewlet.sql.source import MismatchError, whole_number
from viewlet.types import BIGINT, DATE, TIMESTAMP, Kind

_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": MICROSECONDS_PER_DAY,
    "week": 7 * MICROSECONDS_PER_DAY,
}
_AMOUNT = re.compile(r"\s*([+-]?\d+)\s*([a-zA-Z]+)\s*")


@dataclass(frozen=True, slots=True)
class Interval:
    months: Scalar
    microseconds: Scalar

    def negated(self) -> Interval:
        return Interval(strict("neg", self.months, type=BIGINT), strict("neg", self.microseconds, type=BIGINT))


def read_interval(node: exp.Interval, bind: Callable[[exp.Expr], Scalar]) -> Interval:
    amount, unit = node.this, node.args.get("unit")
    if unit is None and isinstance(amount, exp.Literal):
        return _from_text(str(amount.this))
    if amount is None or unit is None:
        raise MismatchError("an interval needs an amount and a unit")
    if isinstance(amount, exp.Literal):
        count: Scalar = constant(_amount(str(amount.this)), BIGINT)
    else:
        count = cast_to(whole(bind(amount)), BIGINT)
    return _of(count, str(unit.name))


def _amount(text: str) -> int:
    number = whole_number(text.strip().lstrip("+-"))
    if number is None or number >= 1 << 63:
        raise MismatchError(f"an interval needs a whole number, not '{text}'")
    return -number if text.strip().startswith("-") else number


def _from_text(text: str) -> Interval:
    months = microseconds = 0
    position = 0
    for match in _AMOUNT.finditer(text):
        part = _of(constant(_amount(match.group(1)), BIGINT), match.group(2))
        assert isinstance(part.months, Const)
        assert isinstance(part.microseconds, Const)
        months += int(part.months.value or 0)
        microseconds += int(part.microseconds.value or 0)
        position = match.end()
    if position != len(text) or not text.strip():
        raise MismatchError(f"not an interval: '{text}'")
    return Interval(constant(months, BIGINT), constant(microseconds, BIGINT))


def _of(count: Scalar, unit: str) -> Interval:
    name = unit.lower().rstrip("s")
    name = {"centurie": "century"}.get(name, name)
    zero = constant(0, BIGINT)
    if name in _MONTHS:
        return Interval(arithmetic("*", count, constant(_MONTHS[name], BIGINT)), zero)
    if name in _MICROSECONDS:
        return Interval(zero, arithmetic("*", count, constant(_MICROSECONDS[name], BIGINT)))
    raise MismatchError(f"unknown unit of time '{unit}'")


def shift(start: Scalar, interval: Interval) -> Scalar:
    """A moment plus an interval: a TIMESTAMP, also for a DATE, as in DuckDB."""
    result = cast_to(moment(start), TIMESTAMP)
    if not _is_zero(interval.months):
        result = strict("add_months", result, interval.months, type=TIMESTAMP)
    if not _is_zero(interval.microseconds):
        result = strict("add_microseconds", result, interval.microseconds, type=TIMESTAMP)
    return result


def _is_zero(scalar: Scalar) -> bool:
    return isinstance(scalar, Const) and scalar.value == 0


def date_arithmetic(op: str, a: Scalar, b: Scalar) -> Scalar | None:
    """DATE + days, days + DATE, DATE - days, DATE - DATE; None where no date is involved."""
    if a.type.kind is not Kind.DATE and b.type.kind is not Kind.DATE:
        if Kind.TIMESTAMP in (a.type.kind, b.type.kind):
            raise MismatchError(f"{a.type} {op} {b.type} is not defined: use DATE_DIFF or an INTERVAL")
        return None
    a, b = (read_literal(a, DATE), read_literal(b, DATE)) if op == "-" else (a, b)
    if op == "-" and a.type.kind is b.type.kind is Kind.DATE:
        return strict("date_diff_days", a, b, type=BIGINT)
    if op == "+" and b.type.kind is Kind.DATE:
        a, b = b, a
    if a.type.kind is Kind.DATE and b.type.is_integer and op in ("+", "-"):
        days = b if op == "+" else strict("neg", b, type=b.type)
        return strict("add_days", a, days, type=DATE)
    raise MismatchError(f"{a.type} {op} {b.type} is not defined")
