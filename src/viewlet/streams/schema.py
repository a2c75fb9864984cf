"""The columns of a query for a part: DuckDB binds it over empty tables, and says what it returns."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from viewlet.errors import ViewletError
from viewlet.forks import lock_for_forks
from viewlet.streams.definition import PART_TIMESTAMP
from viewlet.streams.duckdb_host import first_line, open_parts
from viewlet.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, REAL, SMALLINT, TIMESTAMP, VARCHAR, Column, SqlType
from viewlet.types import decimal as decimal_type

_TYPES: dict[str, SqlType] = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": SMALLINT,
    "UTINYINT": SMALLINT,
    "SMALLINT": SMALLINT,
    "USMALLINT": INTEGER,
    "INTEGER": INTEGER,
    "UINTEGER": BIGINT,
    "BIGINT": BIGINT,
    "UBIGINT": BIGINT,
    "HUGEINT": BIGINT,
    "FLOAT": REAL,
    "DOUBLE": DOUBLE,
    "VARCHAR": VARCHAR,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    '"NULL"': INTEGER,
}
_WIDE = decimal_type(38, 0)
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


_LOCK = lock_for_forks()


@cache
def _connection(process: int) -> Any:
    """The database that binds queries, one in a process: to open one takes longer than to bind."""
    return open_parts()


class QueryError(ViewletError):
    """A query that DuckDB does not accept; the binder makes an `SqlError` of it."""


def describe(sql: str, tables: Mapping[str, Sequence[Column]], wide: bool = False) -> tuple[Column, ...]:
    """The columns of a query over tables; a `wide` one keeps sums of integers in 128 bits.

    >>> describe("SELECT SUM(x) AS total FROM t", {"t": [Column("x", INTEGER)]})[0].name
    'total'
    """
    described = outline(sql, tables)
    columns = tuple(
        Column(
            name.lower() if name.isidentifier() else name, _WIDE if wide and kind == "HUGEINT" else _type(name, kind)
        )
        for name, kind in described
    )
    names = [column.name for column in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise QueryError(f"two columns are named {twice[0]!r}: give one another name with AS")
    if PART_TIMESTAMP in names:
        raise QueryError(f"{PART_TIMESTAMP!r} is the column that says when a part begins: choose another name with AS")
    return columns


def outline(sql: str, tables: Mapping[str, Sequence[Column]]) -> list[tuple[str, str]]:
    """The names of the columns of a query over tables, and what DuckDB calls their types."""
    import duckdb

    with _LOCK:
        connection = _connection(os.getpid())
        try:
            connection.execute("BEGIN")
            for name, columns in tables.items():
                shown = ", ".join(f"{_quoted(column.name)} {column.type}" for column in columns)
                connection.execute(f"CREATE TABLE {_quoted(name)} ({shown})")
            described = connection.execute(f"DESCRIBE {sql}").fetchall()
        except duckdb.Error as error:
            raise QueryError(first_line(str(error))) from error
        finally:
            with suppress(duckdb.TransactionException):  # none began
                connection.execute("ROLLBACK")
    return [(name, kind) for name, kind, *_ in described]


def check_syntax(sql: str) -> None:
    """Refuses what DuckDB itself does not parse: sqlglot reads syntax of other databases too, and drops some of it."""
    import duckdb

    with _LOCK:
        try:
            _connection(os.getpid()).extract_statements(sql)
        except duckdb.Error as error:
            raise QueryError(first_line(str(error))) from error


def unstable_functions() -> frozenset[str]:
    """The functions of DuckDB that may answer differently for the same arguments, and those that tell of a host."""
    with _LOCK:
        found = _connection(os.getpid()).execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE stability <> 'CONSISTENT' OR schema_name = 'pg_catalog'"
        )
        return frozenset(name for (name,) in found.fetchall())


def _type(name: str, kind: str) -> SqlType:
    if kind in _TYPES:
        return _TYPES[kind]
    matched = _DECIMAL.fullmatch(kind)
    if matched is None:
        raise QueryError(f"column {name!r} is of type {kind}: cast it to one that views have, such as VARCHAR")
    return decimal_type(int(matched[1]), int(matched[2]))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
