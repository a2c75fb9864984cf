"""The rows of a view or table in one epoch of a checkpoint, for jobs that have not opened it: tasks read their shares.

ScannedView    partitions of a view, each read by a task; one task reads them all if parts have to be added up
ScannedTable   partitions of a kept table
PackedRows     rows that were read when the checkpoint was opened: those at the driver, and those cut by LIMIT
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from viewlet.changes import added_up
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.spark.run.execution.scan_task import repeated
from viewlet.spark.run.load.row_frame import exact_type
from viewlet.spark.run.views.scan import TableScan, ViewScan
from viewlet.types import Column


class StoredRows(Protocol):
    """Rows that some tasks read."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def tasks(self) -> int:
        """How many tasks read them."""

    def read(self, task: int, places: Sequence[int]) -> Any:
        """The share of a task as an Arrow table: the columns at some positions, in this order."""


@dataclass(frozen=True, slots=True)
class ScannedView:
    scan: ViewScan

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.scan.shown

    @property
    def tasks(self) -> int:
        return 1 if self.scan.adds_up else self.scan.context.partitions

    def read(self, task: int, places: Sequence[int]) -> Any:
        scan = self.scan
        wanted = [scan.place(place) for place in places]
        if scan.adds_up:
            found = added_up([scan.read(number) for number in range(scan.context.partitions)])
            return repeated(found).select(wanted)
        needed = sorted(set(wanted))
        return repeated(scan.read_columns(needed)(task)).select([needed.index(place) for place in wanted])


@dataclass(frozen=True, slots=True)
class ScannedTable:
    scan: TableScan

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.scan.table.columns

    @property
    def tasks(self) -> int:
        return self.scan.context.partitions

    def read(self, task: int, places: Sequence[int]) -> Any:
        found = self.scan.read(task)
        rows = arrow_schema(self.columns).empty_table() if found is None else repeated(found)
        return rows.select(list(places))


@dataclass(frozen=True, slots=True)
class PackedRows:
    columns: tuple[Column, ...]
    rows: bytes

    @property
    def tasks(self) -> int:
        return 1

    def read(self, task: int, places: Sequence[int]) -> Any:
        return bytes_table(self.rows).select(list(places))


def scanned(scan: ViewScan | TableScan) -> StoredRows:
    """The rows of a scan."""
    return ScannedTable(scan) if isinstance(scan, TableScan) else ScannedView(scan)


def arrow_schema(columns: Sequence[Column]) -> Any:
    """The schema that Spark expects of batches with these columns."""
    return pa.schema([pa.field(each.name, exact_type(each.type), nullable=each.type.nullable) for each in columns])
