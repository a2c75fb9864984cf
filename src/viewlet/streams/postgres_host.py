"""Parts as partitions of tables of a PostgreSQL database, through a `psql` process. A batch is one transaction.

    viewlet."packets[23668440]"   a part, or what late rows added to one; a partition of
    viewlet_streams."packets"     PARTITION BY RANGE (viewlet_part, viewlet_segment)

A table is made on its own. The commit attaches it, with two columns that take no room in its rows: they are defaults.
Tables of helpers stay on their own. What makes the tables of a batch is sent without waiting for the answers (`start`).

`psql` runs commands of its own, which begin with a backslash and may start programs. So no text of a user is ever read
by it outside quotes: statements are checked for what it would not take for SQL, and rows are sent with every backslash
and every end of a line escaped. Where an answer ends is said by a word that nobody can guess.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.errors import DataError, MissingExtraError, StateError, UnsupportedError
from viewlet.forks import bind_to_process
from viewlet.interrupts import DEFERRED_INTERRUPT
from viewlet.streams.host_meanings import POSTGRES_FUNCTIONS
from viewlet.types import Kind, SqlType

_SCHEMA = "viewlet"
_RELATIONS = "viewlet_streams"
"""The schema of the partitioned tables, which have the names of streams and views."""
_CATALOGUE = f"{_SCHEMA}.catalogue"
_SEGMENT_COLUMN = "viewlet_segment"
"""Tells the tables of a part apart."""
_LONGEST = 60
"""Longer names of tables are digests."""
_CUT = 63
"""PostgreSQL cuts longer names."""
_TYPES = {Kind.VARCHAR: "TEXT", Kind.DOUBLE: "DOUBLE PRECISION"}
_QUOTED = re.compile(r"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""", re.DOTALL)
_NOT_SQL = re.compile(r"\\|--|/\*|\$|['\"]|:['\"{]|(?<!:):[A-Za-z_]")
"""What `psql` would read in its own way outside quotes: commands, comments, other quotes, variables."""


class PostgresHost:
    """A host on a PostgreSQL server; `connection` is what `psql` takes, a name, a URL or `key=value` pairs.

    Everything is in the schemas `viewlet` and `viewlet_streams` of that database, which belong to the warehouse.
    """

    dialect = "postgres"
    workers = 1  # a batch is one transaction
    place = "the schema viewlet of the PostgreSQL database"  # a connection string may hold a password

    def __init__(self, connection: str, psql: str = "psql") -> None:
        if shutil.which(psql) is None:
            raise MissingExtraError(f"{psql} is not installed: install PostgreSQL's client (postgresql-client)")
        self._secret = secrets.token_hex(16)
        command = [psql, "-X", "-q", "-A", "-t", "-F", f"{self._secret} column", "-R", f"{self._secret} row"]
        command += ["-v", "VERBOSITY=terse", "-v", "ON_ERROR_STOP=0", "-d", connection]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        bind_to_process(self)
        self._outputs = tuple(_follow(stream) for stream in (self._process.stdout, self._process.stderr))
        self._number = 0
        self._is_open = False
        self._started: dict[str, bytes] = {}
        """Tables that are being made, with the marks that end the answers."""
        self._settled: dict[str, int] = {}
        """The rows of tables that were started and are made."""
        self._partitioned_relations: set[str] = set()
        """Relations that are known to have a partitioned table."""
        self._attached: dict[str, tuple[str, range]] = {}
        """Tables that the next commit makes partitions, with their relation and parts."""
        self._forgotten: set[str] = set()
        """Relations that the next commit drops."""
        self._is_repeated = False
        """A commit was interrupted: it may have reached the server."""
        self._run("SET TIME ZONE 'UTC'; SET client_min_messages = warning; SET client_encoding = 'UTF8';")
        self._run("SET standard_conforming_strings = on;")
        # parts are joined before they have statistics, and the planner would sort both sides
        self._run("SET enable_mergejoin = off;")
        self._run(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}; SET search_path = {_SCHEMA};")
        self._run(f"CREATE SCHEMA IF NOT EXISTS {_RELATIONS};")
        self._run(f"CREATE TABLE IF NOT EXISTS {_CATALOGUE} (key TEXT PRIMARY KEY, value TEXT);")
        self._create_functions()

    def _create_functions(self) -> None:
        """Those that queries of views call, if the schema does not have them."""
        found = self._records(f"SELECT proname FROM pg_proc WHERE pronamespace = '{_SCHEMA}'::regnamespace;")
        for head, body in POSTGRES_FUNCTIONS.items():
            if [head.partition("(")[0]] not in found:
                self._run(f"CREATE FUNCTION {_SCHEMA}.{head} AS '{body}';")

    def _run(self, sql: str, command: str = "", data: bytes = b"") -> bytes:
        """What statements print, with a command of `psql` or data after them; fails with the server's first error."""
        return self._send(f"{_checked(sql)} {command}", data)

    def _send(self, text: str, data: bytes = b"") -> bytes:
        """What `psql` prints for a text, with data after it."""
        self._collect()
        return self._answer(self._post(text, data))

    def _post(self, text: str, data: bytes = b"") -> bytes:
        """Sends a text, with data after it; returns the mark that ends its answer."""
        self._number += 1
        mark = f"{self._secret} {self._number}\n".encode()
        assert self._process.stdin is not None
        try:
            with DEFERRED_INTERRUPT:  # half of a statement would become the beginning of the next one
                self._process.stdin.write(f"{text}\n".encode() + data + b"\\echo " + mark + b"\\warn " + mark)
                self._process.stdin.flush()
        except OSError as error:
            raise StateError(f"psql has ended: {error}") from error
        return mark

    def _answer(self, mark: bytes) -> bytes:
        """What `psql` prints before a mark."""
        printed, errors = (_until(output, mark, self._secret.encode()) for output in self._outputs)
        failed = [line for line in errors.decode(errors="replace").splitlines() if "ERROR:" in line or "FATAL:" in line]
        if failed:
            raise DataError(f"PostgreSQL: {failed[0].split('ERROR:')[-1].strip()}")
        return printed

    def _records(self, sql: str, command: str = "") -> list[list[str]]:
        """The rows that a statement prints, as texts."""
        printed = self._run(sql, command).decode().removesuffix("\n")
        rows = printed.split(f"{self._secret} row") if printed else []
        return [row.split(f"{self._secret} column") for row in rows]

    def entries(self) -> dict[str, str]:
        found = self.read(f"SELECT key, value FROM {_CATALOGUE}").to_pylist()
        return {row["key"]: row["value"] for row in found}

    def tables(self) -> list[str]:
        return [name for name in self._tables_in(_SCHEMA) if f"{_SCHEMA}.{name}" != _CATALOGUE]

    def relations(self) -> list[str]:
        return self._tables_in(_RELATIONS)

    def _tables_in(self, schema: str) -> list[str]:
        return [name for (name,) in self._records(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}';")]

    def attach(self, relation: str, tables: Mapping[str, range]) -> None:
        self._attached.update({table: (relation, parts) for table, parts in tables.items()})

    def forget(self, relation: str) -> None:
        self._forgotten.add(relation)

    def begin(self) -> None:
        if not self._is_open:
            self._run("BEGIN;")
            self._is_open = True

    def load(self, table: str, rows: Any) -> None:
        columns = ", ".join(f"{self.quote(field.name)} {_column_type(field.type)}" for field in rows.schema)
        self._run(f"CREATE TABLE {self.source(table)} ({columns});")
        data = _copied(rows) + b"\\.\n"
        self._run("", "\\set ON_ERROR_STOP 1")  # had the server refused COPY, psql would run the rows
        # the table is of this transaction: its rows need no look at which transaction made them
        self._run(f"COPY {self.source(table)} FROM STDIN WITH (FREEZE);", data=data)
        self._run("", "\\set ON_ERROR_STOP 0")

    def create(self, table: str, query: str) -> int:
        return int(self._run(*self._creation(table, query)))

    def start(self, table: str, query: str) -> None:
        sql, command = self._creation(table, query)
        self._started[table] = self._post(f"{_checked(sql)} {command}")

    def settle(self) -> dict[str, int]:
        self._collect()
        settled, self._settled = self._settled, {}
        return settled

    def _collect(self) -> None:
        """Waits for the tables that were started. Each is waited for once, also if that is interrupted."""
        while self._started:
            table, mark = next(iter(self._started.items()))
            del self._started[table]
            self._settled[table] = int(self._answer(mark))

    def _creation(self, table: str, query: str) -> tuple[str, str]:
        # psql knows the rows that its last statement has made; statistics are left to the server's autovacuum
        return f"CREATE TABLE {self.source(table)} AS {query};", "\\echo :ROW_COUNT"

    def read(self, query: str) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        names, types = zip(*self._records(query, "\\gdesc"), strict=True)
        data = self._run(f"COPY ({query}) TO STDOUT WITH (FORMAT csv);")
        schema = pa.schema([pa.field(n, _arrow_type(t)) for n, t in zip(names, types, strict=True)])
        if not data:
            return schema.empty_table()
        options = csv.ConvertOptions(
            column_types={field.name: pa.string() if field.type == pa.bool_() else field.type for field in schema},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        # a NULL of the only column is an empty line
        parsing = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        read = csv.read_csv(io.BytesIO(data), csv.ReadOptions(column_names=names), parsing, options)
        return _booleans(read, schema)

    def check(self, query: str) -> None:
        self._run(f"EXPLAIN {query};")

    def source(self, table: str) -> str:
        return f"{_SCHEMA}.{self.quote(_short(table))}"

    def _partitioned(self, relation: str) -> str:
        return f"{_RELATIONS}.{self.quote(_short(relation))}"

    def quote(self, name: str) -> str:
        if len(name.encode()) > _CUT:
            raise UnsupportedError(f"the name {name!r:.30} on PostgreSQL", f"names have at most {_CUT} bytes there")
        return '"' + name.replace('"', '""') + '"'

    def type_name(self, type: SqlType) -> str:
        return _TYPES.get(type.kind, str(type))

    def commit(self, entries: Mapping[str, str | None], unused: Iterable[str]) -> None:
        """Sends everything as one request: an answer that is waited for takes longer than what is asked."""
        self.begin()
        attached = self._partitions() if self._is_repeated else set()
        statements: list[str] = []
        values = [f"({_text(key)}, {_text(value)})" for key, value in entries.items() if value is not None]
        removed = [_text(key) for key, value in entries.items() if value is None]
        if removed:
            statements.append(f"DELETE FROM {_CATALOGUE} WHERE key IN ({', '.join(removed)})")
        if values:
            put = f"INSERT INTO {_CATALOGUE} VALUES {', '.join(values)}"
            statements.append(f"{put} ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value")
        dropped = [*map(self.source, unused), *map(self._partitioned, sorted(self._forgotten))]
        if dropped:
            statements.append(f"DROP TABLE IF EXISTS {', '.join(dropped)}")
        self._partitioned_relations -= self._forgotten
        for table, (relation, parts) in self._attached.items():
            if _short(table) not in attached:
                statements += self._attach(table, relation, parts)
        self._is_repeated = True
        self._run_together([*statements, "COMMIT"])
        self._partitioned_relations |= {relation for relation, _ in self._attached.values()}
        self._is_open = self._is_repeated = False
        self._attached, self._forgotten = {}, set()

    def _run_together(self, statements: Sequence[str]) -> None:
        """Runs statements as one request; those after one that fails are not run."""
        self._send(" \\;\n".join(map(_checked, statements)) + ";")

    def _partitions(self) -> set[str]:
        """The tables that are partitions."""
        found = self._records(
            "SELECT relname FROM pg_inherits JOIN pg_class ON inhrelid = pg_class.oid "
            f"WHERE relnamespace = {_text(_SCHEMA)}::regnamespace;"
        )
        return {name for (name,) in found}

    def _attach(self, table: str, relation: str, parts: range) -> list[str]:
        """Statements that make a table a partition."""
        part, segment = self.quote(PART_COLUMN), self.quote(_SEGMENT_COLUMN)
        child, parent, first, last = self.source(table), self._partitioned(relation), parts[0], parts[-1]
        number = int(hashlib.sha256(table.encode()).hexdigest()[:15], 16)
        low, high = ("MINVALUE", "MAXVALUE") if first < last else (str(number), str(number + 1))
        defaults = [
            f"ADD COLUMN IF NOT EXISTS {name} BIGINT DEFAULT {value}"
            for name, value in ((part, first), (segment, number))
        ]
        creation = f"CREATE TABLE IF NOT EXISTS {parent} (LIKE {child}) PARTITION BY RANGE ({part}, {segment})"
        return [
            f"ALTER TABLE {child} {', '.join(defaults)}",
            *([] if relation in self._partitioned_relations else [creation]),
            f"ALTER TABLE {parent} ATTACH PARTITION {child} FOR VALUES FROM ({first}, {low}) TO ({last}, {high})",
        ]

    def rollback(self) -> None:
        self._attached, self._is_repeated = {}, False
        self._started, self._settled = {}, {}  # answers that nobody reads are left out
        if self._is_open:
            self._run("", "\\set ON_ERROR_STOP 0")  # a load may have been interrupted
            self._run("ROLLBACK;")
            self._is_open = False

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(10)

    def leave_in_fork(self) -> None:
        """`psql` ends when the process that started it does, not when its forks do."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                os.dup2(nothing, pipe.fileno())
        os.close(nothing)


def _checked(sql: str) -> str:
    """SQL that `psql` sends as it is."""
    if "\0" in sql:
        raise DataError("PostgreSQL keeps no NUL characters")
    if _NOT_SQL.search(_QUOTED.sub("", sql)) is not None:
        raise UnsupportedError("a query with $, :name or \\ outside quotes", "psql would take it for its own")
    return sql


def _follow(stream: Any) -> SimpleQueue[bytes]:
    """The lines of a stream as they come."""
    lines: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(b"")

    threading.Thread(target=read, daemon=True).start()
    return lines


def _until(lines: SimpleQueue[bytes], mark: bytes, secret: bytes) -> bytes:
    """What comes before a mark, but after the mark of a statement whose answer nobody read: it was interrupted."""
    found: list[bytes] = []
    while (line := lines.get()) != mark:
        if not line:
            raise StateError("psql has ended: " + b"".join(found).decode(errors="replace").strip())
        if line.startswith(secret) and line[len(secret) :].strip().isdigit():
            found.clear()
        else:
            found.append(line)
    return b"".join(found)


def _copied(rows: Any) -> bytes:
    """Rows in the text format of COPY, in which every row is a line and no line of data is an end of it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = []
    for column in rows.columns:
        text = column.cast(pa.string())
        for character, escape in ("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"):
            text = pc.replace_substring(text, character, escape)
        if pc.any(pc.match_substring(text, "\0")).as_py():
            raise DataError("PostgreSQL keeps no NUL characters")
        texts.append(text)
    lines = pc.binary_join_element_wise(*texts, "\t", null_handling="replace", null_replacement="\\N")
    return b"".join(f"{line}\n".encode() for line in lines.to_pylist())


def _short(name: str) -> str:
    """The name of a table, or what stands for it where PostgreSQL would cut it."""
    return name if len(name.encode()) <= _LONGEST else f"{name[:12]} {hashlib.sha256(name.encode()).hexdigest()[:40]}"


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
