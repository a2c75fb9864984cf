"""How the changes of a batch arrive: at the driver, or in data frames that stay where they are if units allow it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from viewlet.changes import CHANGE_TYPE, MULTIPLICITY, Change, Changes, ColumnChange, RowChange, to_changes
from viewlet.changes.word_codec import Codes
from viewlet.errors import DataError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.spark.run.load.parallel_jobs import at_once
from viewlet.spark.run.load.sources import check_columns, in_local_time
from viewlet.spark.run.load.table_frame import expected_bytes
from viewlet.spark.run.units.unit import SPREAD, UnitCode
from viewlet.types import Table

SMALL_BYTES, SMALL_ROWS = 4 << 20, 1 << 18
"""Data frames that have no more than this together are fetched by the driver: that takes no Python workers."""
LOCAL_ROWS = "LocalRelation"
"""What Spark calls rows that are at the driver: it knows their size. Of others it knows how long their files are."""


@dataclass(slots=True)
class FrameChange(Change):
    """The change of a table as a data frame: its rows times `sign`, or times what they say when `encoded`.

    Without Spark, a list of Arrow tables stands for a data frame. A frame has the length 1: counting its rows would
    take a job of its own.
    """

    table: Table
    frame: Any
    sign: int = 1
    encoded: bool = False
    _arrow: Any = field(default=None, init=False, repr=False, compare=False)
    """Its rows, once they have been fetched."""

    def rows(self) -> Changes:
        return to_changes(self.table, self.fetch(), self.sign, self.encoded)

    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        return RowChange(self.rows()).columns(table, positions, dictionary)

    def at_driver(self, positions: frozenset[int] | None, dictionary: StringDictionary) -> Change:
        """The same change in this process: as columns at these positions if its types allow it, else as rows."""
        from viewlet.runtime.columns import to_columns

        rows = self.fetch()
        found = None
        if positions is not None:
            found = to_columns(self.table, rows, positions, dictionary, self.sign, self.encoded)
        return RowChange(self.rows()) if found is None else found

    def fetch(self) -> Any:
        """The rows as an Arrow table in this process."""
        if self._arrow is None:
            import pyarrow as pa

            self._arrow = pa.concat_tables(self.frame) if isinstance(self.frame, list) else self.frame.toArrow()
        return self._arrow

    def fetch_up_to(self, rows: int) -> bool:
        """Fetches the rows unless they are more than that: a few bytes of a compressed file can be millions."""
        if self._arrow is None:
            is_here = self.frame._jdf.queryExecution().optimizedPlan().nodeName() == LOCAL_ROWS
            first = (self.frame if is_here else self.frame.limit(rows + 1)).toArrow()
            self._arrow = first if is_here or first.num_rows <= rows else None
        return self._arrow is not None

    def negated(self) -> FrameChange:
        return replace(self, sign=-self.sign)

    def __len__(self) -> int:
        return 1

    @property
    def adds_rows(self) -> bool:
        """All that it may say of a row is how often it comes."""
        told = {MULTIPLICITY, CHANGE_TYPE}.intersection(getattr(self.frame, "columns", ()))
        return self.sign > 0 and (self.encoded or not told)

    def columns_among(self, columns: Collection[int] | None) -> tuple[str, ...] | None:
        """The columns that are read, if those are not all, and the frame has them under their names."""
        table = self.table
        named = set(getattr(self.frame, "columns", ()))
        if columns is None or not set(table.column_names) <= named:
            return None  # whatever is wrong with its columns is found out with its rows
        if len(columns) == len(table.columns) or not named <= {*table.column_names, MULTIPLICITY, CHANGE_TYPE}:
            return None
        return tuple(table.column_names[i] for i in sorted(columns) or [0])


def is_spark_frame(data: object) -> bool:
    """A data frame of PySpark, classic or not."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow")


def frame_change(table: Table, frame: Any, sign: int, encoded: bool) -> FrameChange:
    if getattr(frame, "isStreaming", False):
        raise DataError(f"{table.name}: this is a stream; hand it to stream()")
    check_columns(table, frame, "data frame")
    return FrameChange(table, in_local_time(table, frame), sign, encoded)


def collected(table: Table, data: Any) -> object:
    """What a user handed in, in this process."""
    if not is_spark_frame(data):
        return data
    check_columns(table, data, "data frame")
    return in_local_time(table, data).toArrow()


def by_place(batch: Mapping[str, Change]) -> tuple[dict[str, Change], dict[str, FrameChange]]:
    """The changes of a batch that are at the driver, and those in data frames."""
    frames = {name: change for name, change in batch.items() if isinstance(change, FrameChange)}
    return {name: change for name, change in batch.items() if name not in frames}, frames


def fetch_small(frames: Sequence[FrameChange]) -> bool:
    """Fetches data frames that are small together, all at once; says whether they are."""
    if not frames or sum(expected_bytes(each.frame) for each in frames) > SMALL_BYTES:
        return False
    most = SMALL_ROWS // len(frames)
    return all(at_once(_session(frames), [partial(each.fetch_up_to, most) for each in frames]))


def fetch_frames(frames: Sequence[FrameChange]) -> None:
    """Fetches data frames, whatever their size, all at once."""
    at_once(_session(frames), [each.fetch for each in frames])


def _session(frames: Sequence[FrameChange]) -> Any:
    """The session of data frames; None for what stands for them."""
    return getattr(frames[0].frame, "sparkSession", None) if frames else None


def needed_at_driver(units: Sequence[UnitCode], spread: Collection[str], local: Collection[str]) -> set[str]:
    """Tables whose changes cannot stay where they are, because some unit needs all of its changes at the driver."""
    found: set[str] = set()
    while True:
        here = found.union(local)
        more = {table for unit in units if not _can_map(unit, spread, here) for table in unit.changing}
        if more.intersection(spread) <= found:
            return found
        found |= more.intersection(spread)


def _can_map(unit: UnitCode, spread: Collection[str], here: Collection[str]) -> bool:
    plan = unit.plans.get(SPREAD)
    mine = unit.changing.intersection(spread)
    return plan is not None and mine <= set(plan.tables) and not unit.changing.intersection(here)
