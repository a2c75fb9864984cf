"""Conversions of values as SQL text, with the rounding of `viewlet.algebra.casts`."""

from __future__ import annotations

from viewlet.sqlgen.dialects import Dialect, unsupported
from viewlet.sqlgen.terms import Term, in_units
from viewlet.types import Kind, SqlType

_TRUE_WORDS = "('true', 't', 'yes', 'y', '1')"
_FALSE_WORDS = "('false', 'f', 'no', 'n', '0')"
WHOLE_DOUBLES = "9e15"
"""Every double from here on is a whole number."""


def cast(term: Term, target: SqlType, dialect: Dialect) -> str:
    """The value of `term` as a value of `target`; digits lost are rounded, halves away from zero."""
    source = term.type
    if target.kind is Kind.DECIMAL:
        return _to_decimal(term, target, dialect)
    if target.kind is source.kind or target.kind is Kind.NULL:
        return in_units(term, dialect)
    if target.is_integer:
        return _to_integer(term, target, dialect)
    if target.is_float:
        return _to_float(term, target, dialect)
    match target.kind:
        case Kind.BOOLEAN:
            return _to_boolean(term, dialect)
        case Kind.VARCHAR:
            return _to_text(term, dialect)
        case _:
            return dialect.cast(term.sql, target)


def divide_half_away(value: str, unit: int, wide: bool, dialect: Dialect) -> str:
    """An integer divided by a positive one, halves away from zero."""
    rounded = dialect.divide(f"(2 * ABS({value}) + {unit})", str(2 * unit), wide)
    return f"(CASE WHEN {value} >= 0 THEN {rounded} ELSE -{rounded} END)"


def floor_quotient(value: str, unit: int, wide: bool, dialect: Dialect) -> str:
    """The largest integer that is not above value / unit."""
    below = dialect.divide(f"({value} - {unit - 1})", str(unit), wide)
    return f"(CASE WHEN {value} >= 0 THEN {dialect.divide(value, str(unit), wide)} ELSE {below} END)"


def round_half_away(value: str) -> str:
    """A double rounded to a whole number, a double."""
    size = f"ABS({value})"
    up = f"CAST(FLOOR({size}) AS DOUBLE) + CASE WHEN {size} - FLOOR({size}) >= 0.5 THEN 1 ELSE 0 END"
    return f"(CASE WHEN {size} >= {WHOLE_DOUBLES} THEN {value} WHEN {value} >= 0 THEN {up} ELSE -({up}) END)"


def _to_decimal(term: Term, target: SqlType, dialect: Dialect) -> str:
    source, sql = term.type, in_units(term, dialect)
    wide = target.is_wide or source.is_wide
    if source.kind is Kind.VARCHAR:
        parsed = f"CAST(TRIM({sql}) AS DECIMAL(38,{target.scale}))"
        return dialect.cast(f"{parsed} * {10**target.scale}", target)
    if source.is_float:
        return dialect.cast(round_half_away(f"({sql} * CAST('1e{target.scale}' AS DOUBLE))"), target)
    if source.kind is Kind.BOOLEAN:
        sql = f"CAST({sql} AS INTEGER)"
    gain = target.scale - (source.scale if source.kind is Kind.DECIMAL else 0)
    if gain < 0:
        held = f"CAST({sql} AS {dialect.wide})" if wide else sql
        return dialect.cast(divide_half_away(held, 10**-gain, wide, dialect), target)
    return f"({dialect.cast(sql, target)} * {10**gain})" if gain else dialect.cast(sql, target)


def _to_integer(term: Term, target: SqlType, dialect: Dialect) -> str:
    source, sql = term.type, in_units(term, dialect)
    if source.is_float:
        return dialect.cast(dialect.half_even(sql), target)
    if source.kind is Kind.DECIMAL:
        return dialect.cast(divide_half_away(sql, 10**source.scale, source.is_wide, dialect), target)
    if source.kind is Kind.VARCHAR:
        return dialect.cast(f"CAST(TRIM({sql}) AS DECIMAL(38,0))", target)
    return dialect.cast(sql, target)


def _to_float(term: Term, target: SqlType, dialect: Dialect) -> str:
    if term.type.kind is Kind.DECIMAL and not term.is_native:
        number = f"(CAST({term.sql} AS DOUBLE) / {_double(10**term.type.scale)})"
    else:
        number = f"CAST({term.sql} AS DOUBLE)"
    return dialect.single(number) if target.kind is Kind.REAL else number


def _double(number: int) -> str:
    return f"CAST('{float(number)!r}' AS DOUBLE)"


def _to_boolean(term: Term, dialect: Dialect) -> str:
    sql = in_units(term, dialect)
    if term.type.kind is not Kind.VARCHAR:
        return f"({sql} <> 0)"
    word = f"LOWER(TRIM({sql}))"
    refusal = dialect.failure("not a boolean")
    return (
        f"(CASE WHEN {word} IN {_TRUE_WORDS} THEN TRUE WHEN {word} IN {_FALSE_WORDS} THEN FALSE "
        f"WHEN {word} IS NULL THEN NULL ELSE {refusal} END)"
    )


def _to_text(term: Term, dialect: Dialect) -> str:
    type, sql = term.type, in_units(term, dialect)
    if type.is_float:
        raise unsupported(f"the text of a {type}")
    if type.kind is Kind.BOOLEAN:
        return f"(CASE WHEN {sql} THEN 'true' WHEN NOT {sql} THEN 'false' END)"
    if type.kind is not Kind.DECIMAL or type.scale == 0:
        return f"CAST({sql} AS {dialect.text})"
    unit, size = 10**type.scale, f"ABS({sql})"
    whole = f"CAST({dialect.divide(size, str(unit), type.is_wide)} AS {dialect.text})"
    fraction = f"LPAD(CAST({size} % {unit} AS {dialect.text}), {type.scale}, '0')"
    return f"(CASE WHEN {sql} < 0 THEN '-' ELSE '' END || {whole} || '.' || {fraction})"
