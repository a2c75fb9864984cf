"""One batch: every unit runs its plan block by block, and the next worker blocks of all units share one stage."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from viewlet.changes import Change, Changes
from viewlet.spark.run.exchange.change_files import Commit, Share
from viewlet.spark.run.exchange.file_range import FileRange
from viewlet.spark.run.exchange.moves import fetch
from viewlet.spark.run.exchange.stage_record import (
    DRIVER,
    EVERYWHERE,
    Blob,
    Delivery,
    Piece,
    Sent,
    Shipment,
    StepHead,
    UnitStage,
    write_step,
)
from viewlet.spark.run.execution.change_task import ToldChange
from viewlet.spark.run.execution.cluster import Cluster
from viewlet.spark.run.execution.tasks import MapChanges, Reply, RunLoggedStage, RunStage, leaving
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.state.partition import Context
from viewlet.spark.run.units.inputs import Input, SharedInputs, inputs_of
from viewlet.spark.run.units.node import Node
from viewlet.spark.run.units.plan_code import Departure, DriverBlock, PlanCode, Receipt, WorkerBlock
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.triggers.program import Statement


@dataclass(slots=True)
class BatchStats:
    """The cost of a batch; bytes are those transferred between driver and workers."""

    epoch: int
    tables: tuple[str, ...] = ()
    jobs: int = 0
    stages: int = 0
    moved_bytes: int = 0
    log_bytes: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def spent(self, phase: str, since: float) -> float:
        """Books the time since then on a phase; returns now."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - since
        return now


@dataclass(frozen=True, slots=True)
class StateSize:
    """What a unit has at the workers: the rows of each view in all partitions, the rows in each of them, and bytes."""

    views: Mapping[str, int] = field(default_factory=dict)
    partitions: tuple[int, ...] = ()
    bytes: int = 0

    @property
    def rows(self) -> int:
        return sum(self.views.values())

    @staticmethod
    def of(parts: Sequence[tuple[Mapping[str, int], int]]) -> StateSize:
        """The total of what partitions tell: the rows of views, and bytes."""
        views: dict[str, int] = {}
        for sizes, _ in parts:
            for name, rows in sizes.items():
                views[name] = views.get(name, 0) + rows
        return StateSize(views, tuple(sum(sizes.values()) for sizes, _ in parts), sum(size for _, size in parts))


@dataclass(slots=True)
class UnitRun:
    """The execution of the plan of one unit."""

    unit: str
    plan: PlanCode
    node: Node
    """The driver's own."""
    keeps: bool
    """The driver has views of it."""
    _waiting: Delivery = field(default_factory=dict)
    _at: int = 0

    def begin(self, local: Mapping[str, Change]) -> None:
        self.node.begin(self.plan)
        for table in self.plan.tables:
            if table in local:
                self.node.change(table, local[table])

    def wait_for(self, target: str, contents: Sequence[Blob]) -> None:
        self._waiting.setdefault(target, []).extend(contents)

    def advance(
        self, route: Callable[[Iterable[Piece]], None], partitions: int, shared: SharedInputs
    ) -> UnitStage | None:
        """Runs what is due at the driver; returns the block that workers run next, if there is one."""
        while self._at < len(self.plan.blocks):
            block = self.plan.blocks[self._at]
            self._at += 1
            if isinstance(block, WorkerBlock):
                return self._stage()
            self._run_here(block, route, partitions, shared)
        return None

    @property
    def has_stages(self) -> bool:
        """Part of the plan runs at workers."""
        return any(isinstance(block, WorkerBlock) for block in self.plan.blocks)

    def _stage(self) -> UnitStage:
        number = self._at - 1
        at_workers = [i for i, block in enumerate(self.plan.blocks) if isinstance(block, WorkerBlock)]
        first, last = number == at_workers[0], number == at_workers[-1]
        return UnitStage(self.unit, self.plan.key, self.plan.tables, number, first, last)

    def _run_here(
        self, block: DriverBlock, route: Callable[[Iterable[Piece]], None], partitions: int, shared: SharedInputs
    ) -> None:
        inputs = self._inputs(block)
        put_off = {each.statement for each in inputs.values()}
        for step in block.steps:
            if isinstance(step, Statement):
                if step not in put_off:
                    self.node.run([step])
            elif isinstance(step, Receipt):
                self.node.put(step.target, self._waiting.pop(step.target, []))
            elif step in inputs:
                key = inputs[step].key(type(self.node))
                compute = partial(self._compute, inputs[step], partitions)
                route(shared.pieces(self.unit, step.target, key, compute))
            else:
                route(leaving(self.unit, self.node, [step], partitions, 0))

    def _inputs(self, block: DriverBlock) -> dict[Departure, Input]:
        others = (each for each in self.plan.blocks if isinstance(each, DriverBlock) and each is not block)
        return inputs_of(
            [step for step in block.steps if isinstance(step, Statement)],
            [step for step in block.steps if isinstance(step, Departure)],
            [step for each in others for step in each.steps if isinstance(step, Statement)],
        )

    def _compute(self, known: Input, partitions: int) -> Iterable[Piece]:
        self.node.run([known.statement])
        return leaving(self.unit, self.node, [known.departure], partitions, 0)

    def record(self) -> tuple[UnitStage, dict[tuple[str, str, int], list[Sent]]]:
        """All that it takes to run the driver's part again."""
        pieces: dict[tuple[str, str, int], list[Sent]] = {
            (self.unit, name, EVERYWHERE): list(blobs) for name, blobs in self.node.record().items()
        }
        return UnitStage(self.unit, self.plan.key, self.plan.tables, -1, True, True), pieces


@dataclass(slots=True)
class Batch:
    """A batch in progress."""

    cluster: Cluster
    checkpoint: Checkpoint
    context: Callable[[], Context]
    stats: BatchStats
    runs: dict[str, UnitRun] = field(default_factory=dict)
    loads: Mapping[str, Any] = field(default_factory=dict)
    """Units that were loaded, and from where."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    changes: dict[ResultKey, Changes] = field(default_factory=dict)
    shares: dict[ResultKey, list[Share]] = field(default_factory=dict)
    """What tasks tell of changes that are to be kept as files."""
    began: int = field(default_factory=lambda: time.time_ns() // 1000)
    begun: list[UnitRun] = field(default_factory=list)
    """The units with driver state to roll back."""
    sizes: dict[str, StateSize] = field(default_factory=dict)
    """What the units that the batch concerned have at the workers."""
    has_files: bool = False
    """Machines keep files of the state."""
    _gathered: set[str] = field(default_factory=set)
    """Files that hold something for the driver."""
    _shipped: set[str] = field(default_factory=set)
    """Files that hold something for workers."""
    _shipment: Shipment = field(default_factory=Shipment)
    _counted: set[tuple[int, Sent]] = field(default_factory=set)
    """What has been counted as moved to workers."""
    _stages: int = 0

    def run(
        self,
        local: Mapping[str, Change],
        frames: Mapping[str, tuple[MapChanges, Any]],
        kept: Callable[[], Iterable[Piece]] | None = None,
    ) -> None:
        """Applies changes that are at the driver, in data frames, or in tables; nothing is committed yet."""
        started = time.perf_counter()
        for run in self.runs.values():
            run.begin(local)
            self.begun.append(run)  # not earlier: until then its node could only roll back the batch before
        started = self.stats.spent("driver", started)
        if frames:
            self._route(self.cluster.map_frames(frames, f"{', '.join(frames)}: changes"))
            self.count_stage()
            started = self.stats.spent("changes", started)
        if kept is not None:
            self._route(kept())
            self.count_stage()
            started = self.stats.spent("changes", started)
        partitions, shared = self.context().partitions, SharedInputs()
        while True:
            found = [run.advance(self._route, partitions, shared) for run in self.runs.values()]
            stages = tuple(stage for stage in found if stage is not None)
            started = self.stats.spent("driver", started)
            if not stages:
                return
            self._run_stage(stages)
            started = self.stats.spent("workers", started)

    @property
    def commit(self) -> Commit:
        """What changes that are kept tell of the batch."""
        return Commit(self.stats.epoch, self.began, self.token)

    def _run_stage(self, stages: tuple[UnitStage, ...]) -> None:
        context = replace(self.context(), commit=self.commit)
        shipment, self._shipment = self._shipment, Shipment()
        head = StepHead(f"{self.token}.{self._stages}", stages)
        started = time.perf_counter()
        step = self.checkpoint.append(self.stats.epoch, head, write_step(head, shipment.parts))
        self.stats.spent("log", started)
        what = f"{', '.join(stage.unit for stage in stages)}: stage {self._stages + 1}"
        if shipment.inline_bytes(context.partitions) <= context.inline_bytes:
            replies = self.cluster.run(
                RunStage(context, head.token, stages), shipment.deliveries(context.partitions), what
            )
        else:
            replies = self.cluster.run(RunLoggedStage(context, step), [None] * context.partitions, what)
        self.checkpoint.add(step)
        self._stages += 1
        self.count_stage()
        self._take(replies)

    def _take(self, replies: Collection[Reply]) -> None:
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        for reply in replies:
            self._route(reply.pieces)
            for key in reply.changes.keys() | reply.shares.keys():
                self.note_change(key, ToldChange(reply.changes.get(key), reply.shares.get(key)))
        self.has_files |= any(reply.has_files for reply in replies)
        for name in {name for reply in replies for name in reply.sizes}:
            self.sizes[name] = StateSize.of([reply.sizes[name] for reply in replies])

    def note_change(self, key: ResultKey, change: ToldChange) -> None:
        """Adds what a partition tells of a result."""
        if change.rows is not None:
            total = self.changes.setdefault(key, {})
            for row, weight in change.rows.items():
                total[row] = total.get(row, 0) + weight
        if change.share is not None:
            self.shares.setdefault(key, []).append(change.share)

    def load(self, loads: Mapping[str, Any]) -> None:
        """Some units get all their contents from files."""
        self.loads = loads
        head = StepHead(f"{self.token}.load", (), loads)
        self.checkpoint.add(self.checkpoint.append(self.stats.epoch, head, write_step(head, {})))

    def _route(self, pieces: Iterable[Piece]) -> None:
        for unit, target, partition, contents in pieces:
            self.stats.moved_bytes += self._bytes_of(partition, contents)
            if isinstance(contents, FileRange):
                (self._gathered if partition == DRIVER else self._shipped).add(contents.file)
            if partition == DRIVER:
                self.runs[unit].wait_for(target, fetch(self.checkpoint.files, [contents]))
            else:
                self._shipment.add(unit, target, partition, contents)

    def _bytes_of(self, partition: int, contents: Sent) -> int:
        """How much is moved for a piece; contents that several units get are moved once."""
        if partition != DRIVER:
            if (partition, contents) in self._counted:
                return 0
            self._counted.add((partition, contents))
        return len(contents)

    @property
    def used_files(self) -> set[str]:
        """Files that nothing needs once the batch is committed: the driver has read them, and logged what it did."""
        return self._gathered - self._shipped

    def count_stage(self) -> None:
        """A job of one stage has been run."""
        self.stats.jobs += 1
        self.stats.stages += 1

    def record(self) -> bytes:
        """What the driver was given, for the log."""
        records = [run.record() for run in self.runs.values() if run.keeps]
        pieces = {place: blobs for _, each in records for place, blobs in each.items()}
        return write_step(StepHead(self.token, tuple(stage for stage, _ in records), self.loads), pieces)
