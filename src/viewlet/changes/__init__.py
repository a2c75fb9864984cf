"""The edge: what users hand in becomes changes (`change.py`), and rows become Arrow again.

Rows of a change are in the representation of `viewlet.types` and have multiplicities:

    insert("t", [(1, "2026-01-02"), (1, "2026-01-02")])   ->   {(1, 20455): 2}

Values are taken leniently (an ISO string is a date, a whole float of a pandas column is an integer) but exactly: a
value that would have to be rounded is refused. Every refusal names table, column, row (counted from 1) and value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from viewlet.changes.arrow import MULTIPLICITY, added_up, arrow_type, rows_to_arrow, sorted_rows
from viewlet.changes.change import Change, Changes, ColumnChange, RowChange
from viewlet.changes.keys import CHANGE_TYPE, UPSERT
from viewlet.changes.sources import Source, open_source
from viewlet.changes.values import Misfit, converter, plain, row_to_python, to_python, too_long
from viewlet.errors import DataError
from viewlet.types import Column, Datum, Kind, Row, SqlType, Table
from viewlet.visible import described

__all__ = [
    "CHANGE_TYPE",
    "CHANGE_TYPES",
    "MULTIPLICITY",
    "Change",
    "Changes",
    "ColumnChange",
    "RowChange",
    "added_up",
    "arrow_type",
    "describe_row",
    "did_you_mean",
    "match_columns",
    "row_to_python",
    "rows_to_arrow",
    "sorted_rows",
    "to_changes",
    "to_python",
]

CHANGE_TYPES = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


def to_changes(table: Table, data: object, sign: int = 1, encoded: bool = False) -> Changes:
    """The rows that `data` adds to `table`, or takes out: times `sign`, or times what they say when `encoded`."""
    source = open_source(table, data)
    matched = match_columns(table, source.names)
    weights = _weights(table, source, matched, encoded) or [1] * source.length
    rows = zip(*(_column(table, column, source, matched) for column in table.columns), strict=True)
    changes: Changes = {}
    for row, weight in zip(rows, weights, strict=True):
        changes[row] = changes.get(row, 0) + sign * weight
    return changes if all(changes.values()) else {row: weight for row, weight in changes.items() if weight}


def describe_row(table: Table, row: Row) -> str:
    """A row as a user would write it, for messages.

    >>> from viewlet.types import BIGINT, decimal
    >>> describe_row(Table("t", (Column("k", BIGINT), Column("v", decimal(9, 2)))), (7, 150))
    "(k=7, v=Decimal('1.50'))"
    """
    shown = (
        f"{column.name}={to_python(column.type)(value)!r}" for column, value in zip(table.columns, row, strict=True)
    )
    return f"({', '.join(shown)})"


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint for a misspelt name, or nothing."""
    close = difflib.get_close_matches(name.lower(), list(candidates), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def match_columns(table: Table, given: Sequence[str]) -> dict[str, str]:
    """Which given name supplies which column: the exact name first, then the name in any case."""
    known = {*table.column_names, MULTIPLICITY, CHANGE_TYPE}
    folded = {name.lower(): name for name in known}
    matched: dict[str, str] = {}
    for name in given:
        column = name if name in known else folded.get(str(name).lower())
        if column is None:
            raise DataError(f"{table.name} has no column {name!r}" + did_you_mean(str(name), table.column_names))
        if column in matched:
            raise DataError(f"{table.name}: column {column!r} is given twice, as {matched[column]!r} and {name!r}")
        matched[column] = name
    return matched


def _column(table: Table, column: Column, source: Source, matched: Mapping[str, str]) -> Sequence[Datum]:
    required = not column.type.nullable or column.name in table.primary_key
    if column.name not in matched:
        if required and source.length:
            raise DataError(f"{table.name}.{column.name} is missing, and it cannot be NULL")
        return [None] * source.length
    given = matched[column.name]
    internal = source.internal(given, column.type)
    if internal is None:
        internal = _convert(table, column, source.values(given, column.type))
    if required and None in internal:
        reason = "a PRIMARY KEY cannot be NULL" if column.name in table.primary_key else "the column is NOT NULL"
        raise _refusal(table, column.name, internal.index(None), None, reason)
    if column.length is not None:
        for number, value in enumerate(internal):
            if isinstance(value, str) and len(value) > column.length:
                raise _refusal(table, column.name, number, value, too_long(column, value))
    if column.name in table.non_negative:
        for number, value in enumerate(internal):
            if isinstance(value, int | float) and value < 0:
                shown = to_python(column.type)(value)
                raise _refusal(table, column.name, number, shown, f"CHECK ({column.name} >= 0)")
    return internal


def _convert(table: Table, column: Column, values: Sequence[object]) -> list[Datum]:
    convert = converter(column.type)
    converted: list[Datum] = []
    for value in values:
        try:
            converted.append(None if value is None else convert(value))
        except (Misfit, ValueError, TypeError, ArithmeticError) as error:
            reason = str(error) if isinstance(error, Misfit) else f"not a {column.type}"
            raise _refusal(table, column.name, len(converted), value, reason) from None
    return converted


def _weights(table: Table, source: Source, matched: Mapping[str, str], encoded: bool) -> list[int] | None:
    present = [name for name in (MULTIPLICITY, CHANGE_TYPE) if name in matched]
    if not present:
        return None
    if not encoded:
        raise DataError(f"{table.name}: {present[0]!r} is a column of changes; hand them to apply()")
    if len(present) == 2:
        raise DataError(f"{table.name}: give {MULTIPLICITY!r} or {CHANGE_TYPE!r}, not both")
    (name,) = present
    weigh = _multiplicity if name == MULTIPLICITY else _change_type
    weights: list[int] = []
    for value in source.values(matched[name], SqlType(Kind.BIGINT)):
        try:
            weights.append(weigh(value))
        except Misfit as error:
            raise _refusal(table, name, len(weights), value, str(error)) from None
    return weights


def _multiplicity(value: object) -> int:
    value = plain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Misfit("a multiplicity is an integer")
    return value


def _change_type(value: object) -> int:
    if not isinstance(value, str) or value.lower() not in CHANGE_TYPES:
        raise Misfit(f"expected one of {', '.join((*CHANGE_TYPES, UPSERT))}")
    return CHANGE_TYPES[value.lower()]


def _refusal(table: Table, column: str, index: int, value: object, reason: str) -> DataError:
    shown = "NULL" if value is None else described(value)
    kind = next((f" ({each.declared})" for each in table.columns if each.name == column), "")
    return DataError(f"{table.name}.{column}{kind}, row {index + 1}: {shown} is refused: {reason}")
