"""The engine on Spark: adds and drops units, runs batches, and reads results."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.changes import Change, Changes, RowChange
from viewlet.errors import InternalError, ViewletError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.durable.batch_ids import Ranges
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.snapshot import SnapshotWriter
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.plan.locations import LOCAL, REPLICATED
from viewlet.spark.plan.tree_split import TreeSplit
from viewlet.spark.run import loads
from viewlet.spark.run.arriving import FrameChange, by_place, is_small, needed_at_driver
from viewlet.spark.run.batch import Batch, BatchStats, UnitRun
from viewlet.spark.run.checkpoint import DRIVER, Checkpoint
from viewlet.spark.run.cluster import Cluster
from viewlet.spark.run.kept import checks_of, kept_program, partitioned_by, unit_name
from viewlet.spark.run.kernel import Node, ReferenceNode, with_result
from viewlet.spark.run.loaded import LoadedViews
from viewlet.spark.run.names import with_names
from viewlet.spark.run.partition import Context, SharedCode, can_run_generated, state_root
from viewlet.spark.run.reading import Reading, reading_of
from viewlet.spark.run.states import NOTHING
from viewlet.spark.run.steps import EVERYWHERE, StepHead, read_head, read_step, write_step
from viewlet.spark.run.tasks import MapChanges, MapKept, ReadResult, ReadViews, WriteSnapshot
from viewlet.spark.run.tree_reading import AskTree, Question
from viewlet.spark.run.tree_unit import TreeUnit, form_of
from viewlet.spark.run.unit import AT_DRIVER, SPREAD, ProgramCode, ProgramUnit, Unit, UnitCode
from viewlet.spark.run.wire import bytes_table, decode, encode, table_bytes
from viewlet.triggers.program import Program
from viewlet.types import Table
from viewlet.viewtree.ring_plan import RingPlan

REMEMBERED_BATCHES = 1000
GENERATE_FROM_ROWS = 50_000
"""Rows of state from which compiling code for a view pays."""


@dataclass(slots=True)
class _Running:
    """A unit with its current code and the driver's part of its state."""

    unit: Unit
    code: UnitCode
    node: Node
    shared: SharedCode | None = None
    rows: int = 0
    bytes: int = 0
    compiled: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    """Plans whose code is in the cache of this machine."""


class Engine:
    """The engine. `generated` says when units run generated code: always, never, or once they are large."""

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
        self._loads = loads.Loads(cluster, checkpoint, partitions)

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
    ) -> ProgramUnit:
        """Plans a program that is not here yet."""
        taken = {view.name for running in self._running.values() for view in running.unit.stored}
        clashes = [view.name for view in program.views if view.name in taken]
        program = with_names(program, {name: f"{program.name}/{name}" for name in clashes})
        distributed = compile_distributed(program, tables, rows, partition_by)
        return ProgramUnit(program.name, distributed, reading_of(distributed), dict(tables))

    def tree_unit(
        self, name: str, plan: RingPlan, split: TreeSplit, tables: Mapping[str, Table], known: bool | None
    ) -> TreeUnit:
        """The unit of a new view tree; `known` is the form of an existing state that it continues with."""
        generated = form_of(plan, self._generated if known is None else known)
        return TreeUnit(name, plan, split, dict(tables), generated)

    def code(self, name: str) -> UnitCode:
        """What processes have to know of a unit now."""
        return self._running[name].code

    def keep(self, table: Table) -> None:
        """From now on the rows of a table are kept."""
        self.kept[table.name] = table
        distributed = compile_distributed(kept_program(table), {table.name: table}, None, partitioned_by(table))
        name = unit_name(table.name)
        self.add(ProgramUnit(name, distributed, reading_of(distributed), {table.name: table}, checks_of(table)))

    def drop(self, table: str) -> None:
        """The rows of a table are forgotten."""
        if self.kept.pop(table, None) is not None:
            self.remove(unit_name(table))

    def add(self, unit: Unit) -> None:
        """Takes up a program; its views are as before the first batch."""
        known = unit.name in self.checkpoint.generated
        code = unit.code(known if self._generated is None else self._generated)
        self._running[unit.name] = _Running(unit, code, self._node(code))

    def remove(self, name: str) -> None:
        del self._running[name]
        self._watched.discard(name)
        self.checkpoint.forget(name)

    def _node(self, code: UnitCode) -> Node:
        """What a unit has at the driver before the first batch."""
        node = self._empty_node(code)
        for name, blob in code.at_driver().items():
            node.restore(name, blob)
        return node

    def _empty_node(self, code: UnitCode) -> Node:
        if not isinstance(code, ProgramCode) or code.module is None or not can_run_generated():
            return code.evaluated(code.local)
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
            with_result(node).watch()
        running.code, running.node, running.shared = code, node, None
        running.compiled.clear()

    @property
    def needs_snapshot(self) -> bool:
        """Some unit is about to be moved to generated code, which does not read what the driver's log has of it."""
        return any(self._is_due(running) for running in self._running.values())

    def _is_due(self, running: _Running) -> bool:
        large = self._generated is None and running.rows > GENERATE_FROM_ROWS
        return large and running.code.module is None and running.unit.may_generate

    def takes_columns(self, table: str) -> frozenset[int] | None:
        """The columns of a table's changes that units read, if all of them take columns instead of rows."""
        found: set[int] = set()
        for running in self._running.values():
            if table in running.unit.tables:
                columns = running.node.columns_read(table)
                if columns is None:
                    return None
                found |= columns
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

    def _share(self, running: _Running) -> SharedCode:
        if running.shared is None:
            running.shared = SharedCode(uuid.uuid4().hex, self.cluster.share(running.code))
        return running.shared

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(self, epoch: int, changes: Mapping[str, Change]) -> tuple[Batch | None, BatchStats]:
        """Runs a batch up to, but without, its commit."""
        changed = set(changes)
        local, frames = by_place(changes)
        stats = BatchStats(epoch, tuple(sorted(changed)))
        concerned = [each for each in self._running.values() if each.unit.tables & changed]
        if not concerned:
            return None, stats
        batch = self._under_way = Batch(self.cluster, self.checkpoint, self.context, stats)
        loaded = self._load(batch, concerned, [*frames.values()], local)
        rest = [each for each in concerned if each.unit.name not in loaded]
        read = {table for each in rest for table in each.unit.tables}
        spread = {name: each for name, each in frames.items() if name in read}
        small = is_small([*spread.values()])
        wanted_here = set(spread) if small else needed_at_driver([each.code for each in rest], spread, local)
        local = {**local, **{name: self._collected(batch, spread[name]) for name in sorted(wanted_here)}}
        spread = {name: each for name, each in spread.items() if name not in wanted_here}
        for each in rest:
            plan = SPREAD if each.unit.tables & spread.keys() else AT_DRIVER  # nothing else is spread then
            batch.runs[each.unit.name] = self._run(each, plan, changed)
        units = tuple(batch.runs)
        batch.run(local, {name: (self._mapper(each, units, changed), each.frame) for name, each in spread.items()})
        self._tell(batch, loaded)
        return batch, stats

    def _collected(self, batch: Batch, change: FrameChange) -> Change:
        """What a data frame has, at the driver."""
        started = time.perf_counter()
        change.fetch()
        batch.count_stage()
        batch.stats.spent("changes", started)
        return change.at_driver(self.takes_columns(change.table.name), self.dictionary)

    def _tell(self, batch: Batch, loaded: Collection[str]) -> None:
        """The changes of results that are not read in the partitions."""
        for name in self._watched:
            if name in loaded:
                batch.changes[name] = self.result(name)
            elif name in batch.runs and self.units[name].reading is Reading.DRIVER:
                batch.changes[name] = with_result(self._running[name].node).result_change()

    def _run(self, running: _Running, key: str, changed: Iterable[str]) -> UnitRun:
        plan = running.code.plan(key, running.unit.tables.intersection(changed))
        if self.cluster.is_here and (key, plan.tables) not in running.compiled:
            running.compiled.add((key, plan.tables))
            running.node.compile_all(plan)
        return UnitRun(running.unit.name, plan, running.node, bool(running.code.local))

    def _mapper(self, change: FrameChange, units: Iterable[str], changed: Iterable[str]) -> MapChanges:
        mine = tuple(name for name in units if change.table.name in self.units[name].tables)
        wanted = change.columns_among(self.takes_columns(change.table.name))
        tables = tuple(sorted(changed))
        return MapChanges(self.context(), mine, tables, change.table, change.sign, change.encoded, wanted)

    # -- loads ------------------------------------------------------------------------------------------------------

    def _load(
        self, batch: Batch, concerned: Iterable[_Running], frames: Sequence[FrameChange], local: Mapping[str, Change]
    ) -> set[str]:
        """Loads what is empty and gets a lot from data frames; returns the units that need no triggers then."""
        empty = [each.unit for each in concerned if self.checkpoint.history.token(each.unit.name) == NOTHING]
        found = self._loads.from_frames(batch, empty, frames, local)
        self._take_loaded(batch, found)
        return set(found)

    def _take_loaded(self, batch: Batch, found: Mapping[str, LoadedViews]) -> None:
        if found:
            batch.load({name: loaded.to_json() for name, loaded in found.items()})
        for name, loaded in found.items():
            self._take_up(self._running[name], loaded)

    def _take_up(self, running: _Running, loaded: LoadedViews) -> None:
        running.rows, running.bytes = loaded.rows, loaded.bytes
        if self._is_due(running):
            self._generate(running)
        for name in running.code.local:
            running.node.restore(name, loaded.read(name))

    def fill(self, name: str, epoch: int) -> tuple[Batch | None, BatchStats]:
        """Gives a new view the rows that tables keep, up to the commit."""
        running = self._running[name]
        tables = [self.kept[table] for table in sorted(running.unit.tables) if table in self.kept]
        names = tuple(table.name for table in tables)
        stats = BatchStats(epoch, names)
        if not tables:
            return None, stats
        batch = self._under_way = Batch(self.cluster, self.checkpoint, self.context, stats)
        if sum(self._running[unit_name(table)].rows for table in names) >= loads.LOAD_FROM_ROWS:
            found = self._loads.from_tables(batch, running.unit, self.context(), tables)
            self._take_loaded(batch, found)
            if found:
                return batch, stats
        if SPREAD in running.code.plans and set(names) <= set(running.code.plans[SPREAD].tables):
            batch.runs[name] = self._run(running, SPREAD, names)
            context = self.context()
            task = MapKept(context, tuple(MapChanges(context, (name,), names, table, 1, False) for table in tables))
            batch.run({}, {}, lambda: (piece for part in self._ask(task, f"fill {name}") for piece in part))
        else:
            batch.runs[name] = self._run(running, AT_DRIVER, names)
            batch.run({table: RowChange(self.result(unit_name(table))) for table in names}, {})
        return batch, stats

    def remove_old_loads(self) -> None:
        """Files of loads that no log refers to any more."""
        self._loads.remove_old()

    def _ask(self, task: Callable[[int, None], Any], what: str) -> list[Any]:
        """What every partition answers."""
        return [_good(answer) for answer in self.cluster.run(task, [None] * self.partitions, what)]

    def ask_tree(self, name: str, question: Question, partition: int | None = None) -> list[Any]:
        """What all partitions of a view tree answer, or one of them."""
        task = AskTree(self.context(), name, question)
        payloads = [None] * self.partitions if partition is None else [partition]
        return [_good(answer) for answer in self.cluster.run(task, payloads, f"read {name}")]

    def commit(
        self,
        batch: Batch | None,
        stats: BatchStats,
        batches: Mapping[str, Ranges] | None,
        declared: Sequence[Record] = (),
    ) -> None:
        """Makes a batch part of the state, and with it what was declared."""
        started = time.perf_counter()
        payload = write_step(StepHead(""), {}) if batch is None else batch.record()
        stats.log_bytes = self.checkpoint.commit(*declared, Record(DRIVER, stats.epoch, payload), batches=batches)
        stats.spent("commit", started)
        self.finish(batch, stats)

    def finish(self, batch: Batch | None, stats: BatchStats) -> None:
        """What is left to do when a batch is committed; may be done again."""
        self.checkpoint.keep()
        self._under_way = None
        for name, (rows, size) in (batch.sizes if batch is not None else {}).items():
            self._running[name].rows, self._running[name].bytes = rows, size
        stats.state_rows = sum(running.rows for running in self._running.values())
        stats.state_bytes = sum(running.bytes for running in self._running.values())
        if stats not in self.batches:
            self.batches.append(stats)

    def abandon(self) -> None:
        """Rolls back a batch that will not be committed; to be called again if it is interrupted."""
        batch = self._under_way
        if batch is not None:
            for run in batch.begun:
                run.node.rollback()
            for name in batch.loads:
                self._empty(self._running[name])
        self.checkpoint.abandon()
        self._under_way = None

    def _empty(self, running: _Running) -> None:
        running.rows = running.bytes = 0
        initial = running.code.at_driver()
        for view in running.code.local:
            running.node.restore(view, initial.get(view, b""))

    def replay(self, record: Record) -> None:
        """Runs the driver's part of a committed batch again."""
        head = read_head(record.payload)
        for name, known in head.loads.items():
            if name in self._running:
                self._take_up(self._running[name], LoadedViews.of_json(self.checkpoint.directory, known))
        for stage in head.stages:
            running = self._running.get(stage.unit)
            if running is not None:
                received = read_step(record.payload, stage.unit, EVERYWHERE)
                running.node.redo(running.code.plan(stage.plan, stage.tables), received)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self, facts: object) -> None:
        """Writes everything to the checkpoint directory, so that no log is needed."""

        def write(writer: SnapshotWriter) -> tuple[Any, list[str]]:
            held = {
                _snapshot_name(unit, name): each.node.contents(name)
                for unit, each in self._running.items()
                for name in each.code.local
            }
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
        self._loads.remove_old()

    def restore(self, driver: Mapping[str, Any]) -> None:
        """The driver's views as a snapshot has them; snapshots of older versions name them without their unit."""
        for unit, running in self._running.items():
            for name in running.code.local:
                kept = driver.get(_snapshot_name(unit, name), driver.get(name))
                running.node.restore(name, table_bytes(kept) if kept is not None else b"")

    # -- results ----------------------------------------------------------------------------------------------------

    def result(self, name: str) -> Changes:
        """The rows of a query with their multiplicities."""
        running = self._running[name]
        if running.unit.reading is Reading.DRIVER:
            return with_result(running.node).result()
        if running.unit.reading is Reading.PARTITIONS:
            return _sum(self._ask(ReadResult(self.context(), name), f"read {name}"))
        return self._gathered(running).result()

    def _gathered(self, running: _Running) -> ReferenceNode:
        """The views that a query reads, in one place."""
        unit, code = running.unit, running.code
        if not isinstance(code, ProgramCode):
            raise InternalError(f"the views of {unit.name} are not those of a query")
        node, wanted = code.gathered()
        homes = unit.homes
        remote = tuple(name for name in wanted if homes[name] != LOCAL)
        found = self._ask(ReadViews(self.context(), unit.name, remote), f"read {unit.name}")
        for i, name in enumerate(remote):
            parts = found[:1] if homes[name] == REPLICATED else found
            rows = [row for part in parts for row in decode(wanted[name], part[i])]
            node.restore(name, encode(wanted[name], rows))
        for name in wanted.keys() - set(remote):
            node.restore(name, running.node.contents(name))
        return node

    def changes(self, name: str) -> Changes | None:
        """What the batch under way has done to the rows of a query; None if it is not watched."""
        if name not in self._watched:
            return None
        told = self._under_way.changes.get(name, {}) if self._under_way is not None else {}
        return {row: weight for row, weight in told.items() if weight}

    def watch(self, name: str) -> bool:
        """From now on batches tell what they do to the rows of a query, if they can."""
        running = self._running[name]
        if running.unit.reading is Reading.GATHERED:
            return False
        if name not in self._watched:
            self._watched.add(name)
            if running.unit.reading is Reading.DRIVER:
                with_result(running.node).watch()
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


def _snapshot_name(unit: str, view: str) -> str:
    """Units may have stored views of the same name, such as the rows of a table that both read."""
    return f"{unit}/{view}"
