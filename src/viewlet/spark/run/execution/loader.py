"""Initial loads as the engine sees them: which units to load from what, and where the files are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from viewlet.changes import Change
from viewlet.spark.run.execution.batch import Batch
from viewlet.spark.run.execution.cluster import Cluster
from viewlet.spark.run.execution.frame_change import FrameChange
from viewlet.spark.run.execution.scan_task import ReadTableRows
from viewlet.spark.run.load.table_frame import NotLoadable, expected_bytes
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.state.partition import Context, files_of
from viewlet.spark.run.state.segment_files import LoadedViews
from viewlet.spark.run.units.unit import Unit
from viewlet.types import Table

LOAD_FROM_BYTES = 4 << 20
LOAD_FROM_ROWS = 20_000
"""From so much on, an empty view is not filled by triggers but by Spark SQL."""
UNKNOWN_BYTES = 1 << 50
"""Spark expects something as large as this if it knows nothing."""
FOLDERS = "load-"


@dataclass(frozen=True, slots=True)
class Loader:
    cluster: Cluster
    checkpoint: Checkpoint
    partitions: int

    def from_frames(
        self, batch: Batch, empty: Sequence[Unit], frames: Sequence[FrameChange], local: Mapping[str, Change]
    ) -> dict[str, LoadedViews]:
        """Loads the empty units that get all they get from data frames, if some of these are large."""
        whole = {each.table.name: each.frame for each in frames if each.adds_rows}
        other = local.keys() | {each.table.name for each in frames if not each.adds_rows}
        large = {name for name, frame in whole.items() if is_large(frame)}
        wanted = [unit for unit in empty if unit.is_loadable and not unit.tables & other]
        if not any(unit.tables & large for unit in wanted):
            return {}
        return self._loaded(batch, wanted, whole)

    def from_tables(
        self, batch: Batch, unit: Unit, context: Context, tables: Sequence[Table]
    ) -> dict[str, LoadedViews]:
        """Loads a unit from the rows that tables keep."""
        if not unit.is_loadable:
            return {}
        try:
            kept = {
                table.name: self.cluster.kept_rows(table, self.partitions, ReadTableRows(context, table.name))
                for table in tables
            }
        except NotLoadable:
            return {}
        return self._loaded(batch, [unit], kept)

    def _loaded(self, batch: Batch, units: Sequence[Unit], frames: Mapping[str, Any]) -> dict[str, LoadedViews]:
        started = time.perf_counter()
        folder = f"{FOLDERS}{batch.token}"
        found = self.cluster.load(units, frames, self.partitions, self.checkpoint.directory, folder)
        batch.stats.spent("load", started)
        return found

    def remove_old(self) -> None:
        """Removes files of loads that no log refers to any more."""
        files = files_of(self.checkpoint.directory)
        loads = [known for step in self.checkpoint.history.steps for known in step.head.loads.values()]
        needed = {known["folder"] for known in loads}
        for name in files.list():
            if name.startswith(FOLDERS) and name not in needed:
                with suppress(OSError):
                    files.remove(name)


def is_large(frame: Any) -> bool:
    """Spark expects a data frame to have so much that evaluating views over it is faster than running triggers."""
    return LOAD_FROM_BYTES <= expected_bytes(frame) < UNKNOWN_BYTES
