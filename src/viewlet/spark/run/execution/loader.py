"""Initial loads as the engine sees them: which units to load from what, and where the files are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from viewlet.changes import Change
from viewlet.spark.run.execution.batch import Batch
from viewlet.spark.run.execution.cluster import Cluster
from viewlet.spark.run.execution.frame_change import FrameChange
from viewlet.spark.run.execution.scan_task import ReadTableRows
from viewlet.spark.run.load.table_frame import NotLoadable, expected_bytes, is_cheap_to_read_again
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
        """Loader those of the empty units that get a lot, all of it from data frames."""
        whole = {each.table.name: each.frame for each in frames if each.adds_rows}
        other = local.keys() | {each.table.name for each in frames if not each.adds_rows}
        large = {name for name, frame in whole.items() if is_large(frame)}
        found: dict[str, LoadedViews] = {}
        with ExitStack() as held:
            for name in large if len(empty) > 1 else ():
                if not is_cheap_to_read_again(whole[name]):  # or different every time
                    held.callback(whole[name].persist().unpersist)
            for unit in empty:
                if unit.tables & large and not unit.tables & other:
                    mine = {name: frame for name, frame in whole.items() if name in unit.tables}
                    self._try(batch, unit, mine, found)
        return found

    def from_tables(
        self, batch: Batch, unit: Unit, context: Context, tables: Sequence[Table]
    ) -> dict[str, LoadedViews]:
        """Loader a unit from the rows that tables keep."""
        found: dict[str, LoadedViews] = {}
        with suppress(NotLoadable):
            kept = {
                table.name: self.cluster.kept_rows(table, self.partitions, ReadTableRows(context, table.name))
                for table in tables
            }
            self._try(batch, unit, kept, found)
        return found

    def _try(self, batch: Batch, unit: Unit, frames: Mapping[str, Any], found: dict[str, LoadedViews]) -> None:
        if not unit.is_loadable:
            return
        started = time.perf_counter()
        folder = f"{FOLDERS}{batch.token}-{len(found)}"
        with suppress(NotLoadable):
            directory = self.checkpoint.directory
            found[unit.name] = self.cluster.load(unit, frames, self.partitions, directory, folder)
        batch.stats.spent("load", started)

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
