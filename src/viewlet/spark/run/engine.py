"""Views partitioned over a cluster: programs come and go, batches change them, results are read.

Every view of the user has a program of its own (a unit), planned when it is declared: where its state lives never
changes after that. The plans of all units that a batch concerns are merged.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewlet.changes import Changes
from viewlet.errors import StateError, ViewletError
from viewlet.runtime.durable.batch_ids import Ranges
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.snapshot import SnapshotWriter
from viewlet.spark.plan.compile import DistributedProgram, compile_distributed
from viewlet.spark.plan.locations import LOCAL, RANDOM, REPLICATED, Arrival, Local, Random
from viewlet.spark.plan.program import BatchPlan
from viewlet.spark.run.batch import Batch, BatchStats, replay_driver
from viewlet.spark.run.checkpoint import DRIVER, Checkpoint
from viewlet.spark.run.cluster import Cluster
from viewlet.spark.run.code import NotMappable, PlanCode, plan_code, plan_key
from viewlet.spark.run.kept import checks_of, kept_program, partitioned_by, unit_name
from viewlet.spark.run.kernel import ReferenceNode
from viewlet.spark.run.merge import merge, with_names
from viewlet.spark.run.partition import Context, Layout, Shared
from viewlet.spark.run.reading import Reading, reading_of, views_of
from viewlet.spark.run.steps import EVERYWHERE, StepHead, read_head, read_step, write_step
from viewlet.spark.run.tasks import MapChanges, MapKept, ReadResult, ReadViews, WriteSnapshot
from viewlet.spark.run.wire import bytes_table, decode, encode, table_bytes
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.types import Table

REMEMBERED_BATCHES = 1000
GENERATE_FROM_ROWS = 50_000
"""Rows of state from which compiling code for the partitions pays."""
_INTO = "into"


@dataclass(frozen=True, slots=True)
class Unit:
    """A program and how it is distributed."""

    name: str
    distributed: DistributedProgram
    reading: Reading
    sources: Mapping[str, Table]
    has_code: bool
    """Every statement has a compiled form."""

    @property
    def program(self) -> Program:
        return self.distributed.program

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(trigger.table for trigger in self.program.triggers)

    @property
    def digest(self) -> str:
        """Units with the same digest have the same state in the same places."""
        known = repr((self.program.views, sorted(self.distributed.homes.items())))
        return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class FrameChange:
    """The change of a table as a data frame: its rows times `sign`, or times what they say when `encoded`."""

    table: Table
    frame: Any
    sign: int = 1
    encoded: bool = False


class Engine:
    """`generated` lets partitions run generated code, if all views have it: always, never, or once they are large."""

    def __init__(
        self, cluster: Cluster, checkpoint: Checkpoint, partitions: int, generated: bool | None = None
    ) -> None:
        self._generated = generated
        self._under_way: Batch | None = None
        self.cluster = cluster
        self.checkpoint = checkpoint
        self.partitions = partitions
        self.units: dict[str, Unit] = {}
        self.kept: dict[str, Table] = {}
        self.batches: deque[BatchStats] = deque(maxlen=REMEMBERED_BATCHES)
        self._node = ReferenceNode({})
        self._watched: dict[str, Unit] = {}
        self._codes: dict[str, PlanCode] = {}
        self._shared: dict[str, Shared[PlanCode]] = {}
        self._programs: dict[str, Shared[Program]] = {}
        self._layout: Shared[Layout] | None = None
        self._is_large = False

    # -- views ------------------------------------------------------------------------------------------------------

    def unit(
        self,
        program: Program,
        tables: Mapping[str, Table],
        rows: Mapping[str, float] | None = None,
        partition_by: Mapping[str, Sequence[str]] | None = None,
    ) -> Unit:
        """Plans a program that is not here yet."""
        taken = {view.name for unit in self.units.values() for view in unit.program.views}
        clashes = [view.name for view in program.views if view.name in taken]
        program = with_names(program, {name: f"{program.name}/{name}" for name in clashes})
        distributed = compile_distributed(program, tables, rows, partition_by)
        return Unit(program.name, distributed, reading_of(distributed), dict(tables), has_code(distributed))

    def keep(self, table: Table) -> None:
        """From now on the rows of a table are kept."""
        self.kept[table.name] = table
        self.add(self.unit(kept_program(table), {table.name: table}, None, partitioned_by(table)))

    def drop(self, table: str) -> None:
        """The rows of a table are forgotten."""
        if self.kept.pop(table, None) is not None:
            self.remove(unit_name(table))

    def add(self, unit: Unit) -> None:
        """Takes up a program; its views are empty."""
        self.units[unit.name] = unit
        self._rebuild()

    def remove(self, name: str) -> None:
        del self.units[name]
        self._watched.pop(name, None)
        self._rebuild()

    def _rebuild(self) -> None:
        """The driver's state under the programs there are now; that of the workers follows by itself."""
        node = ReferenceNode(self._local_views())
        for name in self._local_views():
            if name in self._node_names:
                node.restore(name, self._node.contents(name))
        self._node, self._node_names = node, frozenset(self._local_views())
        for unit in self._watched.values():
            if unit.reading is Reading.DRIVER:
                node.watch(unit.program)
        self._codes.clear()
        self._shared.clear()
        self._layout = None

    _node_names: frozenset[str] = frozenset()

    def _homes(self, local: bool) -> dict[str, ViewDefinition]:
        return {
            view.name: view
            for unit in self.units.values()
            for view in unit.program.views
            if (unit.distributed.homes[view.name] == LOCAL) is local
        }

    def _local_views(self) -> dict[str, ViewDefinition]:
        return self._homes(local=True)

    @property
    def layout(self) -> Shared[Layout]:
        if self._layout is None:
            views = self._homes(local=False)
            wanted = self._is_large if self._generated is None else self._generated
            generated = wanted and all(unit.has_code for unit in self.units.values())
            known = repr((sorted(views.items()), generated))
            digest = hashlib.blake2b(known.encode(), digest_size=16).hexdigest()
            watched = tuple(u.program for u in self._watched.values() if u.reading is Reading.PARTITIONS)
            everywhere = views | self._homes(local=True)
            tables = {name: table for unit in self.units.values() for name, table in unit.sources.items()}
            self._layout = self.cluster.share(Layout(digest, views, watched, generated, everywhere, tables))
        return self._layout

    def context(self) -> Context:
        """What tasks need to know now."""
        keys = {step.head.plan for step in self.checkpoint.history.steps} | self._shared.keys()
        plans = {key: self._share(key) for key in keys}
        return Context(self.checkpoint.directory, self.partitions, self.layout, plans, self.checkpoint.history)

    # -- plans ------------------------------------------------------------------------------------------------------

    def plan(self, arrivals: Mapping[str, Arrival], only: str | None = None) -> BatchPlan | None:
        """What a batch of changes does; None if no view reads these tables."""
        plans = []
        for unit in self.units.values():
            mine = {table: arrival for table, arrival in arrivals.items() if table in unit.tables}
            if mine and only in (None, unit.name):
                plans.append(unit.distributed.plan(mine))
        return merge(plans) if plans else None

    def code(self, arrivals: Mapping[str, Arrival], only: str | None = None) -> PlanCode | None:
        """The plan as code: that of all views, or of one that is being filled."""
        key = plan_key(arrivals) if only is None else f"{plan_key(arrivals)} {_INTO} {only}"
        if key not in self._codes:
            plan = self.plan(arrivals, only)
            if plan is None:
                return None
            self._codes[key] = replace(plan_code(plan), key=key)
        return self._codes[key]

    def _share(self, key: str) -> Shared[PlanCode]:
        if key not in self._shared:
            code = self.code(*_parts_of(key))
            if code is None:
                raise StateError(f"the log has a batch of {key}, which no view reads")
            self._shared[key] = self.cluster.share(code)
        return self._shared[key]

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(
        self, epoch: int, local: Mapping[str, Changes], frames: Sequence[FrameChange] = ()
    ) -> tuple[Batch | None, BatchStats]:
        """Runs a batch up to, but without, its commit."""
        stats = BatchStats(epoch, tuple(sorted({*local, *(each.table.name for each in frames)})))
        spread = {each.table.name: each for each in frames}
        arrivals = self._concerning({**dict.fromkeys(local, LOCAL), **dict.fromkeys(spread, RANDOM)})
        started = time.perf_counter()
        code = self.code(arrivals)
        if code is None:
            return None, stats
        self._share(code.key)
        stats.spent("plan", started)
        report = tuple(name for name, unit in self._watched.items() if unit.reading is Reading.PARTITIONS)
        kept = [self.kept[table] for table in arrivals if table in self.kept]
        checks = tuple(check for table in kept for check in checks_of(table))
        batch = self._under_way = Batch(
            self.cluster, self.checkpoint, self._node, code, self.context, stats, report, checks
        )
        batch.run(
            {table: changes for table, changes in local.items() if table in arrivals},
            {name: (self._mapper(each, code), each.frame) for name, each in spread.items() if name in arrivals},
        )
        for name, unit in self._watched.items():
            if unit.reading is Reading.DRIVER:
                batch.changes[name] = self._node.result_change(name)
        return batch, stats

    def fill(self, name: str, epoch: int) -> tuple[Batch | None, BatchStats, dict[str, Changes]]:
        """Runs the rows that tables keep through a new view, up to the commit; tells what the driver had to hold."""
        tables = [self.kept[table] for table in sorted(self.units[name].tables) if table in self.kept]
        stats = BatchStats(epoch, tuple(table.name for table in tables))
        context = self.context()
        local: dict[str, Changes] = {}
        try:
            code = self.code({table.name: RANDOM for table in tables}, name)
        except NotMappable:
            local = {table.name: self.result(unit_name(table.name)) for table in tables}
            code = self.code(dict.fromkeys(local, LOCAL), name)
        if code is None:
            return None, stats, {}
        shared = self._share(code.key)
        batch = self._under_way = Batch(self.cluster, self.checkpoint, self._node, code, self.context, stats)
        if local:
            batch.run(local, {})
        else:
            mappers = tuple(MapChanges(context, shared, table, 1, False, self.partitions) for table in tables)
            task = MapKept(context, mappers)
            batch.run({}, {}, lambda: (piece for part in self._ask(task, f"fill {name}") for piece in part))
        return batch, stats, local

    def _ask(self, task: Callable[[int, None], Any], what: str) -> list[Any]:
        """What every partition answers."""
        return [_good(answer) for answer in self.cluster.run(task, [None] * self.partitions, what)]

    def can_map(self, tables: Iterable[str], local: Iterable[str]) -> bool:
        """Changes of these tables may stay where they are."""
        arrivals: dict[str, Arrival] = {**dict.fromkeys(local, LOCAL), **dict.fromkeys(tables, RANDOM)}
        try:
            self.code(self._concerning(arrivals))
        except NotMappable:
            return False
        return True

    def _concerning(self, arrivals: Mapping[str, Arrival]) -> dict[str, Arrival]:
        """Those of the tables that some view reads."""
        read = {table for unit in self.units.values() for table in unit.tables}
        return {table: arrival for table, arrival in arrivals.items() if table in read}

    def _mapper(self, change: FrameChange, code: PlanCode) -> MapChanges:
        return MapChanges(
            self.context(), self._share(code.key), change.table, change.sign, change.encoded, self.partitions
        )

    def commit(
        self,
        batch: Batch | None,
        stats: BatchStats,
        local: Mapping[str, Changes],
        batches: Mapping[str, Ranges] | None,
        declared: Sequence[Record] = (),
    ) -> None:
        """Makes a batch part of the state, and with it what was declared."""
        started = time.perf_counter()
        payload = write_step(StepHead("", "", -1, True), {}) if batch is None else self._driver_record(batch, local)
        stats.log_bytes = self.checkpoint.commit(*declared, Record(DRIVER, stats.epoch, payload), batches=batches)
        self._under_way = None
        stats.spent("commit", started)
        self.batches.append(stats)
        if stats.state_rows > GENERATE_FROM_ROWS and not self._is_large:
            self._is_large, self._layout = True, None

    def abandon(self) -> None:
        """Takes back what was done of a batch that will not be committed."""
        if self._under_way is not None and self._under_way.begun:
            self._node.rollback()
        self._under_way = None
        self.checkpoint.abandon()

    def _driver_record(self, batch: Batch, local: Mapping[str, Changes]) -> bytes:
        pieces: dict[tuple[str, int], list[Any]] = {}
        if self._node_names:
            pieces = {(target, EVERYWHERE): blobs for target, blobs in batch.received.items()}
            for table, changes in local.items():
                if table in batch.code.tables:
                    pieces[f"Δ{table}", EVERYWHERE] = [_change_bytes(changes)]
        return write_step(StepHead(batch.token, batch.code.key, -1, True), pieces)

    def replay(self, record: Record) -> None:
        """Runs the driver's part of a committed batch again."""
        head = read_head(record.payload)
        if not head.plan or not self._node_names:
            return
        arrivals, only = _parts_of(head.plan)
        code = self.code(arrivals, only)
        if code is None:
            raise StateError(f"the log has a batch of {head.plan}, which no view reads")
        received = read_step(record.payload, EVERYWHERE, "the log")
        local: dict[str, Changes] = {
            table: _change_of(received.get(f"Δ{table}", [])) for table, arrival in arrivals.items() if arrival == LOCAL
        }
        replay_driver(self._node, code, received, local)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self, facts: object) -> None:
        """Writes everything to the checkpoint directory, so that no log is needed."""

        def write(writer: SnapshotWriter) -> tuple[Any, list[str]]:
            names = [name for name in self._local_views() if self._node.contents(name)]
            for name in names:
                writer.table(name, bytes_table(self._node.contents(name)))
            return facts, names

        def partitions(folder: str) -> list[tuple[int, int]]:
            return self._ask(WriteSnapshot(self.context(), folder), "snapshot")

        self.checkpoint.snapshot(write, partitions)

    def restore(self, driver: Mapping[str, Any]) -> None:
        """The driver's views as a snapshot has them."""
        for name, table in driver.items():
            if name in self._node_names:
                self._node.restore(name, table_bytes(table))

    # -- results ----------------------------------------------------------------------------------------------------

    def result(self, name: str) -> Changes:
        """The rows of a query with their multiplicities."""
        unit = self.units[name]
        if unit.reading is Reading.DRIVER:
            return self._node.result(unit.program)
        if unit.reading is Reading.PARTITIONS:
            if name not in self._programs:
                self._programs[name] = self.cluster.share(unit.program)
            task = ReadResult(self.context(), self._programs[name])
            return _sum(self._ask(task, f"read {name}"))
        return self._gathered(unit).result(unit.program)

    def _gathered(self, unit: Unit) -> ReferenceNode:
        """The views that a query reads, in one place."""
        wanted = {name: unit.program.view(name) for name in views_of(unit.program)}
        node = ReferenceNode(wanted)
        homes = unit.distributed.homes
        remote = tuple(name for name in wanted if homes[name] != LOCAL)
        found = self._ask(ReadViews(self.context(), remote), f"read {unit.name}")
        for i, name in enumerate(remote):
            parts = found[:1] if homes[name] == REPLICATED else found
            rows = [row for part in parts for row in decode(wanted[name], part[i])]
            node.restore(name, encode(wanted[name], rows))
        for name in wanted.keys() - set(remote):
            node.restore(name, self._node.contents(name))
        return node

    def watch(self, name: str) -> bool:
        """From now on batches tell what they do to the rows of a query, if they can."""
        unit = self.units[name]
        if unit.reading is Reading.GATHERED:
            return False
        if name not in self._watched:
            self._watched[name] = unit
            self._layout = None
            if unit.reading is Reading.DRIVER:
                self._node.watch(unit.program)
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


def _parts_of(key: str) -> tuple[dict[str, Arrival], str | None]:
    """The changes that a plan is for, and the view that is filled if it is for no other."""
    changes, _, only = key.partition(f" {_INTO} ")
    pairs = (part.rsplit(" ", 1) for part in changes.split(", "))
    return {table: Local() if arrival == str(LOCAL) else Random() for table, arrival in pairs}, only or None


def _change_bytes(changes: Changes) -> bytes:
    from viewlet.runtime.durable.rows import to_arrow

    width = len(next(iter(changes))) if changes else 0
    return table_bytes(to_arrow(((row, (weight,)) for row, weight in changes.items()), width, 1))


def _change_of(blobs: Sequence[Any]) -> Changes:
    from viewlet.runtime.durable.rows import from_arrow

    found: Changes = {}
    for blob in blobs:
        table = bytes_table(blob)
        found.update({row: weight for row, (weight,) in from_arrow(table, table.num_columns - 1)})
    return found


def has_code(distributed: DistributedProgram) -> bool:
    """Whether generated code can run the program; looked at once, for a batch of all tables."""
    from viewlet.codegen.blocks import write_blocks
    from viewlet.codegen.scalars import NotCompilable
    from viewlet.spark.run.generated import block_plan

    tables = [trigger.table for trigger in distributed.program.triggers]
    try:
        code = plan_code(distributed.plan(dict.fromkeys(tables, LOCAL)))
        write_blocks(distributed.program.name, distributed.program.views, [block_plan(code)])
    except NotCompilable:
        return False
    return True
