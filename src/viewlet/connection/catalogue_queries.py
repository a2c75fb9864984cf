"""SHOW TABLES, SHOW VIEWS and DESCRIBE: the catalogue of a database as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewlet.connection.database import Database
from viewlet.types import TableKind

if TYPE_CHECKING:
    from viewlet.sql import Show


def show(statement: Show, database: Database) -> Any:
    """The answer of a statement about the catalogue, in the columns that DuckDB has for it and some of our own."""
    match statement.what:
        case "TABLES":
            return _tables(database)
        case "VIEWS":
            return _views(database)
        case _:
            return _columns(statement.name, database)


def _tables(database: Database) -> Any:
    """Tables, streams and views with their rows; a stream keeps none."""
    import pyarrow as pa

    shown = {*database.tables, *database.catalogue.visible_views}
    schemas = sorted((name, schema) for name, schema in database.catalogue.schemas().items() if name in shown)
    rows = [None if schema.is_forgetful else database.stats(name).get("rows") for name, schema in schemas]
    return pa.table(
        {
            "name": pa.array([name for name, _ in schemas], pa.string()),
            "kind": pa.array([schema.kind.value for _, schema in schemas], pa.string()),
            "rows": pa.array(rows, pa.int64()),
        }
    )


def _views(database: Database) -> Any:
    """Views with what maintains them and what that has cost."""
    import pyarrow as pa

    names = sorted(database.catalogue.visible_views)
    stats: dict[str, dict[str, Any]] = {name: dict(database.stats(name)) for name in names}
    return pa.table(
        {
            "name": pa.array(stats, pa.string()),
            "rows": pa.array([each.get("rows") for each in stats.values()], pa.int64()),
            "sources": pa.array([each.get("sources") for each in stats.values()], pa.list_(pa.string())),
            "strategy": pa.array([each.get("strategy") for each in stats.values()], pa.string()),
            "engine": pa.array([each.get("engine") for each in stats.values()], pa.string()),
            "batches": pa.array([each.get("batches") for each in stats.values()], pa.int64()),
            "seconds": pa.array([sum((each.get("seconds") or {}).values()) for each in stats.values()], pa.float64()),
        }
    )


def _columns(name: str, database: Database) -> Any:
    import pyarrow as pa

    schema = database.catalogue.schemas()[name]
    columns, nothing = schema.columns, pa.array([None] * len(schema.columns), pa.string())
    keys = ["PRI" if column.name in schema.primary_key else None for column in columns]
    is_declared = schema.kind is not TableKind.VIEW
    types = [str(column.type) if column.length is None else f"{column.type}({column.length})" for column in columns]
    return pa.table(
        {
            "column_name": pa.array([column.name for column in columns], pa.string()),
            "column_type": pa.array(types, pa.string()),
            "null": pa.array(["YES" if column.type.nullable or not is_declared else "NO" for column in columns]),
            "key": pa.array(keys, pa.string()),
            "default": nothing,
            "extra": nothing,
        }
    )
