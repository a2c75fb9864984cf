"""One batch, block by block: stages at the workers, and what the driver does between them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from viewlet.changes import Changes
from viewlet.spark.run.checkpoint import Checkpoint
from viewlet.spark.run.cluster import Cluster
from viewlet.spark.run.code import Departure, DriverBlock, PlanCode, Receipt, WorkerBlock
from viewlet.spark.run.kept import Check
from viewlet.spark.run.kernel import Node
from viewlet.spark.run.partition import Context
from viewlet.spark.run.steps import Delivery, Freight, StepHead, write_step
from viewlet.spark.run.tasks import DRIVER, MapChanges, Piece, Reply, RunBlock, leaving
from viewlet.triggers.program import Statement


@dataclass(slots=True)
class BatchStats:
    """What a batch cost; bytes are those that left a place for another one."""

    epoch: int
    tables: tuple[str, ...] = ()
    jobs: int = 0
    stages: int = 0
    moved_bytes: int = 0
    log_bytes: int = 0
    state_rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def spent(self, phase: str, since: float) -> float:
        """Books the time since then on a phase; returns now."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - since
        return now


@dataclass(slots=True)
class Batch:
    """A batch under way."""

    cluster: Cluster
    checkpoint: Checkpoint
    node: Node
    code: PlanCode
    context: Callable[[], Context]
    stats: BatchStats
    report: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    changes: dict[str, Changes] = field(default_factory=dict)
    received: Delivery = field(default_factory=dict)
    begun: bool = False
    """There is something at the driver to take back."""
    _freight: Freight = field(default_factory=Freight)
    _waiting: Delivery = field(default_factory=dict)
    _stages: int = 0

    def run(
        self,
        local: Mapping[str, Changes],
        frames: Mapping[str, tuple[MapChanges, Any]],
        kept: Callable[[], Iterable[Piece]] | None = None,
    ) -> None:
        """Applies changes that are at the driver, in data frames, or in tables; nothing is committed yet."""
        self.node.begin(self.code)
        self.begun = True
        for table, changes in local.items():
            self.node.change(table, changes)
        started = time.perf_counter()
        if frames:
            self._route(self.cluster.map_frames(frames, f"{', '.join(frames)}: changes"))
            self._count_stage()
            started = self.stats.spent("changes", started)
        if kept is not None:
            self._route(kept())
            self._count_stage()
        last = max((i for i, block in enumerate(self.code.blocks) if isinstance(block, WorkerBlock)), default=-1)
        for number, block in enumerate(self.code.blocks):
            if isinstance(block, DriverBlock):
                self._run_here(block.steps)
                started = self.stats.spent("driver", started)
            else:
                self._run_stage(number, number == last)
                started = self.stats.spent("workers", started)

    def _run_here(self, steps: Iterable[Statement | Departure | Receipt]) -> None:
        for step in steps:
            if isinstance(step, Statement):
                self.node.run([step])
            elif isinstance(step, Receipt):
                blobs = self._waiting.pop(step.target, [])
                self.received[step.target] = blobs
                self.node.put(step.target, blobs)
            else:
                self._route(leaving(self.node, [step], self.context().partitions, 0))

    def _run_stage(self, number: int, last: bool) -> None:
        context = self.context()
        freight, self._freight = self._freight, Freight()
        head = StepHead(f"{self.token}.{number}", self.code.key, number, self._stages == 0)
        started = time.perf_counter()
        step = self.checkpoint.append(self.stats.epoch, head, write_step(head, freight.parts))
        self.stats.spent("log", started)
        task = RunBlock(context, head, self.report if last else (), self.checks if last else ())
        replies = self.cluster.run(task, freight.deliveries(context.partitions), f"{self.code.key}: block {number + 1}")
        self.checkpoint.add(step)
        self._stages += 1
        self._count_stage()
        self._take(replies)

    def _take(self, replies: Collection[Reply]) -> None:
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        self.stats.state_rows = sum(reply.rows for reply in replies)
        for reply in replies:
            self._route(reply.pieces)
            for name, changes in reply.changes.items():
                total = self.changes.setdefault(name, {})
                for row, weight in changes.items():
                    total[row] = total.get(row, 0) + weight

    def _route(self, pieces: Iterable[Piece]) -> None:
        for target, partition, blob in pieces:
            self.stats.moved_bytes += len(blob)
            if partition == DRIVER:
                self._waiting.setdefault(target, []).append(blob)
            else:
                self._freight.add(target, partition, blob)

    def _count_stage(self) -> None:
        self.stats.jobs += 1
        self.stats.stages += 1


def replay_driver(node: Node, code: PlanCode, received: Delivery, local: Mapping[str, Changes]) -> None:
    """Runs the driver's part of a batch again."""
    node.begin(code)
    for table, changes in local.items():
        node.change(table, changes)
    for block in code.blocks:
        if isinstance(block, DriverBlock):
            for step in block.steps:
                if isinstance(step, Statement):
                    node.run([step])
                elif isinstance(step, Receipt):
                    node.put(step.target, received.get(step.target, []))
