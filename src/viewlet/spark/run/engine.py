"""The engine on Spark: adds and drops units, runs batches, and reads results."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any, TypeVar

from viewlet.changes import Change, Changes, RowChange, rows_to_arrow
from viewlet.errors import InternalError, ViewletError
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter
from viewlet.spark.plan.compile import DistributedProgram, compile_at, compile_distributed
from viewlet.spark.plan.locations import LOCAL, REPLICATED
from viewlet.spark.plan.partitioning import DRIVER_ROWS
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.plan.strategy import cheapest
from viewlet.spark.plan.tree_split import TreeSplit
from viewlet.spark.run.exchange.change_files import KeptChanges
from viewlet.spark.run.exchange.moves import INLINE_BYTES, fetch_all
from viewlet.spark.run.exchange.stage_record import DRIVER as AT_THE_DRIVER
from viewlet.spark.run.exchange.stage_record import (
    EVERYWHERE,
    Piece,
    Sent,
    SentDeliveries,
    Shipment,
    StepHead,
    read_head,
    read_step,
    write_step,
)
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.spark.run.execution import loader
from viewlet.spark.run.execution.batch import Batch, BatchStats, StateSize, UnitRun
from viewlet.spark.run.execution.change_task import rows_table
from viewlet.spark.run.execution.cluster import Cluster
from viewlet.spark.run.execution.frame_change import FrameChange, by_place, is_small, needed_at_driver
from viewlet.spark.run.execution.snapshot_tasks import SplitState, WriteSnapshot
from viewlet.spark.run.execution.tasks import (
    CountRows,
    ExplainPartition,
    KeepRows,
    MapChanges,
    MapTableRows,
    PartitionTask,
    ReadArrow,
    ReadResult,
    ReadViews,
    RemoveState,
    leaving,
)
from viewlet.spark.run.execution.tree_task import AskTree, Question
from viewlet.spark.run.load.row_frame import table_rows
from viewlet.spark.run.state.checkpoint import DRIVER, Checkpoint
from viewlet.spark.run.state.partition import Context, History, SharedCode, saved_name, saved_view, state_root
from viewlet.spark.run.state.segment_files import LoadedViews, joined
from viewlet.spark.run.state.unit_state import NOTHING
from viewlet.spark.run.units.node import Node, with_result
from viewlet.spark.run.units.relocation import Relocation, departures
from viewlet.spark.run.units.rename import rename_views
from viewlet.spark.run.units.table_unit import checks_of, partitioned_by, rows_view, table_program, unit_name
from viewlet.spark.run.units.tree_unit import TreeUnit, form_of
from viewlet.spark.run.units.unit import (
    AT_DRIVER,
    LOCATIONS,
    SPREAD,
    ProgramCode,
    ProgramUnit,
    Unit,
    UnitCode,
    can_run_generated,
)
from viewlet.triggers.program import Program
from viewlet.types import Table
from viewlet.viewtree.ring_plan import RingPlan

R = TypeVar("R")

REMEMBERED_BATCHES = 1000
CLOSE_SECONDS = 10.0
"""How long closing waits for the cluster."""
GENERATE_FROM_ROWS = 50_000
"""Rows of state from which compiling code for a view pays."""


@dataclass(slots=True)
class _UnitEntry:
    """A unit with its current code and the driver's part of its state."""

    unit: Unit
    code: UnitCode
    node: Node
    shared: SharedCode | None = None
    size: StateSize = field(default_factory=StateSize)
    """What it has at the workers, as far as batches and loads have told."""
    driver_rows: int = 0
    """The rows of its largest view at the driver at the last snapshot."""
    compiled: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    """Plans whose code is in the cache of this machine."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Units that a snapshot moves elsewhere, and what it sends to which partition for them."""

    token: str
    entries: Mapping[str, _UnitEntry]
    partitions: int
    shipment: Shipment

    def deliveries(self) -> list[SentDeliveries]:
        return self.shipment.deliveries(self.partitions)


@dataclass(frozen=True, slots=True)
class Units:
    """The units of an engine at one moment, those whose changes are wanted, and the history of their state."""

    entries: Mapping[str, _UnitEntry]
    watched: frozenset[str]
    kept: Mapping[str, KeptChanges]
    history: History


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
        self.inline_bytes = INLINE_BYTES
        """What a stage may move through the driver; more moves through files."""
        self.kept: dict[str, Table] = {}
        self.batches: deque[BatchStats] = deque(maxlen=REMEMBERED_BATCHES)
        self.dictionary = StringDictionary()
        """The strings of changes that are at the driver."""
        self._units: dict[str, _UnitEntry] = {}
        self._watched: set[str] = set()
        self._kept_changes: dict[str, KeptChanges] = {}
        """The units whose changes tasks write to files."""
        self._loader = loader.Loader(cluster, checkpoint, partitions)
        self._settled: str | None = ""
        """The snapshot after which old files were removed."""
        self._layout: _Layout | None = None
        """What will be in force when the snapshot is in place that is being written."""

    # -- views ------------------------------------------------------------------------------------------------------

    @property
    def generated(self) -> bool | None:
        """Whether new units run generated code; None if they may as well."""
        return self._generated

    @property
    def units(self) -> Mapping[str, Unit]:
        return {name: entry.unit for name, entry in self._units.items()}

    def unit(
        self,
        programs: Sequence[Program],
        tables: Mapping[str, Table],
        rows: Mapping[str, float] | None = None,
        partition_by: Sequence[Mapping[str, Sequence[str]]] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> ProgramUnit:
        """Plans the cheapest of some programs of the same query, which is not here yet, each with its `partition_by`.

        A program that continues has `facts`, which say where its views are.
        """
        wishes = partition_by or [{}] * len(programs)
        found = [self._planned(each, tables, rows, by, facts) for each, by in zip(programs, wishes, strict=True)]
        earlier = bool(facts) and LOCATIONS not in (facts or {})
        chosen = found[0] if len(found) == 1 else cheapest(found, rows or {})
        return ProgramUnit(programs[0].name, chosen, dict(tables), earlier=earlier)

    def _planned(
        self,
        program: Program,
        tables: Mapping[str, Table],
        rows: Mapping[str, float] | None,
        partition_by: Mapping[str, Sequence[str]],
        facts: Mapping[str, Any] | None,
    ) -> DistributedProgram:
        others = (entry.unit for name, entry in self._units.items() if name != program.name)
        taken = {view.name for unit in others for view in unit.stored}
        clashes = [view.name for view in program.views if view.name in taken]
        program = rename_views(program, {name: f"{program.name}/{name}" for name in clashes})
        known = (facts or {}).get(LOCATIONS)
        distributed = None if known is None else compile_at(program, tables, rows or {}, known)
        if distributed is None:
            distributed = compile_distributed(program, tables, rows, partition_by, bool(facts) and known is None)
        return distributed

    def tree_unit(
        self, name: str, plan: RingPlan, split: TreeSplit, tables: Mapping[str, Table], known: bool | None
    ) -> TreeUnit:
        """The unit of a new view tree; `known` is the form of an existing state that it continues with."""
        generated = form_of(plan, self._generated if known is None else known)
        return TreeUnit(name, plan, split, dict(tables), generated)

    def code(self, name: str) -> UnitCode:
        """What processes have to know of a unit now."""
        return self._units[name].code

    def keep(self, table: Table) -> None:
        """From now on the rows of a table are kept."""
        self.kept[table.name] = table
        distributed = compile_distributed(table_program(table), {table.name: table}, None, partitioned_by(table))
        name = unit_name(table.name)
        self.add(ProgramUnit(name, distributed, {table.name: table}, checks_of(table)))

    def drop(self, table: str) -> None:
        """The rows of a table are forgotten."""
        if self.kept.pop(table, None) is not None:
            self.remove(unit_name(table))

    def add(self, unit: Unit) -> None:
        """Takes up a program, instead of another one of its name; its views are as before the first batch."""
        if unit.name in self._units:
            self.remove(unit.name)
        known = unit.name in self.checkpoint.generated
        code = unit.code(known if self._generated is None else self._generated)
        self._units[unit.name] = _UnitEntry(unit, code, self._node(code))

    def remove(self, name: str) -> None:
        del self._units[name]
        self._watched.discard(name)
        self._kept_changes.pop(name, None)
        self.checkpoint.forget(name)

    def units_now(self) -> Units:
        """The units that there are, to be brought back by `reset`."""
        return Units(dict(self._units), frozenset(self._watched), dict(self._kept_changes), self.checkpoint.history)

    def reset(self, units: Units) -> None:
        """Takes back what was added and removed; may be called again if it was interrupted."""
        self._units, self._watched = dict(units.entries), set(units.watched)
        self._kept_changes = dict(units.kept)
        self.checkpoint.go_back_to(units.history)

    def _node(self, code: UnitCode) -> Node:
        """What a unit has at the driver before the first batch."""
        node = self._empty_node(code)
        for name, blob in code.at_driver().items():
            node.restore(name, blob)
        return node

    def _empty_node(self, code: UnitCode) -> Node:
        if not isinstance(code, ProgramCode) or code.module is None or not can_run_generated():
            return code.evaluated(code.local)
        from viewlet.spark.run.units.generated_node import GeneratedNode

        return GeneratedNode(code, code.local, self.dictionary)

    def _generate(self, entry: _UnitEntry) -> None:
        """From now on a unit runs generated code; its state is moved."""
        code = entry.unit.code(generated=True)
        if code.module is None:
            return
        node = self._node(code)
        for name in code.local:
            node.restore(name, entry.node.contents(name))
        if entry.unit.name in self._watched and entry.unit.reading is ResultLocation.DRIVER:
            with_result(node).watch()
        entry.code, entry.node, entry.shared = code, node, None
        entry.compiled.clear()

    @property
    def needs_snapshot(self) -> bool:
        """Some unit is about to be moved to generated code, or to partitions, which happens at a snapshot."""
        return any(self._is_due(entry) or _has_outgrown(entry) for entry in self._units.values())

    def _is_due(self, entry: _UnitEntry) -> bool:
        large = self._generated is None and entry.size.rows > GENERATE_FROM_ROWS
        return large and entry.code.module is None and entry.unit.may_generate

    def takes_columns(self, table: str) -> frozenset[int] | None:
        """The columns of a table's changes that units read, if all of them take columns instead of rows."""
        found: set[int] = set()
        for entry in self._units.values():
            if table in entry.unit.tables:
                columns = entry.node.columns_read(table)
                if columns is None:
                    return None
                found |= columns
        return frozenset(found)

    def close(self) -> None:
        """Removes what the machines keep of the state, which can be read from the checkpoint.

        A cluster that is gone, or has no executor to spare, is not waited for: what remains on a machine is removed
        after some days.
        """

        def remove() -> None:
            with contextlib.suppress(Exception):
                self._ask(RemoveState(replace(self.context(), units={})), "removing local state")

        if any(isinstance(entry.code, ProgramCode) and entry.code.module is not None for entry in self._units.values()):
            removal = Thread(target=remove, daemon=True)
            removal.start()
            removal.join(CLOSE_SECONDS)

    def context(self) -> Context:
        """What tasks need to know now."""
        return Context(
            self.checkpoint.directory,
            state_root(),
            self.partitions,
            {name: self._share(entry) for name, entry in self._units.items()},
            self.checkpoint.history,
            frozenset(name for name in self._watched if self.units[name].reading is ResultLocation.PARTITIONS)
            | self._kept_changes.keys(),
            {name: replace(kept, is_told=name in self._watched) for name, kept in self._kept_changes.items()},
            None,
            self.inline_bytes,
            self.checkpoint.sync,
        )

    def _share(self, entry: _UnitEntry) -> SharedCode:
        if entry.shared is None:
            entry.shared = SharedCode(uuid.uuid4().hex, self.cluster.share(entry.code))
        return entry.shared

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(self, epoch: int, changes: Mapping[str, Change]) -> tuple[Batch | None, BatchStats]:
        """Runs a batch up to, but without, its commit."""
        self.settle()
        changed = set(changes)
        local, frames = by_place(changes)
        stats = BatchStats(epoch, tuple(sorted(changed)))
        concerned = [each for each in self._units.values() if each.unit.tables & changed]
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
        batch.run(local, {name: (self._mapper(batch, each, changed), each.frame) for name, each in spread.items()})
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
            elif name in batch.runs and self.units[name].reading is ResultLocation.DRIVER:
                batch.changes[name] = with_result(self._units[name].node).result_change()
        for name in self._kept_changes.keys() & loaded:
            task = KeepRows(replace(self.context(), commit=batch.commit), name)
            batch.shares[name] = [share for share in self._ask(task, f"changes of {name}") if share is not None]
            batch.count_stage()

    def _run(self, entry: _UnitEntry, key: str, changed: Iterable[str]) -> UnitRun:
        plan = entry.code.plan(key, entry.unit.tables.intersection(changed))
        if self.cluster.is_here and (key, plan.tables) not in entry.compiled:
            entry.compiled.add((key, plan.tables))
            entry.node.compile_all(plan)
        return UnitRun(entry.unit.name, plan, entry.node, bool(entry.code.local))

    def _mapper(self, batch: Batch, change: FrameChange, changed: Iterable[str]) -> MapChanges:
        mine = tuple(name for name in batch.runs if change.table.name in self.units[name].tables)
        wanted = change.columns_among(self.takes_columns(change.table.name))
        tables = tuple(sorted(changed))
        return MapChanges(self.context(), mine, tables, change.table, change.sign, change.encoded, batch.token, wanted)

    # -- loads ------------------------------------------------------------------------------------------------------

    def _load(
        self, batch: Batch, concerned: Iterable[_UnitEntry], frames: Sequence[FrameChange], local: Mapping[str, Change]
    ) -> set[str]:
        """Loads what is empty and gets a lot from data frames; returns the units that need no triggers then."""
        empty = [each.unit for each in concerned if self.checkpoint.history.token(each.unit.name) == NOTHING]
        found = self._loader.from_frames(batch, empty, frames, local)
        self._take_loaded(batch, found)
        return set(found)

    def _take_loaded(self, batch: Batch, found: Mapping[str, LoadedViews]) -> None:
        if found:
            batch.load({name: loaded.to_json() for name, loaded in found.items()})
        for name, loaded in found.items():
            self._take_up(self._units[name], loaded)

    def _take_up(self, entry: _UnitEntry, loaded: LoadedViews) -> None:
        copies = {name: self.partitions for name, at in entry.unit.locations.items() if at == REPLICATED}
        rows = {name: view.rows * copies.get(name, 1) for name, view in loaded.views.items()}
        entry.size = StateSize(rows, (), loaded.bytes)
        if self._is_due(entry):
            self._generate(entry)
        for name in entry.code.local:
            entry.node.restore(name, loaded.read(name))

    def fill(self, name: str, epoch: int) -> tuple[Batch | None, BatchStats]:
        """Gives a new view the rows that tables keep, up to the commit."""
        self.settle()
        entry = self._units[name]
        tables = [self.kept[table] for table in sorted(entry.unit.tables) if table in self.kept]
        names = tuple(table.name for table in tables)
        stats = BatchStats(epoch, names)
        if not tables:
            return None, stats
        batch = self._under_way = Batch(self.cluster, self.checkpoint, self.context, stats)
        if sum(self._units[unit_name(table)].size.rows for table in names) >= loader.LOAD_FROM_ROWS:
            found = self._loader.from_tables(batch, entry.unit, self.context(), tables)
            self._take_loaded(batch, found)
            if found:
                return batch, stats
        if SPREAD in entry.code.plans and set(names) <= set(entry.code.plans[SPREAD].tables):
            batch.runs[name] = self._run(entry, SPREAD, names)
            context = self.context()
            token = batch.token
            mappers = tuple(MapChanges(context, (name,), names, table, 1, False, token) for table in tables)
            task = MapTableRows(context, token, mappers)
            batch.run({}, {}, lambda: (piece for part in self._ask(task, f"fill {name}") for piece in part))
        else:
            batch.runs[name] = self._run(entry, AT_DRIVER, names)
            batch.run({table: RowChange(self.result(unit_name(table))) for table in names}, {})
        return batch, stats

    def _ask(self, task: PartitionTask[R], what: str) -> list[R]:
        """What every partition answers."""
        return [_good(answer) for answer in self.cluster.run(task, [None] * self.partitions, what)]

    def ask_tree(self, name: str, question: Question, partition: int | None = None) -> list[Any]:
        """What all partitions of a view tree answer, or one of them."""
        task = AskTree(self.context(), name, question)
        if partition is None:
            return self._ask(task, f"read {name}")
        return [_good(answer) for answer in self.cluster.run(task, [partition], f"read {name}", [partition])]

    def record(self, batch: Batch | None, epoch: int) -> Record:
        """What repeats the driver's part of a batch; it is the last record of the batch."""
        return Record(DRIVER, epoch, write_step(StepHead(""), {}) if batch is None else batch.record())

    def finish(self, batch: Batch | None, stats: BatchStats) -> None:
        """What is left to do when a batch is committed; may be done again."""
        self.checkpoint.keep()
        stats.log_bytes, stats.seconds["commit"] = self.checkpoint.last_commit
        self._under_way = None
        for name, size in (batch.sizes if batch is not None else {}).items():
            self._units[name].size = size
        stats.state_rows = sum(entry.size.rows for entry in self._units.values())
        stats.state_bytes = sum(entry.size.bytes for entry in self._units.values())
        if stats not in self.batches:
            self.batches.append(stats)
        if batch is not None:
            self.checkpoint.remove_files(batch.used_files)
        self.checkpoint.is_wanted = self.needs_snapshot

    def abandon(self) -> None:
        """Rolls back a batch that will not be committed; to be called again if it is interrupted."""
        batch = self._under_way
        if batch is not None:
            for run in batch.begun:
                run.node.rollback()
            for name in batch.loads:
                self._empty(self._units[name])
        self.checkpoint.abandon()
        if batch is not None:
            self.checkpoint.remove_moves_of(batch.token)
        self._under_way = None

    def _empty(self, entry: _UnitEntry) -> None:
        entry.size = StateSize()
        initial = entry.code.at_driver()
        for view in entry.code.local:
            entry.node.restore(view, initial.get(view, b""))

    def replay(self, record: Record) -> None:
        """Runs the driver's part of a committed batch again."""
        head = read_head(record.payload)
        for name, known in head.loads.items():
            if name in self._units:
                self._take_up(self._units[name], LoadedViews.of_json(self.checkpoint.directory, known))
        for stage in head.stages:
            entry = self._units.get(stage.unit)
            if entry is not None:
                received = fetch_all(self.checkpoint.files, read_step(record.payload, stage.unit, EVERYWHERE))
                entry.node.redo(entry.code.plan(stage.plan, stage.tables), received)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def save(self, writer: SnapshotWriter, facts: object, relocation: Relocation | None = None) -> dict[str, Any]:
        """Writes everything to a snapshot, so that no log is needed; returns the facts to go with it.

        The driver's views are parts of it, and every partition writes its own to the folder. Units that move elsewhere
        are written to where they will be; `adopt` puts that in force once the snapshot is in place.
        """
        layout = self._layout = self._sent(relocation)
        entries = {**self._units, **layout.entries}
        held = {
            saved_name(unit, name): contents
            for unit, each in entries.items()
            for name in each.code.local
            if (contents := each.node.contents(name))
        }
        for name, contents in held.items():
            writer.table(name, bytes_table(contents))
        task = WriteSnapshot(self.context(), writer.folder, frozenset(layout.entries))
        found = self.cluster.run(task, layout.deliveries(), "snapshot")
        written: list[tuple[int, int]] = [_good(answer) for answer in found]
        history = self.checkpoint.history
        return {
            "facts": facts,
            "driver": list(held),
            "bases": {unit: layout.token if unit in layout.entries else history.token(unit) for unit in entries},
            "generated": [unit for unit, each in entries.items() if each.code.module is not None or self._is_due(each)],
            "partitions": [checksum for checksum, _ in written],
            "bytes": sum(size for _, size in written),
        }

    def _sent(self, relocation: Relocation | None) -> _Layout:
        """Sends the state of units that move to where it will be."""
        token = uuid.uuid4().hex
        if relocation is None:
            return _Layout(token, {}, self.partitions, Shipment())
        units, context = relocation.units, self.context()
        mine = {name: departures(self._units[name].unit, unit, at_driver=True) for name, unit in units.items()}
        theirs = {name: departures(self._units[name].unit, unit, at_driver=False) for name, unit in units.items()}
        task = SplitState(context, token, theirs, relocation.partitions)
        pieces: list[Piece] = [piece for part in self._ask(task, "state that moves") for piece in part]
        with context.outbox(token, 1) as outbox:
            for name, leaves in mine.items():
                outbox.put(leaving(name, self._units[name].node, leaves, relocation.partitions, 0))
        shipment, gathered = Shipment(), dict[str, dict[str, list[Sent]]]()
        for unit, view, partition, contents in (*pieces, *outbox.pieces):
            if partition == AT_THE_DRIVER:
                gathered.setdefault(unit, {}).setdefault(view, []).append(contents)
            else:
                shipment.add(unit, view, partition, contents)
        entries = {name: self._moved(unit, gathered.get(name, {})) for name, unit in units.items()}
        return _Layout(token, entries, relocation.partitions, shipment)

    def _moved(self, unit: Unit, gathered: Mapping[str, list[Sent]]) -> _UnitEntry:
        """A unit as it will be, with what the driver has of it then."""
        code = unit.code(self._units[unit.name].code.module is not None)
        node = self._empty_node(code)
        found = fetch_all(self.checkpoint.files, gathered)
        for name in code.local:
            node.restore(name, joined(found.get(name, [])))
        return _UnitEntry(unit, code, node, size=self._units[unit.name].size)

    def adopt(self) -> None:
        """The snapshot is in place: what it has moved is where it was written."""
        layout, self._layout = self._layout, None
        if layout is not None:
            self._units = {**self._units, **layout.entries}
            self.partitions = layout.partitions
            self._loader = loader.Loader(self.cluster, self.checkpoint, self.partitions)
            for name in layout.entries:
                self._follow_again(name)
        for entry in self._units.values():
            entry.driver_rows = _driver_rows(entry)

    def _follow_again(self, name: str) -> None:
        """The changes of a unit that has moved are told, or written by tasks, from where it is."""
        entry = self._units[name]
        if entry.unit.reading is not ResultLocation.PARTITIONS:
            self._kept_changes.pop(name, None)
        if name in self._watched:
            self._watched.discard(name)
            self.watch(name)

    def partition_rows(self, name: str) -> tuple[int, ...]:
        """The rows of a unit in each partition, if batches have told."""
        return self._units[name].size.partitions

    def sizes(self, name: str) -> dict[str, int]:
        """The rows of each view of a unit, as far as they are known."""
        entry = self._units[name]
        at_workers = {
            view: rows // self.partitions if entry.unit.locations.get(view) == REPLICATED else rows
            for view, rows in entry.size.views.items()
        }
        return at_workers | dict(entry.node.sizes() if entry.code.local else {})

    def restore(self, unit: str, saved: SnapshotReader) -> None:
        """The driver's views of a unit as a snapshot has them; older versions name them without their unit."""
        entry = self._units[unit]
        for name in entry.code.local:
            entry.node.restore(name, saved_view(saved, unit, name))

    def settle(self) -> None:
        """After a snapshot: moves units that have become large to generated code, and removes files of old loads."""
        base = self.checkpoint.history.snapshot
        if base == self._settled:
            return
        for name, entry in self._units.items():
            if self._is_due(entry) and name in self.checkpoint.generated:
                self._generate(entry)
        self._loader.remove_old()
        self._settled = base

    # -- results ----------------------------------------------------------------------------------------------------

    def result(self, name: str) -> Changes:
        """The rows of a query with their multiplicities."""
        entry = self._units[name]
        if entry.unit.reading is ResultLocation.DRIVER:
            return with_result(entry.node).result()
        if entry.unit.reading is ResultLocation.PARTITIONS:
            return _sum(self._ask(ReadResult(self.context(), name), f"read {name}"))
        return with_result(self._gathered(entry)).result()

    def explain(self, name: str, stage: str) -> list[str]:
        """What the engines of the partitions tell of themselves."""
        return self._ask(ExplainPartition(self.context(), name, stage), f"explain {name}")

    def arrow(self, name: str) -> Any:
        """The same as an Arrow table; a row may be listed in several pieces."""
        import pyarrow as pa

        entry = self._units[name]
        if entry.unit.reading is ResultLocation.PARTITIONS:
            parts = self._ask(ReadArrow(self.context(), name), f"read {name}")
            return pa.concat_tables([bytes_table(part) for part in parts])
        node = entry.node if entry.unit.reading is ResultLocation.DRIVER else self._gathered(entry)
        return rows_table(node, entry.code)

    def count(self, name: str) -> int:
        """How many rows a query has."""
        if self._units[name].unit.reading is ResultLocation.PARTITIONS:
            return sum(self._ask(CountRows(self.context(), name), f"count {name}"))
        found = self.arrow(name)
        return int(found.column(found.num_columns - 1).to_numpy().sum())

    def table_rows(self, table: Table) -> Any:
        """The rows that a table keeps, as an Arrow table with multiplicities."""
        import pyarrow as pa

        task = ReadViews(self.context(), unit_name(table.name), (rows_view(table.name),))
        found = [blob for (blob,) in self._ask(task, f"read {table.name}") if blob]
        parts = [table_rows(table, bytes_table(blob)) for blob in found]
        return pa.concat_tables(parts) if parts else rows_to_arrow(table.columns, [], with_multiplicity=True)

    def scan(self, name: str) -> Context | None:
        """What tasks have to know to read the rows of a query, if each partition can compute its share."""
        reading = self._units[name].unit.reading
        return self.context().of(name) if reading is ResultLocation.PARTITIONS else None

    def _gathered(self, entry: _UnitEntry) -> Node:
        """The views that a query reads, in one place."""
        unit, code = entry.unit, entry.code
        if not isinstance(code, ProgramCode):
            raise InternalError(f"the views of {unit.name} are not those of a query")
        node, wanted = code.gathered()
        locations = unit.locations
        remote = tuple(name for name in wanted if locations[name] != LOCAL)
        found = self._ask(ReadViews(self.context(), unit.name, remote), f"read {unit.name}")
        for i, name in enumerate(remote):
            node.put(name, [part[i] for part in (found[:1] if locations[name] == REPLICATED else found)])
        for name in wanted.keys() - set(remote):
            node.put(name, [entry.node.contents(name)])
        return node

    def changes(self, name: str) -> Changes | None:
        """What the batch under way has done to the rows of a query; None if it is not watched."""
        if name not in self._watched:
            return None
        told = self._under_way.changes.get(name, {}) if self._under_way is not None else {}
        return {row: weight for row, weight in told.items() if weight}

    def keep_changes(self, name: str, kept: KeptChanges) -> bool:
        """From now on tasks write what batches do to the rows of a query; False if only the driver can tell it."""
        if self._units[name].unit.reading is not ResultLocation.PARTITIONS:
            return False
        return self._kept_changes.setdefault(name, kept).view == kept.view  # they write for one of the sharing views

    def keeps_changes_of(self, unit: str, view: str) -> bool:
        """Tasks write the changes of a unit for this view."""
        return unit in self._kept_changes and self._kept_changes[unit].view == view

    def forget_changes(self, unit: str, view: str) -> None:
        """Tasks no longer write the changes of a unit for this view."""
        if self.keeps_changes_of(unit, view):
            del self._kept_changes[unit]

    def watch(self, name: str) -> bool:
        """From now on batches tell what they do to the rows of a query, if they can."""
        entry = self._units[name]
        if entry.unit.reading is ResultLocation.GATHERED:
            return False
        if name not in self._watched:
            self._watched.add(name)
            if entry.unit.reading is ResultLocation.DRIVER:
                with_result(entry.node).watch()
        return True


def _has_outgrown(entry: _UnitEntry) -> bool:
    """A view at the driver has become large since the last snapshot, which may move it to the partitions."""
    return _driver_rows(entry) > max(DRIVER_ROWS, 2 * entry.driver_rows)


def _driver_rows(entry: _UnitEntry) -> int:
    return max(entry.node.sizes().values(), default=0) if entry.code.local else 0


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
