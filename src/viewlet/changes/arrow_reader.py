"""Arrow columns to internal values, by readers that are chosen once for a type, or for the schema of a table's batches.

What a value means is said by `viewlet.changes.to_changes`. A reader takes types that are those of the target, without a
Python object per date or decimal, and has no result for anything else. Arrays have been validated: no decimal has more
digits than its type says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from viewlet.changes.arrow import MULTIPLICITY
from viewlet.changes.change import Changes
from viewlet.changes.values import DAYS, MICROSECONDS, integer_range
from viewlet.types import Column, Datum, Kind, SqlType, Table

FEW_ROWS = 24
"""Rows of a batch up to which values cost less than arrays of words: those cost the same for one row and a hundred."""

Datums = Sequence[Datum]
DatumReader = Callable[[Any], "Datums | None"]
"""From an Arrow array to the values; None if one of them has to be refused."""


class _ColumnPlan(NamedTuple):
    """How a column of a batch is read, and what has to be checked of its array and values."""

    place: int
    read: DatumReader
    may_be_damaged: bool
    required: bool
    longest: int | None
    non_negative: bool


class ArrowReader:
    """Reads small batches of Arrow for one table."""

    __slots__ = ("_plan", "_table")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._plan: tuple[Any, tuple[_ColumnPlan, ...] | None] = (None, None)
        """The schema of the last batch, and how its columns are read: those of the table, then multiplicities."""

    def read(self, data: Any, sign: int, encoded: bool) -> Changes | None:
        """The rows times a sign, or times what they say when `encoded`; None if `to_changes` has to convert them."""
        if type(data).__module__ != "pyarrow.lib" or not 0 < getattr(data, "num_rows", 0) <= FEW_ROWS:
            return None
        import pyarrow as pa

        if isinstance(data, pa.Table):
            pieces = data.to_batches()
            if len(pieces) != 1:
                return None
            (data,) = pieces
        elif not isinstance(data, pa.RecordBatch):
            return None
        plan = self._plan_of(data.schema)
        if plan is None or (len(plan) > len(self._table.columns) and not encoded):
            return None
        columns = []
        for each in plan:
            datums = _read(data.column(each.place), each, pa.ArrowException)
            if datums is None:
                return None
            columns.append(datums)
        return _added_up(columns, len(self._table.columns), sign)

    def _plan_of(self, schema: Any) -> tuple[_ColumnPlan, ...] | None:
        known, plan = self._plan
        if known is None or known != schema:
            plan = _column_plans(self._table, schema)
            self._plan = schema, plan
        return plan


def _column_plans(table: Table, schema: Any) -> tuple[_ColumnPlan, ...] | None:
    """How the columns of a batch are read that has all of the table's, by their exact names, and multiplicities."""
    import pyarrow as pa

    places = {name: place for place, name in enumerate(schema.names)}
    wanted = table.columns
    if MULTIPLICITY in places:
        wanted = (*wanted, Column(MULTIPLICITY, SqlType(Kind.BIGINT, nullable=False)))
    if len(places) != len(schema.names) or places.keys() != {column.name for column in wanted}:
        return None
    plans = []
    for column in wanted:
        given = schema.types[places[column.name]]
        read = datum_reader(given, column.type)
        if read is None:
            return None
        plans.append(
            _ColumnPlan(
                places[column.name],
                read,
                not pa.types.is_primitive(given),
                not column.type.nullable or column.name in table.primary_key,
                column.length if column.type.kind is Kind.VARCHAR else None,
                column.name in table.non_negative,
            )
        )
    return tuple(plans)


def _read(array: Any, plan: _ColumnPlan, damage: type[Exception]) -> Datums | None:
    """The values of a column; None if one of them has to be refused."""
    if plan.may_be_damaged:
        try:
            array.validate(full=True)
        except damage:
            return None
    if plan.required and array.null_count:
        return None
    datums = plan.read(array)
    if datums is None:
        return None
    if plan.longest is not None and any(isinstance(text, str) and len(text) > plan.longest for text in datums):
        return None
    if plan.non_negative and any(isinstance(number, int | float) and number < 0 for number in datums):
        return None
    return datums


def _added_up(columns: list[Datums], width: int, sign: int) -> Changes:
    changes: Changes = {}
    if len(columns) == width:
        for row in zip(*columns, strict=True):
            changes[row] = changes.get(row, 0) + sign
        return changes
    weights: Any = columns.pop()
    for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
        changes[row] = changes.get(row, 0) + sign * weight
    return changes if all(changes.values()) else {row: weight for row, weight in changes.items() if weight}


def datums_of_arrow(column: Any, type: SqlType) -> Datums | None:
    """An Arrow column, perhaps in chunks, whose type is that of the target."""
    read = datum_reader(column.type, type)
    if read is None:
        return None
    if column.num_chunks == 1:
        return read(column.chunk(0))
    parts = [read(chunk) for chunk in column.chunks]
    found = [part for part in parts if part is not None]
    return [datum for part in found for datum in part] if len(found) == len(parts) else None


def datum_reader(given: Any, type: SqlType) -> DatumReader | None:
    """What reads Arrow arrays of a type as values of another, if the two agree."""
    import pyarrow as pa

    match type.kind:
        case Kind.DECIMAL if pa.types.is_decimal128(given) and given.scale == type.scale:
            if given.precision <= type.precision:
                return _unscaled
            limit = 10**type.precision - 1
            return lambda array: _within(_unscaled(array), -limit, limit)
        case Kind.DATE if pa.types.is_date32(given):
            return lambda array: _within(array.view(pa.int32()).to_pylist(), *DAYS)
        case Kind.TIMESTAMP if given == pa.timestamp("us"):
            return lambda array: _within(array.view(pa.int64()).to_pylist(), *MICROSECONDS)
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT if pa.types.is_integer(given):
            low, high = integer_range(type)
            if pa.types.is_signed_integer(given) and -(2 ** (given.bit_width - 1)) >= low:
                return _listed
            return lambda array: _within(array.to_pylist(), low, high)
        case Kind.DOUBLE if pa.types.is_float64(given):
            return _doubles
        case Kind.VARCHAR if pa.types.is_string(given) or pa.types.is_large_string(given):
            return _texts
        case Kind.BOOLEAN if pa.types.is_boolean(given):
            return _listed
    return None


def _listed(array: Any) -> Datums:
    datums: Datums = array.to_pylist()
    return datums


def _doubles(array: Any) -> Datums | None:
    numbers = array.to_pylist()
    if not all(number is None or math.isfinite(number) for number in numbers):
        return None
    return [None if number is None else number + 0.0 for number in numbers]


def _texts(array: Any) -> Datums:
    known: dict[Datum, Datum] = {}
    return [known.setdefault(text, text) for text in array.to_pylist()]  # one object for equal strings


def _within(datums: Sequence[Datum], low: int, high: int) -> Datums | None:
    """The column, or None if a value lies outside: the slow way then finds and names it."""
    present = [datum for datum in datums if isinstance(datum, int)]
    return datums if not present or (low <= min(present) and max(present) <= high) else None


def _unscaled(array: Any) -> Datums:
    """The integers behind a decimal128 array: pairs of 64-bit words, the low one first."""
    if not len(array):
        return []
    words = memoryview(array.buffers()[1]).cast("B")[16 * array.offset : 16 * (array.offset + len(array))].cast("q")
    numbers = [(words[i + 1] << 64) | (words[i] & 0xFFFFFFFFFFFFFFFF) for i in range(0, len(words), 2)]
    if not array.null_count:
        return list(numbers)
    return [number if valid else None for number, valid in zip(numbers, array.is_valid().to_pylist(), strict=True)]
