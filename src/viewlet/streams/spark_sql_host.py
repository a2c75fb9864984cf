"""Parts as Parquet folders, computed by Spark SQL. The catalogue is a folder of files; a rename commits the next one.

The session is the user's: this module calls it, and imports nothing of Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote as encoded
from urllib.parse import unquote as decoded

from viewlet.changes.staged_change import PART_COLUMN
from viewlet.errors import DataError, StateError
from viewlet.streams.definition import MICROSECONDS
from viewlet.streams.readable import guard
from viewlet.types import Column, Kind, SqlType, Table

_VIEW = re.compile(r"\bviewlet_[0-9a-f]{32}\b")
_TYPES = {Kind.VARCHAR: "STRING", Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.REAL: "FLOAT", Kind.INTEGER: "INT"}


_CHECKSUM, _ENTRIES = "checksum", "entries"
_ROW_GROUP = 131_072
"""Rows of a file that one task reads at least."""


class SparkSqlHost:
    """A host on a Spark session, with its parts in a folder that all executors reach.

    `workers` jobs run at a time.
    """

    dialect = "spark"

    def __init__(self, spark: Any, folder: str | os.PathLike[str], workers: int = 4) -> None:
        self._spark = spark
        self.place = os.fspath(folder)
        self.workers = workers
        self._parts = Path(folder) / "parts"
        self._catalogue = Path(folder) / "catalogue"
        self.staging = Path(folder) / "staged"
        self._awaited: set[str] = set()
        """Folders that the next batch will adopt."""
        for each in (self._parts, self._catalogue, self.staging):
            each.mkdir(parents=True, exist_ok=True)
        self._made: list[str] = []
        self._schemas: dict[str, Any] = {}
        """The schemas of tables, where they are known: Spark would read them from files for every query."""
        self._names: dict[str, tuple[str, ...]] = {}
        """Tables by the names of their temporary views, and those of them that Spark has."""
        self._read_by: dict[str, set[str]] = {}
        """The names of the temporary views over a table."""
        self._registered: set[str] = set()
        self._next = 1 + max((int(file.stem) for file in self._files()), default=0)

    def _files(self) -> list[Path]:
        return sorted(self._catalogue.glob("*.json"))

    def entries(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for number, file in enumerate(self._files(), 1):
            if int(file.stem) != number:
                raise StateError(f"{self._file(number)} is missing; restore it from a copy")
            for key, value in _read_entries(file).items():
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value
        return found

    def _file(self, number: int) -> Path:
        return self._catalogue / f"{number:012}.json"

    def tables(self) -> list[str]:
        return [decoded(each.name) for each in self._parts.iterdir()]

    def begin(self) -> None:
        """Tables are only named by the catalogue: there is nothing to open."""

    def load(self, table: str, rows: Any) -> None:
        """Writes a file in this process: a job would send the rows through Spark and take longer to start."""
        import pyarrow.parquet as pq

        self._made.append(table)
        place = Path(self._path(table))
        place.mkdir()
        pq.write_table(rows, place / "rows.parquet", row_group_size=_ROW_GROUP, coerce_timestamps="us")
        schema = [(field.name, _column_type(field.type)) for field in rows.schema]
        if all(type is not None for _, type in schema):
            self._schemas[table] = ", ".join(f"{self.quote(name)} {type}" for name, type in schema)

    def _write(self, table: str, frame: Any) -> None:
        frame.write.parquet(self._path(table))
        self._schemas[table] = frame.schema

    def create(self, table: str, query: str) -> int:
        self._made.append(table)
        try:
            self._write(table, self._sql(query))
        except Exception as error:
            raise _as_data_error(error, "a part cannot be computed") from error
        return self._count(table)

    def create_all(self, queries: Mapping[str, str]) -> dict[str, int]:
        together = f"{next(iter(queries))} and others"
        self._made += [*queries, together]
        selects = (
            f"SELECT *, {at} AS {PART_COLUMN} FROM ({query}) AS made" for at, query in enumerate(queries.values())
        )
        try:
            frame = self._sql(" UNION ALL ".join(selects))
            frame.write.partitionBy(PART_COLUMN).parquet(self._path(together))
        except Exception as error:
            raise _as_data_error(error, "parts cannot be computed") from error
        rows = frame.drop(PART_COLUMN)
        for at, table in enumerate(queries):
            place = Path(self._path(together)) / f"{PART_COLUMN}={at}"
            if place.exists():
                place.rename(self._path(table))
                self._schemas[table] = rows.schema
            else:
                self._write(table, rows.limit(0))
        shutil.rmtree(self._path(together))
        return {table: self._count(table) for table in queries}

    def scan(self, table: str, columns: Sequence[str]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = sorted(Path(self._path(table)).glob("*.parquet"))
        return pa.concat_tables([pq.ParquetFile(file).read(list(columns)) for file in files])

    def _count(self, table: str) -> int:
        """The rows of a table, as the footers of its files say: no job is needed."""
        import pyarrow.parquet as pq

        return sum(pq.read_metadata(file).num_rows for file in Path(self._path(table)).glob("*.parquet"))

    def stage(self, frame: Any, table: Table) -> str | None:
        assert table.parts is not None
        if set(frame.columns) != set(table.column_names) or any(type == "timestamp" for _, type in frame.dtypes):
            return None  # times with a zone are converted row by row
        columns = [f"{self._checked(table, column)} AS {self.quote(column.name)}" for column in table.columns]
        folder = self.staging / uuid.uuid4().hex
        self._awaited.add(folder.name)
        number = _part_number(self.quote(table.parts.time), table.parts.length * MICROSECONDS)
        try:
            frame.selectExpr(*columns, f"{number} AS {PART_COLUMN}").write.partitionBy(PART_COLUMN).parquet(str(folder))
        except Exception as error:
            raise _as_data_error(error, f"rows of {table.name!r} cannot be taken") from error
        return str(folder)

    def _checked(self, table: Table, column: Column) -> str:
        """A column of a frame for a stream, in its type; a NULL fails where the column has none."""
        from sqlglot import exp

        value = f"CAST({self.quote(column.name)} AS {self.type_name(column.type)})"
        value = guard(column, self.dialect, f"stream {table.name}").replace("{0}", value)
        if column.type.nullable or table.parts is None or column.name == table.parts.time:
            return value
        refused = exp.Literal.string(f"{table.name}.{column.name}: NULL is refused: the column is NOT NULL")
        return f"COALESCE({value}, raise_error({refused.sql('spark')}))"

    def adopt(self, table: str, folder: str) -> None:
        self._made.append(table)
        shutil.copytree(folder, self._path(table), copy_function=os.link)
        self._awaited.discard(Path(folder).parent.name)

    def read(self, query: str) -> Any:
        return self._sql(query).toArrow()

    def check(self, query: str) -> None:
        try:
            self._sql(query)
        except Exception as error:
            raise _as_data_error(error, "Spark") from error

    def _sql(self, query: str) -> Any:
        """A query over tables, which become temporary views when they are first read."""
        for name in set(_VIEW.findall(query)) & self._names.keys() - self._registered:
            tables = self._names[name]
            reader, schema = self._spark.read, self._schemas.get(tables[0])
            frame = (reader if schema is None else reader.schema(schema)).parquet(*map(self._path, tables))
            frame.createOrReplaceTempView(name)
            self._registered.add(name)
        return self._spark.sql(query)

    def _path(self, table: str) -> str:
        return str(self._parts / encoded(table, safe=""))

    def source(self, table: str) -> str:
        return self.source_of_all([table])

    def source_of_all(self, tables: Sequence[str]) -> str:
        paths = "\n".join(map(self._path, tables))
        name = f"viewlet_{hashlib.sha256(paths.encode()).hexdigest()[:32]}"
        self._names[name] = tuple(tables)
        for table in tables:
            self._read_by.setdefault(table, set()).add(name)
        return name

    def quote(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def type_name(self, type: SqlType) -> str:
        return _TYPES.get(type.kind, str(type))

    def commit(self, entries: Mapping[str, str | None], unused: Iterable[str]) -> None:
        if entries:
            place = self._file(self._next)
            draft = place.with_suffix(".draft")
            try:
                with open(draft, "w", encoding="utf-8") as file:
                    json.dump({_CHECKSUM: _checksum(entries), _ENTRIES: dict(entries)}, file)
                    file.flush()
                    os.fsync(file.fileno())
                draft.rename(place)
            except OSError as error:
                raise StateError(f"cannot write the catalogue of parts in {self._catalogue}: {error}") from error
            self._next += 1
            for each in self.staging.iterdir():
                if each.name not in self._awaited:
                    shutil.rmtree(each, ignore_errors=True)
        self._made = []
        self._drop(unused)

    def rollback(self) -> None:
        made, self._made = self._made, []
        self._drop(made)

    def _drop(self, tables: Iterable[str]) -> None:
        for table in tables:
            for name in self._read_by.pop(table, ()):
                if name in self._registered:
                    self._spark.catalog.dropTempView(name)
                    self._registered.discard(name)
                self._names.pop(name, None)
            self._schemas.pop(table, None)
            shutil.rmtree(self._path(table), ignore_errors=True)

    def close(self) -> None:
        """The session is its owner's; it loses the temporary views."""
        with suppress(Exception):  # a session that was stopped has none
            for name in self._registered:
                self._spark.catalog.dropTempView(name)
        self._registered.clear()


def _checksum(entries: Mapping[str, str | None]) -> int:
    return zlib.crc32(json.dumps(entries, sort_keys=True).encode())


def _read_entries(file: Path) -> dict[str, str | None]:
    """The entries of one commit; earlier versions wrote them without a checksum."""
    try:
        read = json.loads(file.read_bytes())
        if _ENTRIES not in read:
            return dict(read)
        entries: dict[str, str | None] = read[_ENTRIES]
        if _checksum(entries) == read[_CHECKSUM]:
            return entries
    except (ValueError, TypeError, KeyError):
        pass
    except OSError as error:
        raise StateError(f"cannot read {file}: {error}") from error
    raise StateError(f"{file} is damaged; restore it from a copy")


def _column_type(type: Any) -> str | None:
    """How Spark names the type of a column in a file of ours; None if it has to look."""
    import pyarrow as pa

    if pa.types.is_decimal128(type):
        return f"DECIMAL({type.precision},{type.scale})"
    names = {
        pa.bool_(): "BOOLEAN",
        pa.int16(): "SMALLINT",
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.string(): "STRING",
        pa.date32(): "DATE",
        pa.timestamp("us"): "TIMESTAMP_NTZ",
    }
    return names.get(type)


def _part_number(time: str, length: int) -> str:
    """The part of a time, in exact arithmetic and whatever the time zone of the session."""
    days = f"datediff(CAST({time} AS DATE), DATE'1970-01-01') * {86400 * MICROSECONDS}L"
    seconds = f"(hour({time}) * 3600 + minute({time}) * 60) * {MICROSECONDS}L"
    moment = f"({days} + {seconds} + CAST(extract(SECOND FROM {time}) * {MICROSECONDS} AS BIGINT))"
    return f"({moment} - pmod({moment}, {length}L)) DIV {length}L"


def _as_data_error(error: Exception, what: str) -> Exception:
    """An error of Spark as one of the data; others as they are."""
    if type(error).__module__.startswith(("pyspark", "py4j")):
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return DataError(f"{what}: {lines[0] if lines else type(error).__name__}")
    return error
