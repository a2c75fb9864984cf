"""Connections of dbt to a Viewlet database: all threads of a process share one, because a directory is open once."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState, Credentials
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

import viewlet
from viewlet import dbapi

logger = AdapterLogger("Viewlet")
_READS = re.compile(r"(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:select|show|describe|explain)\b[^;]*$", re.IGNORECASE | re.DOTALL)
"""A statement that changes nothing."""


@dataclass
class ViewletCredentials(Credentials):
    """An output of profiles.yml; the arguments of `viewlet.connect`, with `path` for the directory or its URL.

    With `keep_open` a database stays open from one command to the next, in programs that call `dbtRunner`.
    """

    path: str = ""
    database: str = "memory"
    schema: str = "main"
    engine: str = "auto"
    fsync: bool = True
    external_access: bool = False
    spark: str | None = None
    partitions: int | None = None
    keep_open: bool = False

    def __post_init__(self) -> None:
        if not self.path:
            raise DbtRuntimeError("the profile needs 'path', the directory of the Viewlet database")

    @property
    def type(self) -> str:
        return "viewlet"

    @property
    def unique_field(self) -> str:
        return self.path

    def _connection_keys(self) -> tuple[str, ...]:
        return (
            *("path", "database", "schema", "engine", "fsync", "external_access"),
            *("spark", "partitions", "keep_open"),
        )

    @property
    def place(self) -> str:
        """The path, which does not depend on the working directory; URLs are what they are."""
        return self.path if "://" in self.path else os.path.abspath(os.path.expanduser(self.path))

    def connect(self) -> viewlet.Connection:
        options: dict[str, Any] = {"fsync": self.fsync, "external_access": self.external_access}
        if self.spark is not None:
            options |= {"spark": self.spark, "partitions": self.partitions}
        return viewlet.connect(self.place, engine=self.engine, **options)


class ViewletConnectionManager(SQLConnectionManager):
    """Statements are batches of their own: transactions of Viewlet belong to the database, which all threads share."""

    TYPE = "viewlet"
    _databases: ClassVar[dict[str, viewlet.Connection]] = {}
    _guard: ClassVar[RLock] = RLock()
    statements: ClassVar[int] = 0
    """How many statements have been run that may have changed the catalogue."""

    @classmethod
    def database(cls, credentials: ViewletCredentials) -> viewlet.Connection:
        """The database of a profile, opened by the first who asks."""
        with cls._guard:
            if credentials.place not in cls._databases:
                cls._databases[credentials.place] = credentials.connect()
            return cls._databases[credentials.place]

    @classmethod
    def close_databases(cls) -> None:
        """Ends the databases, so that other processes can open their directories."""
        with cls._guard:
            while cls._databases:
                cls._databases.popitem()[1].close()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.state == ConnectionState.OPEN:
            return connection
        try:
            database = cls.database(connection.credentials)  # type: ignore[arg-type]
        except viewlet.ViewletError as error:
            connection.handle, connection.state = None, ConnectionState.FAIL
            raise FailedToConnectError(str(error)) from error
        connection.handle = dbapi.connect(database, autocommit=True)
        connection.state = ConnectionState.OPEN
        return connection

    def cleanup_all(self) -> None:
        super().cleanup_all()
        if not self.profile.credentials.keep_open:  # type: ignore[attr-defined]
            self.close_databases()

    def add_query(self, sql: str, *arguments: Any, **options: Any) -> tuple[Connection, Any]:
        try:
            return super().add_query(sql, *arguments, **options)
        finally:
            if not _READS.match(sql):
                type(self).statements += 1

    def cancel(self, connection: Connection) -> None:
        """Statements are not interrupted: each is a batch, which ends as a whole or not at all."""

    def add_begin_query(self) -> None:  # type: ignore[override]
        """Nothing to begin."""

    def add_commit_query(self) -> None:  # type: ignore[override]
        """Nothing to commit."""

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        try:
            yield
        except DbtRuntimeError:
            raise
        except (dbapi.Error, viewlet.ViewletError) as error:
            raise DbtDatabaseError(str(error)) from error
        except Exception as error:
            raise DbtRuntimeError(str(error)) from error

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        count = max(cursor.rowcount, 0)
        return AdapterResponse(_message="OK" if cursor.rowcount < 0 else f"OK {count}", rows_affected=count)

    @classmethod
    def data_type_code_to_name(cls, type_code: Any) -> str:
        """The SQL type of a column of an answer, whose type code is that of Arrow."""
        return sql_type(str(type_code))


_SQL_TYPES = {
    "bool": "BOOLEAN",
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "string_view": "VARCHAR",
    "date32[day]": "DATE",
}


def sql_type(arrow: str) -> str:
    """`decimal128(9, 2)` is DECIMAL(9,2); types that Viewlet does not have are given as they are."""
    if arrow.startswith("timestamp") and "tz=" not in arrow:
        return "TIMESTAMP"
    if digits := re.fullmatch(r"decimal\d+\((\d+), ?(\d+)\)", arrow):
        return f"DECIMAL({digits[1]},{digits[2]})"
    return _SQL_TYPES.get(arrow, arrow)


atexit.register(ViewletConnectionManager.close_databases)
