"""Functions of dates and timestamps as SQL text: parts, truncation, differences, shifts."""

from __future__ import annotations

from viewlet.algebra.calendar import BOUNDARY_UNITS, PARTS, TRUNCATIONS
from viewlet.algebra.nodes import Call
from viewlet.sqlgen.casts import floor_quotient
from viewlet.sqlgen.dialects import Dialect
from viewlet.sqlgen.function import Terms, Writer
from viewlet.types import Kind, SqlType

_SECONDS = {"hour": 3600, "minute": 60, "second": 1}


def _moment(sql: str, type: SqlType, dialect: Dialect) -> str:
    return f"CAST({sql} AS {dialect.timestamp})" if type.kind is Kind.DATE else sql


def _part(name: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        (term,) = args
        return dialect.cast(dialect.part(name, _moment(term.sql, term.type, dialect)), node.type)

    return write


def _truncation(unit: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        (term,) = args
        return dialect.truncated(unit, _moment(term.sql, term.type, dialect))

    return write


def _difference(unit: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        first, second = (_boundary(unit, _moment(term.sql, term.type, dialect), dialect) for term in args)
        return dialect.cast(f"({second} - {first})", node.type)

    return write


def _boundary(unit: str, moment: str, dialect: Dialect) -> str:
    """The number of boundaries of `unit` passed since a fixed origin."""
    year, quarter, month = (dialect.part(name, moment) for name in ("year", "quarter", "month"))
    match unit:
        case "year":
            return year
        case "quarter":
            return f"({year} * 4 + {quarter})"
        case "month":
            return f"({year} * 12 + {month})"
        case _:
            return floor_quotient(dialect.microseconds(moment), _SECONDS[unit] * 1_000_000, False, dialect)


def _add_days(node: Call, args: Terms, dialect: Dialect) -> str:
    return dialect.add_days(args[0].sql, args[1].sql)


def _add_months(node: Call, args: Terms, dialect: Dialect) -> str:
    return dialect.add_months(args[0].sql, args[1].sql, args[0].type.kind is Kind.DATE)


def _add_microseconds(node: Call, args: Terms, dialect: Dialect) -> str:
    return dialect.add_microseconds(args[0].sql, args[1].sql)


def _days_between(node: Call, args: Terms, dialect: Dialect) -> str:
    return dialect.cast(f"({dialect.days(args[0].sql)} - {dialect.days(args[1].sql)})", node.type)


TEMPORAL: dict[str, Writer] = {
    "add_days": _add_days,
    "add_months": _add_months,
    "add_microseconds": _add_microseconds,
    "date_diff_days": _days_between,
    **{f"extract_{name}": _part(name) for name in PARTS},
    **{f"date_trunc_{unit}": _truncation(unit) for unit in TRUNCATIONS},
    **{f"date_diff_{unit}s": _difference(unit) for unit in BOUNDARY_UNITS},
}
