"""The partitioned streams of the host in this process: their warehouse, and their rows as those of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewlet.changes import Change, Changes, RowChange, to_changes
from viewlet.engine.stream_views import stream_with_parts
from viewlet.errors import StateError, UnsupportedError
from viewlet.runtime.durable.files import is_url, local_path
from viewlet.streams import Updates, Warehouse
from viewlet.streams.catalogue import stamp_of
from viewlet.streams.duckdb_host import DuckDBHost
from viewlet.streams.host import PartHost
from viewlet.streams.stamps import Stamps
from viewlet.types import Row, Table

FOLDER = "streams"
FILE = "parts.duckdb"


def open_warehouse(
    place: str | None,
    host: PartHost | None,
    dimension: Callable[[str], Any],
    updates: Updates | None = None,
    stamps: Stamps | None = None,
) -> Warehouse:
    """The warehouse of a database in memory, or in a directory, on a host of the user's or in DuckDB.

    A database in memory begins without parts, whatever its host has of another. The parts of a directory are those of
    its `stamps`.
    """
    folder = None if place is None or is_url(place) else local_path(place) / FOLDER
    archive = None if folder is None else folder / "archive"
    if host is not None:
        return Warehouse(host, dimension, is_new=place is None, archive=archive, updates=updates, stamps=stamps)
    if place is None:
        return Warehouse(DuckDBHost(), dimension, updates=updates)
    if is_url(place):
        raise UnsupportedError("a partitioned stream in a database at a URL", "open the database in a local directory")
    assert folder is not None
    stamps = stamps or Stamps()
    file = _checked(folder, stamps.must_be_there)
    opened = DuckDBHost(str(file), lambda entries, place: stamps.open(stamp_of(entries), place))
    try:
        return Warehouse(opened, dimension, archive=archive, updates=updates, stamps=stamps)
    except BaseException:
        opened.close()
        raise


def _checked(folder: Path, must_be_there: bool) -> Path:
    """The file of parts in a folder, which is made; DuckDB would follow links, and make a file that was lost."""
    file = folder / FILE
    for each in (folder, file, folder / f"{FILE}.wal"):
        if each.is_symlink():
            raise StateError(f"{each} is a symbolic link; keep the parts of streams in the directory itself")
    if must_be_there and not file.exists():
        raise StateError(f"{file} is missing; restore it from the same copy as the directory")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StateError(f"cannot make the directory {folder}: {error.strerror}") from error
    return file


@dataclass(frozen=True, slots=True)
class StreamRows:
    """The rows of a partitioned stream (see `viewlet.tables.base_table.KeptRows`)."""

    schema: Table
    warehouse: Warehouse

    @property
    def total(self) -> int:
        return self.warehouse.count(self.schema.name)

    def check(self, change: Change) -> None:
        """The warehouse checks deletes as it takes the rows out."""

    def change(self) -> Change:
        return RowChange(to_changes(self.schema, self.warehouse.arrow(self.schema.name)))

    def arrow(self) -> Any:
        rows = self.warehouse.arrow(self.schema.name)
        return rows.sort_by([(name, "ascending") for name in self.schema.column_names])

    def with_parts(self, sql: str) -> Any:
        """The rows with the start of their part as Arrow, if a query names it."""
        return stream_with_parts(self.warehouse, self.schema.name, sql)

    def late(self) -> Any:
        """The rows that came too late, as Arrow."""
        return self.warehouse.late_rows(self.schema.name)

    def archived(self) -> Any:
        """The rows of parts that were archived, as Arrow."""
        return self.warehouse.archived(self.schema.name)

    def with_keys(self, keys: Sequence[Row]) -> Changes | None:
        return None
