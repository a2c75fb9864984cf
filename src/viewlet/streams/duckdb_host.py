"""Parts as tables of a DuckDB database, in memory or in a file. A batch is one transaction."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from viewlet.errors import DataError, StateError, interruptible
from viewlet.forks import bind_to_process
from viewlet.interrupts import DEFERRED_INTERRUPT
from viewlet.types import SqlType

_CATALOGUE = '"viewlet catalogue"'
_SETTINGS = {
    "python_enable_replacements": "false",
    "error_on_division_by_zero": "false",
    "ieee_floating_point_ops": "false",
    "enable_progress_bar": "false",
    "preserve_insertion_order": "false",
    "TimeZone": "'UTC'",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",  # has to be the last one
}


class DuckDBHost:
    """The host in this process."""

    dialect = "duckdb"
    workers = 1  # a query has all cores

    def __init__(self, path: str | None = None) -> None:
        self._connection = open_duckdb(path)
        bind_to_process(self._connection)
        self._is_open = self._is_ending = False
        """Both are set before the transaction begins or ends, and may be ahead of it after an exception."""
        self._execute(f"CREATE TABLE IF NOT EXISTS {_CATALOGUE} (key VARCHAR, value VARCHAR)")

    def entries(self) -> dict[str, str]:
        return dict(self._execute(f"SELECT key, value FROM {_CATALOGUE}").fetchall())

    def tables(self) -> list[str]:
        found = self._execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return [name for (name,) in found if self.quote(name) != _CATALOGUE]

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

    def _run(self, sql: str, how: Any = None) -> Any:
        import duckdb

        try:
            with interruptible():
                return (how or self._connection.execute)(sql)
        except (duckdb.DataError, duckdb.InvalidInputException) as error:
            raise DataError(f"a part cannot be computed: {first_line(str(error))}") from error

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        with interruptible():
            return self._connection.execute(sql, values)

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
                self._execute(f"DELETE FROM {_CATALOGUE} WHERE key IN (SELECT unnest(?))", [list(entries)])
                rows = [(key, value) for key, value in entries.items() if value is not None]
                if rows:
                    columns = [list(column) for column in zip(*rows, strict=True)]
                    self._execute(f"INSERT INTO {_CATALOGUE} SELECT unnest(?), unnest(?)", columns)
            for table in unused:
                self._execute(f"DROP TABLE IF EXISTS {self.source(table)}")
            self._execute("COMMIT")
            self._is_open = self._is_ending = False

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


def open_duckdb(path: str | None) -> Any:
    """A database that reaches nothing but its own file."""
    import duckdb

    try:
        connection = duckdb.connect(":memory:" if path is None else os.fspath(path))
    except duckdb.Error as error:
        raise StateError(f"cannot open the parts of streams in {path}: {first_line(str(error))}") from error
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_settings()").fetchall()}
    for name, value in _SETTINGS.items():
        if name in known:
            connection.execute(f"SET {name} = {value}")
    return connection


def first_line(message: str) -> str:
    """What is wrong, without DuckDB's class of error and its advice."""
    line = message.splitlines()[0] if message else "no reason is given"
    head, _, rest = line.partition("Error: ")
    return (rest if rest and head.replace(" ", "").isalpha() else line).rstrip(" .!")
