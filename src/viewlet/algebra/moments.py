"""Functions of dates and timestamps: parts, truncation, differences, shifts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime

from viewlet.algebra.calendar import (
    BOUNDARY_UNITS,
    MICROSECONDS_PER_DAY,
    PARTS,
    TRUNCATIONS,
    add_months_to_days,
    boundary_number,
    from_datetime,
    to_datetime,
)
from viewlet.algebra.scalar_function import Function, Implementation, Types, simple
from viewlet.types import Kind, SqlType


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


TEMPORAL: dict[str, Function] = {
    "add_days": simple(operator.add),
    "add_months": Function(True, _add_months),
    "add_microseconds": simple(operator.add),
    "date_diff_days": simple(operator.sub),
    **{f"extract_{name}": _part(get) for name, get in PARTS.items()},
    **{f"date_trunc_{unit}": _truncation(truncate) for unit, truncate in TRUNCATIONS.items()},
    **{f"date_diff_{unit}s": _difference(unit) for unit in BOUNDARY_UNITS},
}
