"""The Python Database API 2.0 (PEP 249) over a Viewlet database, for programs that speak to any database.

    from viewlet import dbapi

    with dbapi.connect("state") as connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO orders VALUES (?, ?)", (1, "chair"))
        connection.commit()
        cursor.execute("SELECT product, n FROM sales WHERE n > ?", (10,))
        print(cursor.fetchall())

As PEP 249 has it, the first statement that changes rows begins a transaction, which `commit` applies as one batch and
`rollback` forgets. Views change at `commit`: one that the transaction concerns is read after it. A declaration (CREATE,
ALTER, DROP) commits what came before it. With `autocommit`, every statement is a batch of its own.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Any

import viewlet
from viewlet import errors

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeObject",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 1
"""Threads may share the module, but not connections: a transaction belongs to its connection."""
paramstyle = "qmark"
"""`?`; `$1`, and `:name` or `$name` with a mapping, are understood too."""


class Warning(Exception):
    """Nothing raises it; PEP 249 asks for it."""


class Error(Exception):
    """The base class of the errors."""


class InterfaceError(Error):
    """The module is used in a way that it does not allow, such as a closed cursor."""


class DatabaseError(Error):
    """The database refuses something."""


class DataError(DatabaseError):
    """A value is invalid: of a wrong type, or out of range."""


class OperationalError(DatabaseError):
    """The directory of the database cannot be read or written."""


class IntegrityError(DatabaseError):
    """A key or a constraint would be broken."""


class InternalError(DatabaseError):
    """An invariant of Viewlet itself does not hold."""


class ProgrammingError(DatabaseError):
    """The SQL is wrong, or names what does not exist."""


class NotSupportedError(DatabaseError):
    """Viewlet does not have what is asked for."""


_MEANINGS: tuple[tuple[type[Exception], type[Error]], ...] = (
    (errors.UnsupportedError, NotSupportedError),
    (errors.ConstraintError, IntegrityError),
    (errors.DataError, DataError),
    (errors.StateError, OperationalError),
    (errors.InternalError, InternalError),
    (errors.MissingExtraError, InterfaceError),
    (errors.ViewletError, ProgrammingError),
)


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of Viewlet as those of PEP 249, with the same text."""
    try:
        yield
    except errors.ViewletError as error:
        made = next(made for kind, made in _MEANINGS if isinstance(error, kind))
        raise made(str(error)) from error


# -- types ------------------------------------------------------------------------------------------------------------


class TypeObject:
    """A kind of columns: equal to the type codes that `Cursor.description` gives for such columns."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other.partition("(")[0].partition("[")[0] in self._names
        return isinstance(other, TypeObject) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)


STRING = TypeObject("string", "large_string", "string_view", "bool")
BINARY = TypeObject("binary", "large_binary")
NUMBER = TypeObject(
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float", "double", "halffloat", "decimal128", "decimal256"),
)
DATETIME = TypeObject("date32", "date64", "timestamp", "time32", "time64")
ROWID = TypeObject()
Date, Time, Timestamp = datetime.date, datetime.time, datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date of a time in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of a time in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local date and time of a time in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


# -- connections ------------------------------------------------------------------------------------------------------


def connect(database: Any = None, *, autocommit: bool = False, **options: Any) -> Connection:
    """Opens a database as `viewlet.connect` does, or takes a connection of that, which stays open at the end."""
    if isinstance(database, viewlet.Connection):
        return Connection(database, autocommit, is_own=False)
    with _translated():
        return Connection(viewlet.connect(database, **options), autocommit, is_own=True)


class Connection:
    """A connection of PEP 249. As a context manager it commits, or rolls back after an exception, and closes."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    def __init__(self, database: viewlet.Connection, autocommit: bool, is_own: bool) -> None:
        self._database: viewlet.Connection | None = database
        self._is_own, self._in_transaction, self._autocommit = is_own, False, autocommit

    @property
    def database(self) -> viewlet.Connection:
        """The connection underneath, with everything that Viewlet has beyond PEP 249."""
        if self._database is None:
            raise InterfaceError("the connection is closed")
        return self._database

    @property
    def autocommit(self) -> bool:
        """Whether every statement is a batch of its own."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.commit()
        self._autocommit = value

    def cursor(self) -> Cursor:
        """A cursor, with which statements are run."""
        _ = self.database
        return Cursor(self)

    def commit(self) -> None:
        """Applies what the transaction has changed, as one batch."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Forgets what the transaction has changed."""
        self._end("ROLLBACK")

    def close(self) -> None:
        """Rolls back, and closes the database if `connect` has opened it."""
        self.rollback()
        database, self._database = self.database, None
        if self._is_own:
            database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database is not None:
            try:
                self._end("COMMIT" if error is None else "ROLLBACK")
            finally:
                self.close()

    def _end(self, statement: str) -> None:
        database = self.database
        if self._in_transaction:
            self._in_transaction = False
            with _translated():
                database.execute(statement)

    def run(self, operation: str, parameters: Any) -> Any:
        """The answer of a statement, in the transaction that it needs."""
        database, word = self.database, _first_word(operation)
        if word in _DECLARING:
            self.commit()
        with _translated():
            if word in ("COMMIT", "END", "ROLLBACK", "ABORT"):
                self._in_transaction = False
            elif word in _CHANGING:
                self._begin(database)
            answer = database.execute(operation, parameters)
            self._in_transaction |= word in ("BEGIN", "START")
            return answer

    def insert_many(self, operation: str, rows: Sequence[Any]) -> int | None:
        """Inserts rows in the transaction; None if the statement is no INSERT of one row of parameters."""
        database = self.database
        if _first_word(operation) != "INSERT":
            return None
        with _translated():
            self._begin(database)
            try:
                return database.executemany(operation, rows)
            except errors.UnsupportedError:
                return None

    def _begin(self, database: viewlet.Connection) -> None:
        if not self._autocommit and not self._in_transaction:
            database.execute("BEGIN")
            self._in_transaction = True


_DECLARING = ("CREATE", "ALTER", "DROP", "BEGIN", "START")
_CHANGING = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "WITH", "EXECUTE")


@lru_cache(maxsize=512)
def _first_word(operation: str) -> str:
    from viewlet.sql import split_statements

    with _translated():
        return next((statement.words[0] for statement in split_statements(operation)), "")


class Cursor:
    """A cursor of PEP 249: runs statements, and hands out the rows of their answers."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.rowcount = -1
        self.description: list[tuple[Any, ...]] | None = None
        self.lastrowid = None
        self._answer: Any = None
        self._at = 0
        self._is_closed = False

    def execute(self, operation: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Cursor:
        """Runs a statement; `parameters` are the values of `?`, or a mapping with those of `:name`."""
        self._check()
        self._take(self.connection.run(operation, parameters or None))
        return self

    def executemany(self, operation: str, parameters: Sequence[Sequence[Any] | Mapping[str, Any]]) -> Cursor:
        """Runs a statement for each of several parameters; `INSERT INTO t VALUES (?, ...)` as one batch."""
        self._check()
        rows = list(parameters)
        count = self.connection.insert_many(operation, rows)
        if count is None:
            count = 0
            for each in rows:
                self._take(self.connection.run(operation, each or None))
                if self.description is not None:
                    raise ProgrammingError("executemany() is for statements that answer without rows")
                count += max(self.rowcount, 0)
        self._answer, self.description, self.rowcount = None, None, count
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None if there is none."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` of them if it is not said how many."""
        self._check()
        if self._answer is None:
            raise ProgrammingError("no query has been run: there are no rows")
        part = self._answer.slice(self._at, self.arraysize if size is None else size)
        self._at += part.num_rows
        return list(zip(*(column.to_pylist() for column in part.columns), strict=True))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        self._check()
        return self.fetchmany(0 if self._answer is None else self._answer.num_rows - self._at)

    def fetch_arrow_table(self) -> Any:
        """All rows of the answer as a pyarrow Table."""
        self._check()
        if self._answer is None:
            raise ProgrammingError("no query has been run: there are no rows")
        return self._answer

    def close(self) -> None:
        """Ends the cursor."""
        self._answer, self._is_closed = None, True

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing: values have their sizes."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: values have their sizes."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        _ = self.connection.database

    def _take(self, answer: Any) -> None:
        self._at, self.description = 0, None
        if answer is None or isinstance(answer, int):
            self._answer, self.rowcount = None, -1 if answer is None else answer
            return
        self._answer, self.rowcount = answer, answer.num_rows
        self.description = [
            (field.name, str(field.type), None, None, None, None, field.nullable) for field in answer.schema
        ]
