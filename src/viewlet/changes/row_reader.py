"""A few rows for one table, with converters that are chosen once: lists of tuples or dicts, and small Arrow batches.

What a value means is said by `viewlet.changes.to_changes`. A reader converts the common cases the same way. Anything
else (a value that has to be refused, a column in another case, a `_multiplicity`) has no result here, and `to_changes`
converts it or names what is wrong.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from datetime import date
from typing import Protocol

from viewlet.changes.arrow_reader import ArrowReader
from viewlet.changes.change import Changes
from viewlet.changes.values import EPOCH_DAY, Misfit, converter, integer_range, too_long
from viewlet.types import Column, Datum, Kind, Table

Cell = Callable[[object], Datum]


class Reader(Protocol):
    """Reads rows as a change."""

    def read(self, data: object, sign: int = 1, encoded: bool = False) -> Changes | None: ...


def reader_of(table: Table) -> Reader:
    """What reads the rows of a table."""
    from viewlet.changes.generated import GeneratedReader, generated_columns

    return GeneratedReader(table) if generated_columns(table) else RowReader(table)


class RowReader:
    """Reads the rows of one table."""

    __slots__ = ("_arrow", "_cells", "_known", "_names")

    def __init__(self, table: Table) -> None:
        self._names = table.column_names
        self._known = frozenset(self._names)
        self._arrow = ArrowReader(table)
        self._cells = tuple(_cell(table, column) for column in table.columns)

    def read(self, data: object, sign: int = 1, encoded: bool = False) -> Changes | None:
        """The rows times a sign, or times what they say when `encoded`; None if `to_changes` has to convert them."""
        if type(data) is not list:
            return self._arrow.read(data, sign, encoded)
        if not data:
            return None
        try:
            return self._dicts(data, sign) if type(data[0]) is dict else self._tuples(data, sign)
        except (Misfit, ValueError, TypeError, ArithmeticError):
            return None

    def _tuples(self, rows: list[object], sign: int) -> Changes | None:
        cells, changes = self._cells, Changes()
        for given in rows:
            if type(given) is not tuple and type(given) is not list:
                return None
            row = tuple([cell(value) for cell, value in zip(cells, given, strict=True)])
            changes[row] = changes.get(row, 0) + sign
        return changes

    def _dicts(self, rows: list[object], sign: int) -> Changes | None:
        names, known, cells, changes = self._names, self._known, self._cells, Changes()
        for given in rows:
            if type(given) is not dict or not given.keys() <= known:
                return None
            row = tuple([cell(given.get(name)) for cell, name in zip(cells, names, strict=True)])
            changes[row] = changes.get(row, 0) + sign
        return changes


def _cell(table: Table, column: Column) -> Cell:
    """The function that converts a value of a column, with short cuts for values that are held as they are given."""
    any_value, type_ = _any_value(table, column), column.type
    signed = column.name not in table.non_negative
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            low, high = integer_range(type_)
            low = low if signed else 0
            return lambda value: value if type(value) is int and low <= value <= high else any_value(value)
        case Kind.VARCHAR:
            longest = sys.maxsize if column.length is None else column.length
            return lambda v: v if type(v) is str and v.isascii() and len(v) <= longest else any_value(v)
        case Kind.DOUBLE if signed:
            return lambda value: value + 0.0 if type(value) is float and math.isfinite(value) else any_value(value)
        case Kind.DATE:
            return lambda value: value.toordinal() - EPOCH_DAY if type(value) is date else any_value(value)
        case _:
            return any_value


def _any_value(table: Table, column: Column) -> Cell:
    convert = converter(column.type)
    required = not column.type.nullable or column.name in table.primary_key
    signed, longest = column.name not in table.non_negative, column.length

    def cell(value: object) -> Datum:
        if value is None:
            if required:
                raise Misfit("the column is NOT NULL")
            return None
        held = convert(value)
        if longest is not None and isinstance(held, str) and len(held) > longest:
            raise Misfit(too_long(column, held))
        if not signed and isinstance(held, int | float) and held < 0:
            raise Misfit("the column is not negative")
        return held

    return cell
