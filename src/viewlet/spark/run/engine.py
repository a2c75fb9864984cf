"""Views partitioned over a cluster: units come and go, batches change them, results are read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.changes import Changes
from viewlet.changes.columnar import ColumnarChanges
from viewlet.errors import ViewletError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.durable.batch_ids import Ranges
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.snapshot import SnapshotWriter
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.plan.locations import LOCAL, REPLICATED
from viewlet.spark.run.batch import Batch, BatchStats, UnitRun, run_again
from viewlet.spark.run.checkpoint import DRIVER, Checkpoint
from viewlet.spark.run.cluster import Cluster
from viewlet.spark.run.kept import checks_of, kept_program, partitioned_by, unit_name
from viewlet.spark.run.kernel import Node, ReferenceNode
from viewlet.spark.run.names import with_names
from viewlet.spark.run.partition import Context, Shared, can_run_generated, state_root
from viewlet.spark.run.reading import Reading, reading_of, views_of
from viewlet.spark.run.steps import EVERYWHERE, StepHead, read_head, read_step, write_step
from viewlet.spark.run.tasks import MapChanges, MapKept, ReadResult, ReadViews, WriteSnapshot
from viewlet.spark.run.unit import AT_DRIVER, SPREAD, Unit, UnitCode
from viewlet.spark.run.wire import bytes_table, decode, encode, table_bytes
from viewlet.triggers.program import Program
from viewlet.types import Table

REMEMBERED_BATCHES = 1000
GENERATE_FROM_ROWS = 50_000
"""Rows of state from which compiling code for a view pays."""

LocalChanges = Mapping[str, Changes | ColumnarChanges]


@dataclass(frozen=True, slots=True)
class FrameChange:
    """The change of a table as a data frame: its rows times `sign`, or times what they say when `encoded`."""

    table: Table
    frame: Any
    sign: int = 1
    encoded: bool = False


@dataclass(slots=True)
class _Running:
    """A unit, its code as it is now, and the driver's part of its state."""

    unit: Unit
    code: UnitCode
    node: Node
    shared: Shared[UnitCode] | None = None
    rows: int = 0
    bytes: int = 0


class Engine:
    """`generated` lets units run generated code, if they have it: always, never, or once they are large."""

    def __init__(
        self, cluster: Cluster, checkpoint: Checkpoint, partitions: int, generated: bool | None = None
    ) -> None:
        self._generated = generated
        self._under_way: Batch | None = None
        self.cluster = cluster
        self.checkpoint = checkpoint
        self.partitions = partitions
        self.kept: dict[str, Table] = {}
        self.batches: deque[BatchStats] = deque(maxlen=REMEMBERED_BATCHES)
        self.dictionary = StringDictionary()
        """The strings of changes that are at the driver."""
        self._running: dict[str, _Running] = {}
        self._watched: set[str] = set()

    # -- views ------------------------------------------------------------------------------------------------------

    @property
    def units(self) -> Mapping[str, Unit]:
        return {name: running.unit for name, running in self._running.items()}

    def unit(
        self,
        program: Program,
        tables: Mapping[str, Table],
        rows: Mapping[str, float] | None = None,
        partition_by: Mapping[str, Sequence[str]] | None = None,
    ) -> Unit:
        """Plans a program that is not here yet."""
        taken = {view.name for running in self._running.values() for view in running.unit.program.views}
        clashes = [view.name for view in program.views if view.name in taken]
        program = with_names(program, {name: f"{program.name}/{name}" for name in clashes})
        distributed = compile_distributed(program, tables, rows, partition_by)
        return Unit(program.name, distributed, reading_of(distributed), dict(tables))

    def keep(self, table: Table) -> None:
        """From now on the rows of a table are kept."""
        self.kept[table.name] = table
        distributed = compile_distributed(kept_program(table), {table.name: table}, None, partitioned_by(table))
        name = unit_name(table.name)
        self.add(Unit(name, distributed, reading_of(distributed), {table.name: table}, checks_of(table)))

    def drop(self, table: str) -> None:
        """The rows of a table are forgotten."""
        if self.kept.pop(table, None) is not None:
            self.remove(unit_name(table))

    def add(self, unit: Unit) -> None:
        """Takes up a program; its views are empty."""
        known = unit.name in self.checkpoint.generated
        code = unit.code(known if self._generated is None else self._generated)
        self._running[unit.name] = _Running(unit, code, self._node(code))

    def remove(self, name: str) -> None:
        del self._running[name]
        self._watched.discard(name)

    def _node(self, code: UnitCode) -> Node:
        """An empty state of what a unit has at the driver."""
        if code.module is None or not can_run_generated():
            return ReferenceNode(code.local)
        from viewlet.spark.run.generated import GeneratedNode

        return GeneratedNode(code, code.local, self.dictionary)

    def _generate(self, running: _Running) -> None:
        """From now on a unit runs generated code; its state is moved."""
        code = running.unit.code(generated=True)
        if code.module is None:
            return
        node = self._node(code)
        for name in code.local:
            node.restore(name, running.node.contents(name))
        if running.unit.name in self._watched and running.unit.reading is Reading.DRIVER:
            node.watch(code.program)
        running.code, running.node, running.shared = code, node, None

    @property
    def needs_snapshot(self) -> bool:
        """Some unit is about to be moved to generated code, which does not read what the driver's log has of it."""
        return any(self._is_due(running) for running in self._running.values())

    def _is_due(self, running: _Running) -> bool:
        large = self._generated is None and running.rows > GENERATE_FROM_ROWS
        return large and running.code.module is None and running.unit.module is not None

    def takes_columns(self, table: str) -> frozenset[int] | None:
        """The columns of a table's changes that units read, if all of them take columns instead of rows."""
        found: set[int] = set()
        for running in self._running.values():
            if table in running.unit.tables:
                if isinstance(running.node, ReferenceNode) or running.code.module is None:
                    return None
                found |= set(running.code.module.delta_columns.get(table, ()))
        return frozenset(found)

    def context(self) -> Context:
        """What tasks need to know now."""
        return Context(
            self.checkpoint.directory,
            state_root(),
            self.partitions,
            {name: self._share(running) for name, running in self._running.items()},
            self.checkpoint.history,
            frozenset(name for name in self._watched if self.units[name].reading is Reading.PARTITIONS),
        )

    def _share(self, running: _Running) -> Shared[UnitCode]:
        if running.shared is None:
            running.shared = self.cluster.share(running.code)
        return running.shared

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(
        self, epoch: int, local: LocalChanges, frames: Sequence[FrameChange] = ()
    ) -> tuple[Batch | None, BatchStats]:
        """Runs a batch up to, but without, its commit."""
        spread = {each.table.name: each for each in frames}
        changed = {*local, *spread}
        stats = BatchStats(epoch, tuple(sorted(changed)))
        started = time.perf_counter()
        runs = {
            name: self._run(running, SPREAD if running.unit.tables & spread.keys() else AT_DRIVER, changed)
            for name, running in self._running.items()
            if running.unit.tables & changed
        }
        if not runs:
            return None, stats
        stats.spent("plan", started)
        batch = self._under_way = Batch(self.cluster, self.checkpoint, runs, self.context, stats)
        batch.run(local, {name: (self._mapper(each, changed), each.frame) for name, each in spread.items()})
        for name in runs.keys() & self._watched:
            if self.units[name].reading is Reading.DRIVER:
                batch.changes[name] = self._running[name].node.result_change(name)
        return batch, stats

    def _run(self, running: _Running, plan: str, changed: Iterable[str]) -> UnitRun:
        mine = running.unit.tables.intersection(changed)
        return UnitRun(running.unit.name, running.code.plan(plan, mine), running.node, bool(running.code.local))

    def _mapper(self, change: FrameChange, changed: Iterable[str]) -> MapChanges:
        units = tuple(name for name, each in self._running.items() if change.table.name in each.unit.tables)
        return MapChanges(self.context(), units, tuple(sorted(changed)), change.table, change.sign, change.encoded)

    def fill(self, name: str, epoch: int) -> tuple[Batch | None, BatchStats, LocalChanges]:
        """Runs the rows that tables keep through a new view, up to the commit; tells what the driver had to hold."""
        running = self._running[name]
        tables = [self.kept[table] for table in sorted(running.unit.tables) if table in self.kept]
        stats = BatchStats(epoch, tuple(table.name for table in tables))
        if not tables:
            return None, stats, {}
        names = [table.name for table in tables]
        if SPREAD in running.code.plans:
            runs = {name: self._run(running, SPREAD, names)}
            batch = self._under_way = Batch(self.cluster, self.checkpoint, runs, self.context, stats)
            context = self.context()
            mappers = tuple(MapChanges(context, (name,), tuple(names), table, 1, False) for table in tables)
            task = MapKept(context, mappers)
            batch.run({}, {}, lambda: (piece for part in self._ask(task, f"fill {name}") for piece in part))
            return batch, stats, {}
        local = {table: self.result(unit_name(table)) for table in names}
        runs = {name: self._run(running, AT_DRIVER, names)}
        batch = self._under_way = Batch(self.cluster, self.checkpoint, runs, self.context, stats)
        batch.run(local, {})
        return batch, stats, local

    def _ask(self, task: Callable[[int, None], Any], what: str) -> list[Any]:
        """What every partition answers."""
        return [_good(answer) for answer in self.cluster.run(task, [None] * self.partitions, what)]

    def can_map(self, tables: Iterable[str], local: Iterable[str]) -> bool:
        """Changes of these tables may stay where they are: no unit needs them, or others beside them, at the driver."""
        spread, here = set(tables), set(local)
        return all(
            SPREAD in running.code.plans and not running.unit.tables & here
            for running in self._running.values()
            if running.unit.tables & spread
        )

    def commit(
        self,
        batch: Batch | None,
        stats: BatchStats,
        local: LocalChanges,
        batches: Mapping[str, Ranges] | None,
        declared: Sequence[Record] = (),
    ) -> None:
        """Makes a batch part of the state, and with it what was declared."""
        started = time.perf_counter()
        payload = write_step(StepHead(""), {}) if batch is None else batch.record()
        stats.log_bytes = self.checkpoint.commit(*declared, Record(DRIVER, stats.epoch, payload), batches=batches)
        self._under_way = None
        stats.spent("commit", started)
        for name, (rows, size) in (batch.sizes if batch is not None else {}).items():
            self._running[name].rows, self._running[name].bytes = rows, size
        stats.state_rows = sum(running.rows for running in self._running.values())
        stats.state_bytes = sum(running.bytes for running in self._running.values())
        self.batches.append(stats)

    def abandon(self) -> None:
        """Takes back what was done of a batch that will not be committed."""
        for run in self._under_way.begun if self._under_way is not None else ():
            run.node.rollback()
        self._under_way = None
        self.checkpoint.abandon()

    def replay(self, record: Record) -> None:
        """Runs the driver's part of a committed batch again."""
        head = read_head(record.payload)
        for stage in head.stages:
            running = self._running.get(stage.unit)
            if running is not None:
                received = read_step(record.payload, stage.unit, EVERYWHERE, "the log")
                run_again(running.node, running.code.plan(stage.plan, stage.tables), received)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self, facts: object) -> None:
        """Writes everything to the checkpoint directory, so that no log is needed."""

        def write(writer: SnapshotWriter) -> tuple[Any, list[str]]:
            held = {name: each.node.contents(name) for each in self._running.values() for name in each.code.local}
            for name, contents in held.items():
                if contents:
                    writer.table(name, bytes_table(contents))
            return facts, [name for name, contents in held.items() if contents]

        def partitions(folder: str) -> list[tuple[int, int]]:
            return self._ask(WriteSnapshot(self.context(), folder), "snapshot")

        generated = {name: each.code.module is not None or self._is_due(each) for name, each in self._running.items()}
        self.checkpoint.snapshot(write, partitions, generated)
        for running in self._running.values():
            if self._is_due(running):
                self._generate(running)

    def restore(self, driver: Mapping[str, Any]) -> None:
        """The driver's views as a snapshot has them."""
        for running in self._running.values():
            for name in running.code.local:
                if name in driver:
                    running.node.restore(name, table_bytes(driver[name]))

    # -- results ----------------------------------------------------------------------------------------------------

    def result(self, name: str) -> Changes:
        """The rows of a query with their multiplicities."""
        running = self._running[name]
        if running.unit.reading is Reading.DRIVER:
            return running.node.result(running.unit.program)
        if running.unit.reading is Reading.PARTITIONS:
            return _sum(self._ask(ReadResult(self.context(), name), f"read {name}"))
        return self._gathered(running).result(running.unit.program)

    def _gathered(self, running: _Running) -> ReferenceNode:
        """The views that a query reads, in one place."""
        unit = running.unit
        wanted = {name: unit.program.view(name) for name in views_of(unit.program)}
        node = ReferenceNode(wanted)
        homes = unit.distributed.homes
        remote = tuple(name for name in wanted if homes[name] != LOCAL)
        found = self._ask(ReadViews(self.context(), unit.name, remote), f"read {unit.name}")
        for i, name in enumerate(remote):
            parts = found[:1] if homes[name] == REPLICATED else found
            rows = [row for part in parts for row in decode(wanted[name], part[i])]
            node.restore(name, encode(wanted[name], rows))
        for name in wanted.keys() - set(remote):
            node.restore(name, running.node.contents(name))
        return node

    def watch(self, name: str) -> bool:
        """From now on batches tell what they do to the rows of a query, if they can."""
        running = self._running[name]
        if running.unit.reading is Reading.GATHERED:
            return False
        if name not in self._watched:
            self._watched.add(name)
            if running.unit.reading is Reading.DRIVER:
                running.node.watch(running.unit.program)
        return True


def _good(answer: Any) -> Any:
    if isinstance(answer, ViewletError):
        raise answer
    return answer


def _sum(parts: Iterable[Changes]) -> Changes:
    total: Changes = {}
    for part in parts:
        for row, weight in part.items():
            total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}
