"""A change given as Arrow, for tables whose rows a database keeps as Arrow comes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from viewlet.changes import MULTIPLICITY, match_columns, to_changes
from viewlet.changes.arrow import arrow_type, fits_length
from viewlet.changes.change import Change, Changes, ColumnChange, RowChange
from viewlet.changes.sources import checked_column
from viewlet.errors import DataError
from viewlet.types import Kind, SqlType, Table

if TYPE_CHECKING:
    from viewlet.changes.word_codec import Codes


class ArrowChange(Change):
    """Rows as an Arrow table with the columns and types of their table, and multiplicities in the last column."""

    __slots__ = ("_rows", "arrow", "table")

    def __init__(self, table: Table, arrow: Any) -> None:
        self.table = table
        self.arrow = arrow
        self._rows: Changes | None = None

    def rows(self) -> Changes:
        if self._rows is None:
            self._rows = to_changes(self.table, self.arrow, encoded=True)
        return self._rows

    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        return RowChange(self.rows()).columns(table, positions, dictionary)

    def negated(self) -> ArrowChange:
        import pyarrow.compute as pc

        last = self.arrow.num_columns - 1
        return ArrowChange(self.table, self.arrow.set_column(last, MULTIPLICITY, pc.negate(self.arrow.column(last))))

    def __len__(self) -> int:
        return int(self.arrow.num_rows)


def to_arrow_change(table: Table, data: object, sign: int) -> ArrowChange | None:
    """Arrow data as a change without a Python object for each row; None if that has to be looked at row by row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        return None
    try:
        matched = match_columns(table, data.column_names)
    except DataError:
        return None
    if set(matched) != set(table.column_names):
        return None
    arrays = []
    for column in table.columns:
        given = checked_column(table, column.name, data.column(matched[column.name]))
        array = _fitted(given, column.type)
        if array is None or (array.null_count and not column.type.nullable) or not fits_length(column, array):
            return None
        if column.name in table.non_negative and (pc.min(array).as_py() or 0) < 0:
            return None
        arrays.append(array)
    weights = pa.repeat(pa.scalar(sign, pa.int64()), data.num_rows)
    return ArrowChange(table, pa.table([*arrays, weights], names=[*table.column_names, MULTIPLICITY]))


def _fitted(array: Any, type: Any) -> Any:
    """A column in the type of its table, if no value is changed by that."""
    import pyarrow as pa

    given, wanted = array.type, arrow_type(type)
    exact = (
        given == wanted
        or (type.is_integer and pa.types.is_integer(given))
        or (type.kind is Kind.VARCHAR and (pa.types.is_large_string(given) or pa.types.is_dictionary(given)))
        or (type.kind is Kind.TIMESTAMP and pa.types.is_timestamp(given) and given.tz is None)
    )
    if not exact or type.kind is Kind.REAL:
        return None
    try:
        fitted = array.cast(wanted)
    except pa.ArrowInvalid:
        return None
    return fitted if is_readable(fitted, type) else None


_DAYS = -719162, 2932896
"""The days of the years 1 to 9999, from 1970 on: Python has no others."""
_BOUNDS = {Kind.DATE: _DAYS, Kind.TIMESTAMP: (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)}


def is_readable(array: Any, type: SqlType) -> bool:
    """All values are such that Python can have them: finite numbers, and times of the years 1 to 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if type.is_float:
        return pc.all(pc.is_finite(array)).as_py() is not False
    if type.kind not in _BOUNDS:
        return True
    least, most = _BOUNDS[type.kind]
    found = pc.min_max(array.cast(pa.int32() if type.kind is Kind.DATE else pa.int64())).as_py()
    return found["min"] is None or bool(least <= found["min"] and found["max"] <= most)
