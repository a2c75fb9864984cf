"""The partitioned streams of the host in this process: their warehouse, and their rows as those of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.changes import Change, Changes, RowChange, to_changes
from viewlet.engine.stream_views import stream_with_parts
from viewlet.errors import UnsupportedError
from viewlet.runtime.durable.files import is_url, local_path
from viewlet.streams import Updates, Warehouse
from viewlet.streams.duckdb_host import DuckDBHost
from viewlet.streams.host import PartHost
from viewlet.types import Row, Table

FOLDER = "streams"
FILE = "parts.duckdb"


def open_warehouse(
    place: str | None, host: PartHost | None, dimension: Callable[[str], Any], updates: Updates | None = None
) -> Warehouse:
    """The warehouse of a database in memory, or in a directory, on a host of the user's or in DuckDB.

    A database in memory begins without parts, whatever its host has of another.
    """
    folder = None if place is None or is_url(place) else local_path(place) / FOLDER
    archive = None if folder is None else folder / "archive"
    if host is not None:
        return Warehouse(host, dimension, is_new=place is None, archive=archive, updates=updates)
    if place is None:
        return Warehouse(DuckDBHost(), dimension, updates=updates)
    if is_url(place):
        raise UnsupportedError("a partitioned stream in a database at a URL", "open the database in a local directory")
    assert folder is not None
    folder.mkdir(exist_ok=True)
    return Warehouse(DuckDBHost(str(folder / FILE)), dimension, archive=archive, updates=updates)


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
