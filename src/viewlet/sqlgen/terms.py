"""Scalars as SQL text, and the two forms of a decimal.

A value of the calculus is what SQL calls by the same type, except for decimals, which are numbers of units: 1.25 of
DECIMAL(6,2) is the integer 125. Arithmetic, sums and joins of different sources are exact that way in any dialect,
whatever it makes of the scale of a product. Columns of base tables stay decimals as long as they are only compared,
grouped and joined with each other and with constants: statistics and filters of the source remain usable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewlet.algebra.calendar import date_text, timestamp_text
from viewlet.algebra.casts import decimal_text
from viewlet.algebra.nodes import Const
from viewlet.sqlgen.dialects import Dialect
from viewlet.types import Kind, SqlType


@dataclass(frozen=True, slots=True)
class Term:
    """SQL text of a value. `is_native` marks decimals that are decimals in SQL too."""

    sql: str
    type: SqlType
    nullable: bool = True
    is_native: bool = False
    constant: Const | None = None

    def renamed(self, sql: str) -> Term:
        """The same value where it has become a column of another relation."""
        return replace(self, sql=sql, constant=None)


def constant_term(constant: Const, dialect: Dialect) -> Term:
    return Term(_literal(constant, dialect), constant.type, constant.value is None, constant=constant)


def in_units(term: Term, dialect: Dialect) -> str:
    """The engine's representation; only decimals have another."""
    if not term.is_native:
        return term.sql
    return dialect.cast(f"{term.sql} * {10**term.type.scale}" if term.type.scale else term.sql, term.type)


def alike(terms: tuple[Term, ...], dialect: Dialect) -> tuple[str, ...]:
    """Terms of one type in one form: as SQL decimals where nothing has to be converted for it."""
    if any(term.is_native for term in terms) and all(term.is_native or term.constant is not None for term in terms):
        return tuple(term.sql if term.is_native else _native_literal(term) for term in terms)
    return tuple(in_units(term, dialect) for term in terms)


def equality(left: Term, right: Term, dialect: Dialect) -> str:
    """Equality of values as variables mean it: NULL equals NULL."""
    a, b = alike((left, right), dialect)
    return f"{a} IS NOT DISTINCT FROM {b}" if left.nullable and right.nullable else f"{a} = {b}"


def word(term: Term, dialect: Dialect) -> str:
    """What a loader gets to see: integers, units of decimals, days and microseconds; strings as they are."""
    sql = in_units(term, dialect)
    match term.type.kind:
        case Kind.DATE:
            return f"CAST({dialect.days(sql)} AS BIGINT)"
        case Kind.TIMESTAMP:
            return dialect.microseconds(sql)
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return f"CAST({sql} AS BIGINT)"
        case _:
            return dialect.cast(sql, term.type)


def _native_literal(term: Term) -> str:
    value = term.constant.value if term.constant is not None else None
    return "NULL" if value is None else f"({decimal_text(int(value), term.type.scale)})"


def _literal(constant: Const, dialect: Dialect) -> str:
    value, type = constant.value, constant.type
    if value is None:
        return dialect.cast("NULL", type)
    if isinstance(value, str):
        return dialect.string(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    match type.kind:
        case Kind.DATE:
            return f"DATE '{date_text(int(value))}'"
        case Kind.TIMESTAMP:
            return f"{dialect.timestamp} '{timestamp_text(int(value))}'"
        case Kind.REAL | Kind.DOUBLE:
            return f"CAST('{float(value)!r}' AS DOUBLE)"
        case _:
            return str(value) if value >= 0 else f"({value})"
