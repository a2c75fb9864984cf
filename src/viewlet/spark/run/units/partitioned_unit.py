"""Units of kinds of views that need no other plan on a cluster: every partition runs a local engine over its rows.

    rows of tables ──► partitions, by some of their columns ──► local engines ──► the union of their rows

That is right for a view whose rows depend only on table rows with the same values in these columns, such as one that
keeps something per key. Every batch has one stage at the workers. The state is in the worker processes; a process that
has not seen a partition before catches up from the snapshot and the log.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from viewlet.algebra.nodes import Var
from viewlet.changes import Change, Changes, ColumnChange, RowChange
from viewlet.errors import StateError
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import Dist, ViewLocation
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.spark.run.units.plan_code import Departure, DriverBlock, PlanCode, WorkerBlock
from viewlet.spark.run.units.result_location import ResultLocation
from viewlet.spark.run.units.table_unit import Check
from viewlet.spark.run.units.unit import AT_DRIVER, SPREAD, UnitCode, digest_of
from viewlet.triggers.program import Statement, ViewDefinition
from viewlet.triggers.saved_state import Item
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Row, Table, TableKind

Blob = bytes | memoryview
MakeEngine = Callable[[Any, Sources, UndoLog], Any]
"""A local engine (`engine/contract.py`) of a plan, over its sources; a function that workers can import."""
LAYOUT = "layout"


def change_name(table: str) -> str:
    """The name under which the change of a table travels."""
    return f"Δ{table}"


@dataclass(frozen=True, kw_only=True)
class PartitionedCode(UnitCode):
    """The code of a partitioned view, as sent to workers; its state is one part."""

    engine_plan: Any
    make: MakeEngine
    state: str

    def plan(self, key: str, tables: Collection[str]) -> PlanCode:
        """All there is to do, for some tables: others have no changes, and send nothing."""
        plan = self.plans[key]
        mappers = {table: block for table, block in plan.mappers.items() if table in tables}
        return replace(plan, tables=tuple(table for table in plan.tables if table in tables), mappers=mappers)

    def evaluated(self, views: Mapping[str, ViewDefinition]) -> PartitionedNode:
        return PartitionedNode(self)


@dataclass(frozen=True)
class PartitionedUnit:
    """A plan whose engine runs in every partition; `by` has the columns that the rows of each table go by."""

    name: str
    plan: Any
    make: MakeEngine
    sources: Mapping[str, Table]
    by: Mapping[str, tuple[int, ...]]
    reading = ResultLocation.PARTITIONS
    checks: tuple[Check, ...] = ()
    stored: tuple[ViewDefinition, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    may_generate = False
    is_loadable = False

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset(self.by)

    @property
    def locations(self) -> Mapping[str, ViewLocation]:
        """Where the rows of the tables go."""
        found: dict[str, ViewLocation] = {}
        for name, positions in self.by.items():
            columns = (self.sources[name].columns[i] for i in positions)
            found[name] = Dist(tuple(Var(column.name, column.type) for column in columns))
        return found

    @cached_property
    def digest(self) -> str:
        return digest_of((self.plan, sorted(self.by.items())))

    def code(self, generated: bool) -> PartitionedCode:
        tables = tuple(sorted(self.by))
        leaving = {table: Departure(change_name(table), change_name(table), self.by[table]) for table in tables}
        work = WorkerBlock((), ())
        at_driver = DriverBlock(tuple(leaving.values()))
        mappers = {table: WorkerBlock((), (step,)) for table, step in leaving.items()}
        plans = {
            AT_DRIVER: PlanCode(AT_DRIVER, tables, {}, {}, (at_driver, work)),
            SPREAD: PlanCode(SPREAD, tables, {}, mappers, (work,)),
        }
        state, digest = f"{self.name}/state", digest_of((self.digest, self.name))
        views = {state: ViewDefinition(state, (), ())}
        return PartitionedCode(
            self.name, digest, views, {}, self.sources, plans, engine_plan=self.plan, make=self.make, state=state
        )


class PartitionedNode:
    """A local engine in one place, as a kernel (see `node.ResultNode`); a node that only splits rows makes none."""

    def __init__(self, code: PartitionedCode) -> None:
        self._code = code
        self._changes: dict[str, Changes] = {}
        self._received: dict[str, Changes] = {}
        self._log = UndoLog()
        self._is_watched = False
        self._tells = False
        self._before: Mapping[Row, int] = {}
        self._change: Mapping[Row, int] | None = {}

    @cached_property
    def _engine(self) -> Any:
        streams = {name: replace(table, kind=TableKind.STREAM) for name, table in self._code.tables.items()}
        sources = Sources(streams, {name: MapStore() for name in streams})
        engine = self._code.make(self._code.engine_plan, sources, self._log)
        engine.load()
        return engine

    # -- a batch ----------------------------------------------------------------------------------------------------

    def compile_all(self, plan: PlanCode) -> None:
        """Nothing is compiled."""

    def columns_read(self, table: str) -> frozenset[int] | None:
        return None

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        return None

    def begin(self, code: PlanCode) -> None:
        if "_engine" in self.__dict__:
            self._engine.commit()
        self._log.commit()
        self._log.begin()
        self._changes, self._received, self._change = {}, {}, {}
        if self._is_watched and not self._tells:
            self._before = dict(self._engine.result())

    def go_on(self, code: PlanCode) -> None:
        """A batch has one stage, which `begin` begins."""

    def rollback(self) -> bool:
        self._log.rollback()
        if "_engine" in self.__dict__:
            self._engine.rollback()
        return True

    def change(self, table: str, change: Change) -> None:
        self._changes[change_name(table)] = change.rows()

    def record(self) -> dict[str, list[bytes]]:
        return {}

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        """The driver has nothing of the view."""

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        total = self._received.setdefault(name, {})
        for blob in blobs:
            for row, (times,) in from_arrow(bytes_table(blob), self._arity(name)):
                total[row] = total.get(row, 0) + times

    def run(self, statements: Iterable[Statement]) -> None:
        """Applies what was put to the engine, one table after the other."""
        touched = False
        for table in self._code.tables:
            rows = {row: times for row, times in self._received.get(change_name(table), {}).items() if times}
            if rows:
                touched = True
                self._engine.apply(table, RowChange(rows))
        if touched:
            self._change = self._engine.finish()

    # -- contents ---------------------------------------------------------------------------------------------------

    def contents(self, name: str) -> bytes:
        if name != self._code.state:
            return self._encoded(name, self._changes.get(name, {}).items())
        if "_engine" not in self.__dict__:
            return b""
        parts = _PartWriter()
        parts.add(LAYOUT, json.dumps(self._engine.save(parts)).encode())
        return parts.to_bytes()

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        parts: dict[int, list[tuple[Row, int]]] = {}
        for row, times in self._changes.get(name, {}).items():
            number = partition_of((row[i] for i in positions), partitions)
            parts.setdefault(number, []).append((row, times))
        return {number: self._encoded(name, rows) for number, rows in parts.items()}

    def _encoded(self, name: str, rows: Iterable[tuple[Row, int]]) -> bytes:
        found = [(row, (times,)) for row, times in rows]
        return table_bytes(to_arrow(found, self._arity(name), 1)) if found else b""

    def _arity(self, name: str) -> int:
        (table,) = (table for each, table in self._code.tables.items() if change_name(each) == name)
        return len(table.columns)

    def restore(self, name: str, blob: Blob) -> None:
        self.__dict__.pop("_engine", None)  # it starts again from nothing
        if not len(blob):
            return
        parts = _PartReader(blob)
        if not self._engine.resume(json.loads(parts.data(LAYOUT)), parts):
            raise StateError(f"the state of {self._code.name} is not one that this version keeps")

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        return None

    def size(self) -> int:
        stored: Mapping[str, int] = self._engine.stats()["stored"]
        return sum(stored.values())

    def bytes(self) -> int:
        return 0

    # -- result -----------------------------------------------------------------------------------------------------

    def result(self) -> Changes:
        return dict(self._engine.result())

    def watch(self) -> None:
        if not self._is_watched:
            self._tells, self._is_watched = self._engine.watch(), True

    def result_change(self) -> Changes:
        if self._change is not None:
            return dict(self._change)
        after = self._engine.result()
        rows = self._before.keys() | after.keys()
        return {row: n for row in rows if (n := after.get(row, 0) - self._before.get(row, 0))}


class _PartWriter:
    """The parts of an engine's state as one Arrow table (see `triggers/saved_state.py`)."""

    def __init__(self) -> None:
        self._parts: dict[str, bytes] = {}

    def add(self, part: str, data: bytes) -> None:
        self._parts[part] = data

    def rows(self, part: str, items: Iterable[Item], arity: int, width: int) -> None:
        self.add(f"part {part}", table_bytes(to_arrow(items, arity, width)))

    def words(self, part: str, words: Any) -> None:
        import numpy as np

        buffer = io.BytesIO()
        np.save(buffer, words, allow_pickle=False)
        self.add(f"part {part}", buffer.getvalue())

    def to_bytes(self) -> bytes:
        import pyarrow as pa

        names, data = pa.array(self._parts.keys(), pa.string()), pa.array(self._parts.values(), pa.large_binary())
        return table_bytes(pa.table({"part": names, "data": data}))


class _PartReader:
    """What a `_PartWriter` wrote."""

    def __init__(self, blob: Blob) -> None:
        table = bytes_table(blob)
        self._parts: dict[str, bytes] = dict(zip(table["part"].to_pylist(), table["data"].to_pylist(), strict=True))

    def data(self, part: str) -> bytes:
        return self._parts[part]

    def rows(self, part: str, arity: int) -> Iterable[Item]:
        return from_arrow(bytes_table(self.data(f"part {part}")), arity)

    def words(self, part: str) -> Any:
        import numpy as np

        return np.load(io.BytesIO(self.data(f"part {part}")), allow_pickle=False)
