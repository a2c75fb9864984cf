"""Units whose batches have one stage: rows go to the partitions that they belong to, and are applied there.

    changes of tables ──► rows, counted, where the changes are ──► partitions (or all of them) ──► state

View trees and local engines of partitions run like this. There are no temporaries, nothing is kept at the driver, and
the stage begins the batch and ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewlet.changes import ColumnChange
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.spark.run.units.plan_code import Departure, DriverBlock, PlanCode, WorkerBlock
from viewlet.spark.run.units.unit import AT_DRIVER, SPREAD, UnitCode
from viewlet.types import Row, Table

Blob = bytes | memoryview
Counted = dict[Row, int]


def change_name(relation: str) -> str:
    """The name under which the change of a table or a relation travels."""
    return f"Δ{relation}"


def one_stage_plans(departures: Mapping[str, Sequence[Departure]]) -> dict[str, PlanCode]:
    """The plans of a unit, by what the change of each table sends to the partitions."""
    tables, work = tuple(departures), WorkerBlock((), ())
    everything = tuple(step for steps in departures.values() for step in steps)
    mappers = {table: WorkerBlock((), tuple(steps)) for table, steps in departures.items()}
    return {
        AT_DRIVER: PlanCode(AT_DRIVER, tables, {}, {}, (DriverBlock(everything), work)),
        SPREAD: PlanCode(SPREAD, tables, {}, mappers, (work,)),
    }


@dataclass(frozen=True, kw_only=True)
class OneStageCode(UnitCode):
    """The code of a unit whose plans come from `one_stage_plans`."""

    def plan(self, key: str, tables: Collection[str]) -> PlanCode:
        """All there is to do, for some tables: others have no changes, and send nothing."""
        plan = self.plans[key]
        mappers = {table: block for table, block in plan.mappers.items() if table in tables}
        return replace(plan, tables=tuple(table for table in plan.tables if table in tables), mappers=mappers)


class OneStageNode:
    """What all nodes of such units do (see `node.Node`): collect rows, split them, and add up what was sent.

    `arities` has the number of columns of every change, by its name.
    """

    def __init__(self, arities: Mapping[str, int]) -> None:
        self._arities = arities
        self._changes: dict[str, Counted] = {}
        self._received: dict[str, Counted] = {}

    def compile_all(self, plan: PlanCode) -> None:
        """Nothing is compiled at the driver."""

    def columns_read(self, table: str) -> frozenset[int] | None:
        return None

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        return None

    def go_on(self, code: PlanCode) -> None:
        """A batch has one stage, which `begin` begins."""

    def record(self) -> dict[str, list[bytes]]:
        return {}

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        """The driver has nothing of the view."""

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        total = self._received.setdefault(name, {})
        for blob in blobs:
            for row, (times,) in from_arrow(bytes_table(blob), self._arities[name]):
                total[row] = total.get(row, 0) + times

    def _sent(self, name: str) -> Counted:
        """What was put, without the rows that cancel each other."""
        return {row: times for row, times in self._received.get(name, {}).items() if times}

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        parts: dict[int, list[tuple[Row, int]]] = {}
        for row, times in self._changes.get(name, {}).items():
            number = partition_of((row[i] for i in positions), partitions)
            parts.setdefault(number, []).append((row, times))
        return {number: self._encoded(name, rows) for number, rows in parts.items()}

    def _encoded(self, name: str, rows: Iterable[tuple[Row, int]]) -> bytes:
        found = [(row, (times,)) for row, times in rows]
        return table_bytes(to_arrow(found, self._arities[name], 1)) if found else b""

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        return None
