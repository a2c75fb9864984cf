"""The catalogue of a database as Arrow tables: for SHOW and DESCRIBE, and for queries over it in SQL.

DuckDB has five functions about its own catalogue, which its views in `information_schema` and `pg_catalog` read. Ad-hoc
queries get functions of the same names about this database, and so all of these views. Columns that mean nothing here
are NULL; views have more columns, about what maintains them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from viewlet.connection.database import Database
from viewlet.engine.maintained_view import MaintainedView
from viewlet.types import INTEGER_BITS, Column, Kind, SqlType, Table, TableKind

if TYPE_CHECKING:
    from viewlet.sql import Show

Record = dict[str, object]

_PLACE = {"database_name": "memory", "schema_name": "main"}
"""Where DuckDB has the tables of a database in memory."""
_ABOUT_CATALOGUE = re.compile(r"\b(information_schema|duckdb_|pg_|sqlite_)", re.IGNORECASE)


def show(statement: Show, database: Database) -> Any:
    """The answer of a statement about the catalogue, in the columns that DuckDB has for it and some of our own."""
    match statement.what:
        case "TABLES":
            views = [{"name": each["view_name"], "kind": "VIEW", "rows": each.get("rows")} for each in _views(database)]
            tables = [{"name": each["table_name"], **each} for each in _tables(database)]
            return _arrow(sorted([*tables, *views], key=_name), {"name": "string", "kind": "string", "rows": "int64"})
        case "VIEWS":
            rows = sorted(({"name": each["view_name"], **each} for each in _views(database)), key=_name)
            shown = ("rows", "sources", "strategy", "engine", "batches", "seconds")
            return _arrow(rows, {"name": "string", **{name: _VIEW_COLUMNS[name] for name in shown}})
        case _:
            return _described(database.catalogue.schemas()[statement.name])


def catalogue(sql: str, database: Database) -> dict[str, Any]:
    """What a query can read of the catalogue, by the names of functions; nothing if it names nothing of the kind."""
    if _ABOUT_CATALOGUE.search(sql) is None:
        return {}
    return {name: _arrow(list(rows(database)), columns) for name, (rows, columns) in _FUNCTIONS.items()}


def _name(row: Mapping[str, object]) -> str:
    return str(row["name"])


def _arrow(rows: list[Record], columns: Mapping[str, str]) -> Any:
    import pyarrow as pa

    types = {name: pa.list_(pa.string()) if type == "strings" else type for name, type in columns.items()}
    return pa.table({name: pa.array([row.get(name) for row in rows], types[name]) for name in columns})


# -- tables and views -------------------------------------------------------------------------------------------------

_NAMED = {"database_name": "string", "schema_name": "string"}
_TABLE_COLUMNS = {
    **_NAMED,
    "comment": "string",
    "table_name": "string",
    "table_oid": "int64",
    "internal": "bool",
    "temporary": "bool",
    "has_primary_key": "bool",
    "estimated_size": "int64",
    "column_count": "int64",
    "index_count": "int64",
    "check_constraint_count": "int64",
    "kind": "string",
    "rows": "int64",
}
_VIEW_COLUMNS = {
    **_NAMED,
    "comment": "string",
    "view_name": "string",
    "view_oid": "int64",
    "internal": "bool",
    "temporary": "bool",
    "column_count": "int64",
    "sql": "string",
    "is_bound": "bool",
    "rows": "int64",
    "bytes": "int64",
    "sources": "strings",
    "epoch": "int64",
    "strategy": "string",
    "engine": "string",
    "engine_reason": "string",
    "compile_seconds": "float64",
    "tuples": "int64",
    "batches": "int64",
    "seconds": "float64",
    "last_tuples": "int64",
    "last_seconds": "float64",
    "subscribers": "int64",
    "shared_with": "strings",
}


def _oids(database: Database) -> dict[str, int]:
    """Numbers of the tables and views, by which relations of the catalogue refer to them."""
    shown = [*database.tables, *database.catalogue.visible_views]
    return {name: number for number, name in enumerate(shown, start=1)}


def _tables(database: Database) -> Iterator[Record]:
    """Tables and streams; a stream keeps no rows."""
    oids = _oids(database)
    for name, table in database.tables.items():
        schema = table.schema
        rows = None if schema.is_forgetful else database.stats(name).get("rows")
        checks = [each for each in _constraints_of(schema, database) if each["constraint_type"] == "CHECK"]
        yield {
            **_PLACE,
            "table_name": name,
            "comment": schema.comment,
            "table_oid": oids[name],
            "internal": False,
            "temporary": schema.temporary,
            "has_primary_key": bool(schema.primary_key),
            "estimated_size": rows,
            "column_count": len(schema.columns),
            "index_count": 0,
            "check_constraint_count": len(checks),
            "kind": schema.kind.value,
            "rows": rows,
        }


def _views(database: Database) -> Iterator[Record]:
    """Views with what maintains them and what that has cost; those of constraints are hidden."""
    oids = _oids(database)
    for name in database.catalogue.visible_views:
        view, stats = database.views[name], dict[str, Any](database.stats(name))
        sizes = stats.pop("bytes", None)
        seconds, last = stats.pop("seconds", None) or {}, stats.pop("last_batch", None) or {}
        yield {
            **_PLACE,
            "view_name": name,
            "comment": view.comment,
            "view_oid": oids[name],
            "internal": False,
            "temporary": view.declared.temporary,
            "column_count": len(view.columns),
            "sql": view.declared.statement,
            "is_bound": True,
            **stats,
            "bytes": None if sizes is None else sum(sizes.values()),
            "seconds": sum(seconds.values()),
            **{f"last_{unit}": sum(last[unit].values()) for unit in ("tuples", "seconds") if unit in last},
            "epoch": database.epoch,
        }


# -- columns ----------------------------------------------------------------------------------------------------------

_COLUMN_COLUMNS = {
    **_NAMED,
    "comment": "string",
    "table_name": "string",
    "table_oid": "int64",
    "column_name": "string",
    "column_index": "int32",
    "internal": "bool",
    "column_default": "string",
    "is_nullable": "bool",
    "data_type": "string",
    "character_maximum_length": "int32",
    "numeric_precision": "int32",
    "numeric_precision_radix": "int32",
    "numeric_scale": "int32",
    "is_generated": "bool",
}


def _columns(database: Database) -> Iterator[Record]:
    oids = _oids(database)
    for name, schema in database.catalogue.schemas().items():
        for index, column in enumerate(schema.columns if name in oids else (), start=1):
            yield {
                **_PLACE,
                "table_name": name,
                "table_oid": oids[name],
                "column_name": column.name,
                "comment": column.comment,
                "column_index": index,
                "internal": False,
                "column_default": _default(column),
                "is_nullable": _is_nullable(column, schema),
                "data_type": str(column.type),
                "character_maximum_length": column.length,
                **_digits(column.type),
                "is_generated": column.generated is not None,
            }


def _default(column: Column) -> str | None:
    """The expression as it was written: it is kept with a cast to the type of the column."""
    text, cast = column.default or "", ("CAST(", f" AS {column.type})")
    return text[len(cast[0]) : -len(cast[1])] if text.startswith(cast[0]) and text.endswith(cast[1]) else column.default


def _is_nullable(column: Column, schema: Table) -> bool:
    return column.type.nullable or schema.kind is TableKind.VIEW


def _digits(type: SqlType) -> Record:
    """The digits of a number and their base, as DuckDB counts them."""
    if type.kind is Kind.DECIMAL:
        numbers = (type.precision, 10, type.scale)
    elif type.kind in INTEGER_BITS:
        numbers = (INTEGER_BITS[type.kind], 2, 0)
    elif type.is_float:
        numbers = (24 if type.kind is Kind.REAL else 53, 2, 0)
    else:
        return {}
    return dict(zip(("numeric_precision", "numeric_precision_radix", "numeric_scale"), numbers, strict=True))


def _described(schema: Table) -> Any:
    """The columns of a table or view, as DESCRIBE shows them."""
    unique = {columns[0] for _, columns in schema.unique if len(columns) == 1}
    rows: list[Record] = [
        {
            "column_name": column.name,
            "column_type": column.declared,
            "null": "YES" if _is_nullable(column, schema) else "NO",
            "key": "PRI" if column.name in schema.primary_key else "UNI" if column.name in unique else None,
            "default": _default(column),
        }
        for column in schema.columns
    ]
    return _arrow(rows, dict.fromkeys(("column_name", "column_type", "null", "key", "default", "extra"), "string"))


# -- constraints ------------------------------------------------------------------------------------------------------

_CONSTRAINT_COLUMNS = {
    **_NAMED,
    "table_name": "string",
    "table_oid": "int64",
    "constraint_index": "int64",
    "constraint_type": "string",
    "constraint_text": "string",
    "expression": "string",
    "constraint_column_names": "strings",
    "constraint_name": "string",
    "referenced_table": "string",
    "referenced_column_names": "strings",
}


def _constraints(database: Database) -> Iterator[Record]:
    oids = _oids(database)
    for name, table in database.tables.items():
        for index, constraint in enumerate(_constraints_of(table.schema, database)):
            place = {**_PLACE, "table_name": name, "table_oid": oids[name], "constraint_index": index}
            yield {**place, "referenced_column_names": [], **constraint}


def _constraints_of(schema: Table, database: Database) -> Iterator[Record]:
    """Those that are views of the rows that break them, and those that are checked as rows are read."""
    if schema.primary_key:
        text = f"PRIMARY KEY ({', '.join(schema.primary_key)})"
        yield _constraint(f"{schema.name}_{'_'.join(schema.primary_key)}_pkey", "PRIMARY KEY", text, schema.primary_key)
    for column in schema.columns:
        if column.name in schema.non_negative:
            yield _check(f"{schema.name}_{column.name}_check", f"CHECK ({column.name} >= 0)", [column.name])
        if not column.type.nullable:
            yield _constraint(f"{schema.name}_{column.name}_not_null", "NOT NULL", "NOT NULL", (column.name,))
    for view in database.constraints_of(schema.name):
        yield _kept_by(view, schema, database)


def _kept_by(view: MaintainedView, schema: Table, database: Database) -> Record:
    """The constraint that a view stands for."""
    from viewlet.sql import columns_checked

    declared = view.declared.constraint
    assert declared is not None
    name, text = declared.name, declared.text
    kind = next(each for each in ("CHECK", "UNIQUE", "FOREIGN KEY") if text.startswith(each))
    if kind == "CHECK":
        return _check(name, text, columns_checked(declared, schema))
    columns = tuple(dict.fromkeys(column.name for column in view.columns))
    found = _constraint(name, kind, text, columns)
    if kind == "UNIQUE":
        return found
    other = next(iter(view.sources - {schema.name}), schema.name)
    keys = text.partition(f" REFERENCES {other} (")[2][:-1].split(", ")
    known = set(keys) <= set(database.tables[other].schema.column_names) if other in database.tables else False
    return {**found, "referenced_table": other, "referenced_column_names": keys if known else None}


def _check(name: str, text: str, columns: list[str]) -> Record:
    return {**_constraint(name, "CHECK", text, columns), "expression": text.removeprefix("CHECK ")}


def _constraint(name: str, kind: str, text: str, columns: list[str] | tuple[str, ...]) -> Record:
    return {
        "constraint_name": name,
        "constraint_type": kind,
        "constraint_text": text,
        "constraint_column_names": list(columns),
    }


# -- sequences --------------------------------------------------------------------------------------------------------

_SEQUENCE_COLUMNS = {
    **_NAMED,
    "sequence_name": "string",
    "sequence_oid": "int64",
    "temporary": "bool",
    "start_value": "int64",
    "min_value": "int64",
    "max_value": "int64",
    "increment_by": "int64",
    "cycle": "bool",
    "last_value": "int64",
}


def _sequences(database: Database) -> Iterator[Record]:
    for number, each in enumerate(database.sequences.known.values(), start=1):
        yield {
            **_PLACE,
            "sequence_name": each.name,
            "sequence_oid": number,
            "temporary": False,
            "start_value": each.start,
            "min_value": each.low,
            "max_value": each.high,
            "increment_by": each.increment,
            "cycle": each.cycle,
            "last_value": each.last,
        }


_FUNCTIONS: dict[str, tuple[Callable[[Database], Iterator[Record]], Mapping[str, str]]] = {
    "duckdb_tables": (_tables, _TABLE_COLUMNS),
    "duckdb_views": (_views, _VIEW_COLUMNS),
    "duckdb_columns": (_columns, _COLUMN_COLUMNS),
    "duckdb_constraints": (_constraints, _CONSTRAINT_COLUMNS),
    "duckdb_sequences": (_sequences, _SEQUENCE_COLUMNS),
}
