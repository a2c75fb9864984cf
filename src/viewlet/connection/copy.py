"""COPY: DuckDB reads a file into Arrow, which is inserted as one batch, or writes the answer of a query as a file.

A name of a file is taken as it is written: no pattern, no URL, no home directory. A file is written under another name
in its folder and then renamed, so that nobody sees a part of it.
"""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING, Any

from viewlet.adhoc import shortened
from viewlet.duckdb_access import literal_name, open_duckdb
from viewlet.errors import DataError, UnsupportedError, interruptible
from viewlet.sql.source import quoted
from viewlet.types import Column

if TYPE_CHECKING:
    from viewlet.sql import Copy

_URL = re.compile(r"[A-Za-z][\w+.-]+://")
_CAST = re.compile(r"convert|cast|transform", re.IGNORECASE)
_LANDING = "landing"
_COMPRESSED = (".gz", ".zst")


def read_file(statement: Copy, columns: tuple[Column, ...]) -> Any:
    """The rows of a file as Arrow, in the listed columns of a table."""
    import duckdb

    path = _local(statement.path)
    if not os.path.exists(path):
        raise DataError(f"COPY: there is no file {statement.path!r}")
    with open_duckdb(external_access=True) as reader:
        try:
            with interruptible(reader):
                _land(reader, statement, path, {column.name: str(column.type) for column in columns})
                return reader.sql(f"FROM {_LANDING}").to_arrow_table()
        except duckdb.Error as error:
            reason = _misfit(reader, statement, path, columns, str(error))
            raise DataError(f"COPY: cannot read {statement.path!r} as {statement.format.upper()}: {reason}") from None


def _land(reader: Any, statement: Copy, path: str, types: dict[str, str], *more: str) -> None:
    """Reads a file into a table of DuckDB."""
    declared = ", ".join(f"{quoted(name)} {type}" for name, type in types.items())
    reader.execute(f"CREATE OR REPLACE TABLE {_LANDING} ({declared})")
    _run(reader, f"COPY {_LANDING} FROM {_text(literal_name(path))}", statement, *more)


def _run(connection: Any, copy: str, statement: Copy, *more: str) -> int:
    """Runs a COPY of DuckDB with the options that are written, which have to be all that is there."""
    options = ", ".join((f"FORMAT {statement.format}", *statement.options, *more))
    (parsed,) = connection.extract_statements(f"{copy} ({options})")
    ((count,),) = connection.execute(parsed).fetchall()
    return int(count)


def _misfit(reader: Any, statement: Copy, path: str, columns: tuple[Column, ...], message: str) -> str:
    """What is wrong with a file: the line or row, and the column, if they can be found."""
    import duckdb

    if "sniffing" in message:  # without guesses, DuckDB says which line is another than the others
        try:
            _land(reader, statement, path, {column.name: str(column.type) for column in columns}, "AUTO_DETECT false")
        except duckdb.Error as error:
            message = str(error)
    if "CSV Error on Line" in message:
        return "; ".join(message.split("CSV Error on", 1)[1].strip().splitlines()[:3])
    if statement.format != "csv" and _CAST.search(message):
        try:
            _land(reader, statement, path, dict.fromkeys((column.name for column in columns), "VARCHAR"))
        except duckdb.Error:
            return shortened(message)
        for column in columns:
            name, number = quoted(column.name), "rowid + 1"
            fails = f"{name} IS NOT NULL AND TRY_CAST({name} AS {column.type}) IS NULL"
            query = f"SELECT {number}, {name} FROM {_LANDING} WHERE {fails} ORDER BY rowid LIMIT 1"
            if found := reader.execute(query).fetchall():
                ((row, value),) = found
                return f"row {row}, column {column.name!r}: {value!r} is no {column.type}"
    return shortened(message)


def write_file(statement: Copy, rows: Any) -> int:
    """Writes rows to a file, which is there as a whole or not at all; returns their number."""
    import duckdb

    path = os.path.realpath(_local(statement.path))
    folder, name = os.path.split(path)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise DataError(f"COPY: {statement.path!r} is no file that could be replaced")
    suffix = next((each for each in _COMPRESSED if name.lower().endswith(each)), "")
    partial = os.path.join(folder, f".viewlet-{secrets.token_hex(8)}{suffix}")
    try:
        with open_duckdb(external_access=True) as writer:
            writer.register("rows", rows)
            with interruptible(writer):
                count = _run(writer, f"COPY (FROM rows) TO {_text(partial)}", statement)
        with open(partial, "rb") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
    except (duckdb.Error, OSError) as error:
        reason = shortened(str(error)).replace(partial, path)
        raise DataError(f"COPY: cannot write {statement.path!r}: {reason}") from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return count


def _local(name: str) -> str:
    """The full name of a file of this machine."""
    if _URL.match(name):
        raise UnsupportedError(f"COPY with the URL {name!r}", "it reads and writes files of this machine")
    if not name or "\0" in name:
        raise DataError(f"COPY: {name!r} is not the name of a file")
    return os.path.abspath(name)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
