"""Changes of a table by primary key: rows that take the place of those with their keys, and keys of rows that go.

upsert [(1, "new")]   over   (1, "old")   ->   -(1, "old") +(1, "new")
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.changes import Change, RowChange, describe_row, to_changes
from viewlet.changes.keys import key_values, last_first
from viewlet.connection.database import Database
from viewlet.errors import DataError, SchemaError
from viewlet.tables.base_table import BaseTable
from viewlet.types import Row, Table, TableKind


def upserted(database: Database, table: BaseTable, data: object) -> Change:
    """The change that leaves these rows, the last of several with one key, in the place of those with their keys."""
    schema = _keyed(table)
    at = [schema.column_names.index(name) for name in schema.primary_key]
    latest: dict[Row, Row] = {}
    for row in database.change_of(table, last_first(data), 1, encoded=False).rows():
        latest.setdefault(tuple(row[i] for i in at), row)
    change = dict.fromkeys(_rows_with(database, schema, list(latest)), -1)
    for row in latest.values():
        if change.pop(row, None) is None:
            change[row] = 1
    return RowChange(change)


def deleted(database: Database, table: BaseTable, keys: Iterable[object]) -> Change:
    """The change that takes out the rows with these keys."""
    schema = _keyed(table)
    named = {column.name: column for column in schema.columns}
    only_keys = Table(schema.name, tuple(named[name] for name in schema.primary_key), TableKind.STREAM)
    listed = [dict(zip(schema.primary_key, key_values(key, schema.primary_key), strict=True)) for key in keys]
    wanted = list(to_changes(only_keys, listed, 1, encoded=False))
    found = _rows_with(database, schema, wanted)
    if len(found) < len(wanted):
        at = [schema.column_names.index(name) for name in schema.primary_key]
        present = {tuple(row[i] for i in at) for row in found}
        absent = next(key for key in wanted if key not in present)
        raise DataError(f"there is no row with the key {describe_row(only_keys, absent)[1:-1]} in {schema.name}")
    return RowChange(dict.fromkeys(found, -1))


def _keyed(table: BaseTable) -> Table:
    schema = table.schema
    if not schema.primary_key:
        raise SchemaError(f"{schema.name!r} has no PRIMARY KEY to tell its rows apart by")
    if schema.kind is not TableKind.TABLE:
        raise SchemaError(f"{schema.name!r} is a {schema.kind.value}: only tables change by key")
    return schema


def _rows_with(database: Database, schema: Table, keys: list[Row]) -> list[Row]:
    """The rows that a table has with these keys."""
    return list(database.rows_with_keys(schema.name, keys) or ()) if keys else []
