"""Parts as tables of a PostgreSQL database, through a `psql` process. A batch is one transaction."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping
from queue import Queue
from typing import Any

from viewlet.errors import DataError, MissingExtraError, StateError
from viewlet.types import Kind, SqlType

_SCHEMA = "viewlet"
_CATALOGUE = f"{_SCHEMA}.catalogue"
_LONGEST = 60
"""PostgreSQL cuts longer names."""
_TYPES = {Kind.VARCHAR: "TEXT", Kind.DOUBLE: "DOUBLE PRECISION"}


class PostgresHost:
    """A host on a PostgreSQL server; `connection` is what `psql` takes, a name, a URL or `key=value` pairs.

    Everything is in the schema `viewlet` of that database, which belongs to the warehouse.
    """

    dialect = "postgres"

    def __init__(self, connection: str, psql: str = "psql") -> None:
        if shutil.which(psql) is None:
            raise MissingExtraError(f"{psql} is not installed: install PostgreSQL's client (postgresql-client)")
        command = [psql, "-X", "-q", "-A", "-t", "-v", "VERBOSITY=terse", "-v", "ON_ERROR_STOP=0", "-d", connection]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        self._outputs = tuple(_follow(stream) for stream in (self._process.stdout, self._process.stderr))
        self._number = 0
        self._is_open = False
        self._run("SET TIME ZONE 'UTC'; SET client_min_messages = warning;")
        self._run(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}; SET search_path = {_SCHEMA};")
        self._run(f"CREATE TABLE IF NOT EXISTS {_CATALOGUE} (key TEXT PRIMARY KEY, value TEXT);")

    def _run(self, text: str) -> str:
        """What statements print; they fail with the server's first error."""
        self._number += 1
        mark = f"viewlet-{self._number}"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{text}\n\\echo {mark}\n\\warn {mark}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise StateError(f"psql has ended: {error}") from error
        printed, errors = (_until(output, mark) for output in self._outputs)
        failed = [line for line in errors.splitlines() if "ERROR:" in line or "FATAL:" in line]
        if failed:
            raise DataError(f"PostgreSQL: {failed[0].split('ERROR:')[-1].strip()}")
        return printed

    def entries(self) -> dict[str, str]:
        found = self.read(f"SELECT key, value FROM {_CATALOGUE}").to_pylist()
        return {row["key"]: row["value"] for row in found}

    def tables(self) -> list[str]:
        listed = self._run(f"SELECT tablename FROM pg_tables WHERE schemaname = '{_SCHEMA}';")
        return [name for name in listed.splitlines() if name and f"{_SCHEMA}.{name}" != _CATALOGUE]

    def begin(self) -> None:
        if not self._is_open:
            self._run("BEGIN;")
            self._is_open = True

    def load(self, table: str, rows: Any) -> None:
        from pyarrow import csv

        columns = ", ".join(f"{self.quote(field.name)} {_column_type(field.type)}" for field in rows.schema)
        sink = io.BytesIO()
        csv.write_csv(rows, sink, csv.WriteOptions(include_header=False, quoting_style="needed"))
        data = sink.getvalue().decode()
        self._run(f"CREATE TABLE {self.source(table)} ({columns});")
        self._run(f"COPY {self.source(table)} FROM STDIN WITH (FORMAT csv);\n{data}\\.")

    def create(self, table: str, query: str) -> int:
        self._run(f"CREATE TABLE {self.source(table)} AS {query};")
        self._run(f"ANALYZE {self.source(table)};")
        return int(self._run(f"SELECT COUNT(*) FROM {self.source(table)};"))

    def read(self, query: str) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        described = self._run(f"{query} \\gdesc").splitlines()
        names, types = zip(*(line.rsplit("|", 1) for line in described), strict=True)
        data = self._run(f"COPY ({query}) TO STDOUT WITH (FORMAT csv);").encode()
        schema = pa.schema([pa.field(n, _arrow_type(t)) for n, t in zip(names, types, strict=True)])
        if not data:
            return schema.empty_table()
        options = csv.ConvertOptions(
            column_types={field.name: pa.string() if field.type == pa.bool_() else field.type for field in schema},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        read = csv.read_csv(io.BytesIO(data), csv.ReadOptions(column_names=names), convert_options=options)
        return _booleans(read, schema)

    def source(self, table: str) -> str:
        if len(table.encode()) > _LONGEST:
            table = f"{table[:12]} {hashlib.sha256(table.encode()).hexdigest()[:40]}"
        return f"{_SCHEMA}.{self.quote(table)}"

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def type_name(self, type: SqlType) -> str:
        return _TYPES.get(type.kind, str(type))

    def commit(self, entries: Mapping[str, str | None], unused: Iterable[str]) -> None:
        self.begin()
        for key, value in entries.items():
            self._run(f"DELETE FROM {_CATALOGUE} WHERE key = {_text(key)};")
            if value is not None:
                self._run(f"INSERT INTO {_CATALOGUE} VALUES ({_text(key)}, {_text(value)});")
        for table in unused:
            self._run(f"DROP TABLE IF EXISTS {self.source(table)};")
        self._run("COMMIT;")
        self._is_open = False

    def rollback(self) -> None:
        if self._is_open:
            self._run("ROLLBACK;")
            self._is_open = False

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(10)


def _follow(stream: Any) -> Queue[str]:
    """The lines of a stream as they come."""
    lines: Queue[str] = Queue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


def _until(lines: Queue[str], mark: str) -> str:
    found: list[str] = []
    while (line := lines.get()) != f"{mark}\n":
        if not line:
            raise StateError("psql has ended: " + "".join(found).strip())
        found.append(line)
    return "".join(found)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _column_type(type: Any) -> str:
    import pyarrow as pa

    if pa.types.is_decimal(type):
        return f"DECIMAL({type.precision},{type.scale})"
    names = {
        pa.bool_(): "BOOLEAN",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.float32(): "REAL",
        pa.float64(): "DOUBLE PRECISION",
        pa.date32(): "DATE",
        pa.timestamp("us"): "TIMESTAMP",
    }
    return names.get(type, "TEXT")


def _arrow_type(name: str) -> Any:
    import pyarrow as pa

    if name.startswith("numeric("):
        precision, scale = name.removeprefix("numeric(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "numeric": pa.decimal128(38, 9),
        "real": pa.float32(),
        "double precision": pa.float64(),
        "date": pa.date32(),
        "timestamp without time zone": pa.timestamp("us"),
    }.get(name, pa.string())


def _booleans(table: Any, schema: Any) -> Any:
    """PostgreSQL writes booleans as t and f."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = [
        pc.equal(table.column(field.name), "t") if field.type == pa.bool_() else table.column(field.name)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)
