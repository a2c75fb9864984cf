"""Changes of a table by primary key: rows that take the place of those with their keys, and keys of rows that go.

upsert [(1, "new")]   over   (1, "old")   ->   -(1, "old") +(1, "new")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from viewlet.changes import Change, RowChange, describe_row, did_you_mean, to_changes
from viewlet.changes.keys import key_values, last_first, parted
from viewlet.connection.database import Database
from viewlet.engine.rows import net
from viewlet.errors import DataError, SchemaError
from viewlet.tables.base_table import BaseTable
from viewlet.types import Datum, Row, Table, TableKind
from viewlet.view import Snapshot


def change_with_upserts(database: Database, table: BaseTable, data: object) -> Change:
    """Changes as the user hands them in; rows of the type 'upsert' come after the others."""
    parts = parted(data)
    if parts is None:
        return database.change_of(table, data, 1, encoded=True)
    others, upserts = parts
    exact = database.change_of(table, others, 1, encoded=True).rows() if len(others) else {}
    return RowChange(net([*exact.items(), *upserted(database, table, upserts, exact).rows().items()]))


def upserted(
    database: Database, table: BaseTable, data: object, before: Mapping[Row, int] = MappingProxyType({})
) -> Change:
    """The change that leaves these rows, the last of several with one key, in the place of those with their keys.

    It follows another change of the table.
    """
    schema = _keyed(table)
    at = [schema.column_names.index(name) for name in schema.primary_key]
    latest: dict[Row, Row] = {}
    for row in database.change_of(table, last_first(data), 1, encoded=False).rows():
        latest.setdefault(tuple(row[i] for i in at), row)
    there = dict.fromkeys(_rows_with(database, schema, list(latest)), 1)
    near = {row: weight for row, weight in before.items() if tuple(row[i] for i in at) in latest}
    present = net([*there.items(), *near.items()])
    change = {row: -weight for row, weight in present.items() if weight > 0}  # what is absent, its delete refuses
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


def rows_with(database: Database, name: str, key: tuple[object, ...], columns: Mapping[str, object]) -> Snapshot:
    """The rows of a table or view with a key, or with values in columns."""
    schema = database.catalogue.schemas().get(name)
    if schema is None or name in database.tables:
        schema = database.catalogue.find_kept(name).schema
    names = schema.primary_key if name in database.tables else schema.column_names
    if key and (columns or len(key) > len(names) or (name in database.tables and len(key) != len(names))):
        wanted = f"the primary key ({', '.join(names)})" if name in database.tables else f"at most {len(names)} columns"
        raise DataError(f"get() takes values of {wanted} of {name!r}, or columns by their names")
    asked = dict(zip(names, key, strict=False)) if key else dict(columns)
    if not asked:
        raise DataError(f"get() takes values of columns of {name!r}")
    known = {column.name: column for column in schema.columns}
    for each in asked:
        if each not in known:
            raise SchemaError(f"{name!r} has no column {each!r}{did_you_mean(each, known)}")
    only = Table(schema.name, tuple(known[each] for each in asked), TableKind.STREAM)
    (wanted_row,) = to_changes(only, [asked], 1, encoded=False)
    return _snapshot_with(database, schema, dict(zip(asked, wanted_row, strict=True)))


def _snapshot_with(database: Database, schema: Table, values: Mapping[str, Datum]) -> Snapshot:
    """The rows with these values: by an index or by the engine, if one of them finds them, else among all."""
    name, at = schema.name, {schema.column_names.index(column): value for column, value in values.items()}
    found: Iterable[tuple[Row, int]] | None = None
    if name in database.tables:
        if schema.primary_key and set(schema.primary_key) <= values.keys():
            rows = database.rows_with_keys(name, [tuple(values[each] for each in schema.primary_key)])
            found = None if rows is None else rows.items()
    elif None in values.values():  # engines find values
        found = None
    else:
        database.check_readable(name)
        found = database.views[name].rows_with({column: [value] for column, value in values.items()})
    if found is None:
        found = database.snapshot(name).rows
    matching = [(row, n) for row, n in found if all(row[i] == value for i, value in at.items())]
    return Snapshot(schema.columns, matching)


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
