"""One shape for every kind of input: named columns of equal length.

Rows are turned into columns, so that what can be decided once per column (its type, its converter) is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from viewlet.changes.arrow_reader import datums_of_arrow
from viewlet.errors import DataError
from viewlet.types import Datum, SqlType, Table
from viewlet.visible import described


class Source(Protocol):
    """Named columns of equal length."""

    names: Sequence[str]
    length: int

    def internal(self, name: str, type: SqlType) -> Sequence[Datum] | None:
        """The column in the internal representation, where that is cheaper than value by value."""

    def values(self, name: str, type: SqlType) -> Sequence[object]:
        """The column as Python values, None for NULL; `type` is what it will become."""


def open_source(table: Table, data: object) -> Source:
    package = type(data).__module__.partition(".")[0]
    if package == "pandas" and type(data).__name__ == "DataFrame":
        return PandasSource(table, data)
    if type(data).__name__ == "LazyFrame" and package == "polars":
        raise DataError(f"{table.name}: a Polars LazyFrame has no rows yet; call .collect() first")
    if package != "pandas" and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        return ArrowSource(table, data)
    if isinstance(data, Mapping):
        raise DataError(f"{table.name}: got one dict; a list of rows is expected, for example [{{...}}]")
    if isinstance(data, tuple) and not all(isinstance(row, tuple | list | Mapping) for row in data):
        raise DataError(
            f"{table.name}: got one tuple {described(data)}; a list of rows is expected: [{described(data)}]"
        )
    if isinstance(data, str | bytes) or package == "pandas" or not isinstance(data, Iterable):
        raise DataError(
            f"{table.name}: {type(data).__name__} {described(data, 60)} "
            "is not a list of rows, a data frame or Arrow data"
        )
    return RowSource(table, list(data))


class RowSource:
    """A list of tuples in column order, or of dicts."""

    def __init__(self, table: Table, rows: Sequence[object]) -> None:
        self.length = len(rows)
        self._columns: dict[str, Sequence[object]]
        if rows and all(isinstance(row, Mapping) for row in rows):
            names = dict.fromkeys(name for row in rows for name in row)  # type: ignore[attr-defined]
            self._columns = {name: [row.get(name) for row in rows] for name in names}  # type: ignore[attr-defined]
        else:
            for number, row in enumerate(rows, start=1):
                _check_row(table, number, row)
            columns = zip(*rows, strict=True) if rows else [()] * len(table.columns)
            self._columns = dict(zip(table.column_names, columns, strict=True))
        self.names: Sequence[str] = list(self._columns)

    def internal(self, name: str, type: SqlType) -> None:
        return None

    def values(self, name: str, type: SqlType) -> Sequence[object]:
        return self._columns[name]


def _check_row(table: Table, number: int, row: object) -> None:
    if isinstance(row, Mapping):
        raise DataError(f"{table.name}, row {number}: {described(row, 60)} is a dict, other rows are not")
    if isinstance(row, str | bytes) or not isinstance(row, Sequence):
        raise DataError(
            f"{table.name}, row {number}: {described(row, 60)} is not a row; expected a tuple, a list or a dict"
        )
    if len(row) != len(table.columns):
        raise DataError(
            f"{table.name}, row {number}: {described(row, 60)} has {len(row)} values, "
            f"expected {len(table.columns)} ({', '.join(table.column_names)})"
        )


class PandasSource:
    """A pandas DataFrame: NaN, NaT and NA mean NULL, and integers beside them have become floats."""

    def __init__(self, table: Table, data: Any) -> None:
        self._frame = frame = with_index(table, data)
        self.names: Sequence[str] = list(frame.columns)
        self.length = len(frame)

    def internal(self, name: str, type: SqlType) -> None:
        return None

    def values(self, name: str, type: SqlType) -> Sequence[object]:
        series = self._frame[name] if self.names.count(name) == 1 else self._frame.iloc[:, self.names.index(name)]
        whole = type.is_integer and series.dtype.kind == "f"
        missing = series.isna().tolist()
        values = [None if absent else value for value, absent in zip(series.tolist(), missing, strict=True)]
        return [_as_integer(value) for value in values] if whole else values


MOST_EXACT = 2**53
"""Up to here every integer is a double of its own."""


def _as_integer(value: Any) -> object:
    """The integer that pandas has made a float of, because others of the column are missing; a rounded one is none."""
    return int(value) if value is not None and value.is_integer() and abs(value) < MOST_EXACT else value


def with_index(table: Table, frame: Any) -> Any:
    """A pandas DataFrame whose index is among its columns, if it has a name; rows are numbered by one that has none."""
    names = list(frame.index.names)
    named = [name for name in names if name is not None]
    remedy = "call reset_index() first, or reset_index(drop=True) to leave it out"
    if len(named) < len(names) and len(names) > 1:
        raise DataError(
            f"{table.name}: the data frame has an index of {len(names)} levels, some without name: {remedy}"
        )
    known = {name.lower() for name in table.column_names}
    for name in named:
        if named.count(name) > 1 or name in frame.columns:
            raise DataError(f"{table.name}: the data frame has a column and an index named {name!r}: {remedy}")
        if not isinstance(name, str) or name.lower() not in known:
            raise DataError(f"{table.name}: the data frame has an index {name!r}, which is no column: {remedy}")
    return frame.reset_index(level=named) if named else frame


def checked_column(table: Table, name: str, column: Any) -> Any:
    """An Arrow column whose contents are what its type says: bytes of strings, and places in dictionaries and lists."""
    import pyarrow as pa

    if pa.types.is_primitive(column.type):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        raise DataError(f"{table.name}.{name}: this column of Arrow data is damaged: {error}") from error
    return column


class ArrowSource:
    """A pyarrow table or record batch, a Polars frame, or anything else that speaks the Arrow C interface."""

    def __init__(self, table: Table, data: Any) -> None:
        import pyarrow as pa

        self._target = table
        try:
            self._table = data if type(data) is pa.Table else pa.table(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(f"{table.name}: {type(data).__name__} is not a table of Arrow columns: {error}") from error
        self.names: Sequence[str] = self._table.column_names
        self.length = self._table.num_rows

    def internal(self, name: str, type: SqlType) -> Sequence[Datum] | None:
        return datums_of_arrow(self._column(name), type)

    def _column(self, name: str) -> Any:
        return checked_column(self._target, name, self._table[self.names.index(name)])

    def values(self, name: str, type: SqlType) -> Sequence[object]:
        column = self._column(name)
        try:
            return list(column.to_pylist())
        except (OverflowError, ValueError):  # a time that Python cannot hold: its number will be refused
            return [item.value if item.is_valid else None for item in column]
