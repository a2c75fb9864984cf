"""How the changes of a batch arrive: at the driver, or in data frames that stay where they are if units allow it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.changes import CHANGE_TYPE, MULTIPLICITY, Changes
from viewlet.changes.columnar import ColumnarChanges
from viewlet.spark.run.unit import SPREAD, UnitCode
from viewlet.types import Table

LocalChanges = Mapping[str, Changes | ColumnarChanges]
SMALL_BYTES = 4 << 20
"""A data frame that comes alone and has no more than this is fetched by the driver: that takes no Python workers."""


@dataclass(frozen=True, slots=True)
class FrameChange:
    """The change of a table as a data frame: its rows times `sign`, or times what they say when `encoded`."""

    table: Table
    frame: Any
    sign: int = 1
    encoded: bool = False

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


def expected_bytes(frame: Any) -> int:
    """What Spark expects a data frame to take."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return 1 << 60
    return int(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))


def is_small(frames: Sequence[FrameChange]) -> bool:
    """There is one data frame and it is small; several would take the driver one job each."""
    return len(frames) == 1 and expected_bytes(frames[0].frame) <= SMALL_BYTES


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
