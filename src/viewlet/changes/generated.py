"""Columns that are GENERATED AS an expression over the others of their row: computed as rows come, and stored.

CREATE TABLE t (a INTEGER, b INTEGER AS (a * 2));  insert("t", [(3,)])   ->   (3, 6)

DuckDB checks the expressions and computes them. A row may come with the values, which have to be these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from viewlet.changes import Changes, describe_row, match_columns, rows_to_arrow, to_changes
from viewlet.changes.arrow import type_of_arrow
from viewlet.changes.sources import open_source
from viewlet.duckdb_access import open_duckdb
from viewlet.errors import DataError, SchemaError, interruptible
from viewlet.types import BIGINT, Column, Kind, Row, Table


def generated_columns(table: Table) -> tuple[Column, ...]:
    return tuple(column for column in table.columns if column.generated is not None)


def with_types(table: Table) -> Table:
    """A table whose generated columns have the types of their expressions, where none was written."""
    import duckdb

    if not generated_columns(table):
        return table
    with open_duckdb() as connection:
        try:
            connection.execute(_landing(table))
            found = connection.sql("FROM landing").to_arrow_table().schema
        except duckdb.Error as error:
            reason = str(error).splitlines()[0].partition(": ")[2]
            raise SchemaError(f"the generated columns of {table.name!r} cannot be: {reason}") from None
    columns: list[Column] = []
    for column, field in zip(table.columns, found, strict=True):
        if column.type.kind is Kind.NULL:
            type = type_of_arrow(field.type)
            if type is None:
                raise SchemaError(f"{table.name}.{column.name} is of type {field.type}: CAST its expression")
            column = replace(column, type=type.with_nullable(column.type.nullable))
        columns.append(column)
    return replace(table, columns=tuple(columns))


def computed(table: Table, rows: Any) -> Any:
    """Rows in Arrow with the values that their generated columns have to have."""
    generated = generated_columns(table)
    if not generated:
        return rows
    values = _computed(table, rows.drop_columns([column.name for column in generated]))
    for column in generated:
        at = table.column_names.index(column.name)
        rows = rows.set_column(at, column.name, values[column.name])
    return rows


class GeneratedReader:
    """Reads the rows of a table with generated columns, with or without the values of these."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._generated = generated_columns(table)

    def read(self, data: object, sign: int = 1, encoded: bool = False) -> Changes:
        table, given = self._table, self._given(data)
        columns = [column for column in table.columns if column.generated is None or column.name in given]
        optional = [replace(c, type=c.type.with_nullable(True)) if c.generated is not None else c for c in columns]
        part = replace(table, columns=tuple(optional))
        rows = to_changes(part, data, sign, encoded)
        changes: Changes = {}
        for (row, weight), new in zip(rows.items(), self._values(part, list(rows)), strict=True):
            said = {name: value for name, value in zip(part.column_names, row, strict=True) if value is not None}
            wrong = next((name for name, value in new.items() if said.get(name, value) != value), None)
            if wrong is not None and weight > 0:
                shown = describe_row(part, row)
                raise DataError(f"{table.name}.{wrong} is generated, and has another value in {shown}: leave it out")
            whole = {**new, **said}
            full = tuple(whole.get(name) for name in table.column_names)
            changes[full] = changes.get(full, 0) + weight
        return {row: weight for row, weight in changes.items() if weight}

    def _given(self, data: Any) -> set[str]:
        """The generated columns that the rows have."""
        table, generated = self._table, {column.name for column in self._generated}
        if not isinstance(data, list | tuple):
            return generated & match_columns(table, open_source(table, data).names).keys()
        if data and all(isinstance(row, Mapping) for row in data):
            return generated & match_columns(table, list(dict.fromkeys(name for row in data for name in row))).keys()
        is_whole = bool(data) and isinstance(data[0], Sequence) and len(data[0]) == len(table.columns)
        return generated if is_whole else set()

    def _values(self, part: Table, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """The generated columns of every row."""
        import pyarrow as pa

        shown = rows_to_arrow(part.columns, [(row, 1) for row in rows])
        values = _computed(self._table, shown.select([c.name for c in part.columns if c.generated is None]))
        number, names = "row", [column.name for column in self._generated]
        while number in names:
            number += " "
        values = values.append_column(number, pa.array(range(len(rows)), pa.int64()))
        numbered = replace(self._table, columns=(*self._generated, Column(number, BIGINT)), primary_key=())
        return [dict(zip(names, row[:-1], strict=True)) for row in to_changes(numbered, values)]


def _computed(table: Table, rows: Any) -> Any:
    """The generated columns of rows in the other columns."""
    import duckdb

    others, generated = (
        ", ".join(_quoted(column.name) for column in table.columns if (column.generated is not None) is is_generated)
        for is_generated in (False, True)
    )
    with open_duckdb() as connection:
        try:
            connection.execute(_landing(table))
            connection.register("given rows", rows)
            with interruptible(connection):
                connection.execute(f'INSERT INTO landing BY NAME SELECT {others} FROM "given rows"').fetchall()
                return connection.sql(f"SELECT {generated} FROM landing").to_arrow_table()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0].partition(": ")[2]
            raise DataError(f"a row of {table.name!r} cannot be: {reason}") from None


def _landing(table: Table) -> str:
    """The table of DuckDB that computes the columns."""
    columns = ", ".join(
        f"{_quoted(column.name)} {'' if column.type.kind is Kind.NULL else column.type}"
        + ("" if column.generated is None else f" GENERATED ALWAYS AS ({column.generated})")
        for column in table.columns
    )
    return f"CREATE TABLE landing ({columns})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
