"""Parts as tables of a DuckDB database, in memory or in a file. A batch is one transaction."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from viewlet.duckdb_access import open_duckdb
from viewlet.errors import DataError, StateError, interruptible
from viewlet.interrupts import DEFERRED_INTERRUPT
from viewlet.types import SqlType

_CATALOGUE = '"viewlet catalogue"'
_SPARE = 2_000
"""Rows of the catalogue that may be outdated, besides four for each live one."""
_COUNTED_AT_A_TIME = 100
"""Tables whose rows one query counts."""
_SETTINGS: dict[str, Any] = {"preserve_insertion_order": "false", "TimeZone": "'UTC'"}
_STRANGERS = (
    "SELECT 'the function ' || function_name FROM duckdb_functions() WHERE NOT internal",
    "SELECT 'the view ' || view_name FROM duckdb_views() WHERE NOT internal",
    "SELECT 'the type ' || type_name FROM duckdb_types() WHERE NOT internal",
    "SELECT 'the sequence ' || sequence_name FROM duckdb_sequences()",
    "SELECT 'the index ' || index_name FROM duckdb_indexes()",
    "SELECT 'the schema ' || schema_name FROM duckdb_schemas() WHERE NOT internal",
    "SELECT 'the column ' || column_name FROM duckdb_columns() WHERE NOT internal AND column_default IS NOT NULL",
    "SELECT 'the constraint ' || constraint_text FROM duckdb_constraints()",
)
"""What a database of parts does not have: it would take part in our queries, or is somebody's."""


class DuckDBHost:
    """The host in this process."""

    dialect = "duckdb"
    workers = 1  # a query has all cores

    def __init__(
        self, path: str | None = None, check: Callable[[Mapping[str, str], str], object] | None = None
    ) -> None:
        """`check` may refuse the entries that a file has, before anything in it is changed."""
        self.place = "memory" if path is None else os.fspath(path)
        if path is not None and os.path.exists(path):
            with open_parts(path, read_only=True) as connection, self._errors():
                entries = _own_entries(connection, self.place)
                if check is not None:
                    check(entries, self.place)
        self._connection = open_parts(path)
        self._is_open = self._is_ending = False
        """Both are set before the transaction begins or ends, and may be ahead of it after an exception."""
        self._execute(f"CREATE TABLE IF NOT EXISTS {_CATALOGUE} (key VARCHAR, value VARCHAR)")
        (self._logged,) = self._execute(f"SELECT COUNT(*) FROM {_CATALOGUE}").fetchone()
        """Rows of the catalogue, a log of entries; NULL removes one. DuckDB never frees all of deleted rows."""
        self._most_logged = _SPARE
        """Rows from which on the catalogue is written again without those that are outdated."""

    def entries(self) -> dict[str, str]:
        with self._errors(), interruptible(self._connection):
            return _entries(self._connection)

    def tables(self) -> list[str]:
        found = self._execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return [name for (name,) in found if self.quote(name) != _CATALOGUE]

    def row_counts(self) -> dict[str, int]:
        tables, counts = self.tables(), list[int]()
        for at in range(0, len(tables), _COUNTED_AT_A_TIME):
            some = tables[at : at + _COUNTED_AT_A_TIME]
            selects = (f"SELECT {place}, COUNT(*) FROM {self.source(table)}" for place, table in enumerate(some))
            counts += (rows for _, rows in sorted(self._execute(" UNION ALL ".join(selects)).fetchall()))
        return dict(zip(tables, counts, strict=True))

    def begin(self) -> None:
        """Begins a transaction, unless one is open."""
        if not self._is_open:
            self._is_open = True
            self._execute("BEGIN")

    def load(self, table: str, rows: Any) -> None:
        with self._registered("incoming rows", rows):
            self._execute(f'CREATE TABLE {self.source(table)} AS SELECT * FROM "incoming rows"')

    def create(self, table: str, query: str) -> int:
        made = self._run(f"CREATE TABLE {self.source(table)} AS {query}").fetchone()
        return int(made[0])

    def create_over(self, table: str, query: str, name: str, rows: Any) -> int:
        with self._registered(name, rows):
            return self.create(table, query)

    @contextmanager
    def _registered(self, name: str, rows: Any) -> Iterator[None]:
        """Queries can read Arrow data under a name."""
        import duckdb

        self._connection.register(name, rows)
        try:
            yield
        finally:
            with suppress(duckdb.TransactionException):  # the query failed, and the name goes with its transaction
                self._connection.unregister(name)

    def read(self, query: str) -> Any:
        return self._run(query, lambda sql: self._connection.sql(sql).to_arrow_table())

    def check(self, query: str) -> None:
        self._run(f"EXPLAIN {query}")

    def _run(self, sql: str, how: Any = None) -> Any:
        """Runs a query of a view."""
        import duckdb

        with self._errors(), interruptible(self._connection):
            try:
                return (how or self._connection.execute)(sql)
            except duckdb.Error as error:
                if not _is_of_query(error):
                    raise
                raise DataError(f"a part cannot be computed: {first_line(str(error))}") from error

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        with self._errors(), interruptible(self._connection):
            return self._connection.execute(sql, values)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the database itself name its file."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as error:
            raise StateError(f"no memory is left for a query over parts: {first_line(str(error))}") from error
        except (duckdb.Error, UnicodeDecodeError) as error:
            if isinstance(error, (duckdb.InterruptException, duckdb.TransactionException)):
                raise
            raise _unusable(self.place, error) from error

    def source(self, table: str) -> str:
        return self.quote(table)

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def type_name(self, type: SqlType) -> str:
        return str(type)

    def commit(self, entries: Mapping[str, str | None], unused: Iterable[str]) -> None:
        """Makes the batch permanent; may be called again. Ctrl-C waits, for an interrupted query ends a transaction."""
        with DEFERRED_INTERRUPT:
            if self._is_ending:
                self._is_open = self._in_transaction()
            self._is_ending = True
            self.begin()
            if entries:
                columns = [list(entries), list(entries.values())]
                self._execute(f"INSERT INTO {_CATALOGUE} SELECT unnest(?), unnest(?)", columns)
                self._compact(len(entries))
            for table in unused:
                self._execute(f"DROP TABLE IF EXISTS {self.source(table)}")
            self._execute("COMMIT")
            self._is_open = self._is_ending = False

    def _compact(self, added: int) -> None:
        """Writes the catalogue again once most of its rows are outdated."""
        self._logged += added
        if self._logged < self._most_logged:
            return
        newest = f"SELECT * FROM {_CATALOGUE} QUALIFY row_number() OVER (PARTITION BY key ORDER BY rowid DESC) = 1"
        again = f"SELECT * FROM ({newest}) WHERE value IS NOT NULL"
        (live,) = self._execute(f"CREATE OR REPLACE TABLE {_CATALOGUE} AS {again}").fetchone()
        self._logged, self._most_logged = live, 5 * live + _SPARE

    def rollback(self) -> None:
        """Ends the transaction, if one is open."""
        if not self._is_open:
            return
        import duckdb

        with suppress(duckdb.TransactionException):
            self._execute("ROLLBACK")
        self._is_open = self._is_ending = False

    def _in_transaction(self) -> bool:
        first, second = (self._execute("SELECT txid_current()").fetchone() for _ in range(2))
        return bool(first == second)

    def close(self) -> None:
        self._connection.close()


def _is_of_query(error: Exception) -> bool:
    """An error of a query over its rows; others are of the file, which is damaged, missing or full, or of DuckDB."""
    import duckdb

    kinds = (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError, duckdb.IntegrityError)
    return isinstance(error, (*kinds, duckdb.TransactionException, duckdb.PermissionException))


def _unusable(place: str, error: Exception) -> StateError:
    return StateError(
        f"the parts of streams in {place} cannot be used: {first_line(str(error))}; if the file is damaged, restore it "
        "from the same copy as the directory"
    )


def _own_entries(connection: Any, place: str) -> dict[str, str]:
    """The catalogue of a database, which has tables of ours alone, or nothing."""
    tables = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    strange = connection.execute(" UNION ALL ".join(_STRANGERS)).fetchall()
    if tables and _CATALOGUE.strip('"') not in tables:
        strange.append((f"the table {tables[0]}, and no catalogue of parts",))
    if strange:
        raise StateError(f"{place} is not a file of parts of streams: it has {strange[0][0]}; remove it, or restore it")
    return _entries(connection) if tables else {}


def _entries(connection: Any) -> dict[str, str]:
    """The catalogue; the last row of a key counts."""
    rows = dict(connection.execute(f"SELECT key, value FROM {_CATALOGUE} ORDER BY rowid").fetchall())
    return {key: value for key, value in rows.items() if value is not None}


def open_parts(path: str | None = None, read_only: bool = False) -> Any:
    """A database of parts, which reaches nothing but its own file."""
    try:
        return open_duckdb(path, read_only=read_only, **_SETTINGS)
    except Exception as error:  # also what is no error of DuckDB: bytes of a damaged file that are no text
        raise _unusable(f"{path}", error) from error


def first_line(message: str) -> str:
    """What is wrong, without DuckDB's class of error and its advice."""
    line = message.splitlines()[0] if message else "no reason is given"
    head, _, rest = line.partition("Error: ")
    return (rest if rest and head.replace(" ", "").isalpha() else line).rstrip(" .!")
