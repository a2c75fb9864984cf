"""Parts as Parquet folders, computed by Spark SQL. The catalogue is a folder of files; a rename commits the next one.

The session is the user's: this module calls it, and imports nothing of Spark.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote as encoded
from urllib.parse import unquote as decoded

from viewlet.errors import DataError, StateError
from viewlet.types import Kind, SqlType

_TYPES = {Kind.VARCHAR: "STRING", Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.REAL: "FLOAT", Kind.INTEGER: "INT"}


class SparkSqlHost:
    """A host on a Spark session, with its parts in a folder that all executors reach.

    `workers` jobs run at a time.
    """

    dialect = "spark"

    def __init__(self, spark: Any, folder: str | os.PathLike[str], workers: int = 4) -> None:
        self._spark = spark
        self.workers = workers
        self._parts = Path(folder) / "parts"
        self._catalogue = Path(folder) / "catalogue"
        for each in (self._parts, self._catalogue):
            each.mkdir(parents=True, exist_ok=True)
        self._made: list[str] = []
        self._next = 1 + max((int(file.stem) for file in self._files()), default=0)

    def _files(self) -> list[Path]:
        return sorted(self._catalogue.glob("*.json"))

    def entries(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for file in self._files():
            for key, value in json.loads(file.read_text(encoding="utf-8")).items():
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value
        return found

    def tables(self) -> list[str]:
        return [decoded(each.name) for each in self._parts.iterdir()]

    def begin(self) -> None:
        """Tables are only named by the catalogue: there is nothing to open."""

    def load(self, table: str, rows: Any) -> None:
        self._made.append(table)
        self._spark.createDataFrame(rows).write.parquet(self._path(table))

    def create(self, table: str, query: str) -> int:
        self._made.append(table)
        try:
            self._spark.sql(query).write.parquet(self._path(table))
        except Exception as error:
            if type(error).__module__.startswith(("pyspark", "py4j")):
                raise DataError(f"a part cannot be computed: {str(error).splitlines()[0]}") from error
            raise
        return self._count(table)

    def _count(self, table: str) -> int:
        """The rows of a table, as the footers of its files say: no job is needed."""
        import pyarrow.parquet as pq

        return sum(pq.read_metadata(file).num_rows for file in Path(self._path(table)).glob("*.parquet"))

    def read(self, query: str) -> Any:
        return self._spark.sql(query).toArrow()

    def _path(self, table: str) -> str:
        return str(self._parts / encoded(table, safe=""))

    def source(self, table: str) -> str:
        return f"parquet.{self.quote(self._path(table))}"

    def quote(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def type_name(self, type: SqlType) -> str:
        return _TYPES.get(type.kind, str(type))

    def commit(self, entries: Mapping[str, str | None], unused: Iterable[str]) -> None:
        if entries:
            place = self._catalogue / f"{self._next:012}.json"
            draft = place.with_suffix(".draft")
            try:
                with open(draft, "w", encoding="utf-8") as file:
                    json.dump(dict(entries), file)
                    file.flush()
                    os.fsync(file.fileno())
                draft.rename(place)
            except OSError as error:
                raise StateError(f"cannot write the catalogue of parts in {self._catalogue}: {error}") from error
            self._next += 1
        self._made = []
        self._drop(unused)

    def rollback(self) -> None:
        made, self._made = self._made, []
        self._drop(made)

    def _drop(self, tables: Iterable[str]) -> None:
        for table in tables:
            shutil.rmtree(self._path(table), ignore_errors=True)

    def close(self) -> None:
        """The session is its owner's."""
