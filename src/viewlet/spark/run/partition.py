"""The state of a partition in the version that a task needs.

A Python process that has worked on a partition keeps what it has, but it is not the state's home: processes come and
go, and the next task of the partition may run anywhere. What counts is the history, which the driver sends with every
task: a snapshot in the checkpoint directory, and the records of the log since. A process that has some version of it
runs the stages it has missed; one that has none reads the snapshot first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar

from viewlet.errors import StateError
from viewlet.runtime.durable.files import Files, LocalFiles
from viewlet.runtime.durable.log import read_record
from viewlet.runtime.durable.snapshot import SnapshotReader
from viewlet.spark.run.code import PlanCode, WorkerBlock
from viewlet.spark.run.kernel import Node, ReferenceNode
from viewlet.spark.run.steps import Delivery, StepHead, read_step
from viewlet.spark.run.wire import table_bytes
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.types import Table

T_co = TypeVar("T_co", covariant=True)
NOTHING = "nothing"
"""The token of the empty state."""


@cache
def can_run_generated() -> bool:
    """Numba is there, or generated code runs as plain Python."""
    return os.environ.get("VIEWLET_JIT") == "0" or find_spec("numba") is not None


class Shared(Protocol[T_co]):
    """A value that every process gets once."""

    @property
    def value(self) -> T_co: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """What is kept at every worker; two layouts with the same digest are the same.

    `everywhere` are the views of all places, the driver's among them.
    """

    digest: str
    views: Mapping[str, ViewDefinition]
    watched: tuple[Program, ...] = ()
    generated: bool = False
    everywhere: Mapping[str, ViewDefinition] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)

    def node(self, views: Mapping[str, ViewDefinition]) -> Node:
        """An empty state of some views, on generated code if all programs have it and Numba is here."""
        if not self.generated or not can_run_generated():
            return ReferenceNode(views)
        from viewlet.spark.run.generated import GeneratedNode

        return GeneratedNode(views, self.everywhere, self.tables)


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A stage whose inputs are in a log."""

    head: StepHead
    log: str
    at: int


@dataclass(frozen=True, slots=True)
class History:
    """How to get to a version: from a snapshot (of every partition), or from nothing, through some stages."""

    base: str = NOTHING
    snapshot: str | None = None
    checksums: tuple[int, ...] = ()
    steps: tuple[LoggedStep, ...] = ()

    @property
    def token(self) -> str:
        """The version it leads to."""
        return self.steps[-1].head.token if self.steps else self.base

    def followed_by(self, step: LoggedStep) -> History:
        return History(self.base, self.snapshot, self.checksums, (*self.steps, step))


@dataclass(frozen=True, slots=True)
class Context:
    """What every task needs to know."""

    checkpoint: str
    partitions: int
    layout: Shared[Layout]
    plans: Mapping[str, Shared[PlanCode]]
    history: History


@dataclass(slots=True)
class Resident:
    """A partition's state in one version; `before` is the version that taking back its last batch leads to."""

    node: Node
    layout: str
    token: str
    before: str | None = None

    def perform(self, code: PlanCode, head: StepHead, delivery: Delivery, watched: Iterable[Program]) -> WorkerBlock:
        """Runs a stage; from its first stage on, a batch is watched for what it does to some queries."""
        if head.first:
            for program in watched:
                self.node.watch(program)
            self.node.begin(code)
            self.before = self.token
        block = code.blocks[head.block]
        if not isinstance(block, WorkerBlock):
            raise StateError(f"block {head.block} of a batch of {head.plan} does not run at workers")
        for target, blobs in delivery.items():
            self.node.put(target, blobs)
        self.node.run(block.statements)
        self.token = head.token
        return block

    def take_back(self) -> None:
        self.node.rollback()
        self.token, self.before = self.before or self.token, None


_residents: dict[tuple[str, int], Resident] = {}
"""What this process has; good for nothing but saving time."""


class borrowed:  # noqa: N801 - reads as a verb where it is used
    """The state of a partition in the version of a context; kept for the next task if the block ends well."""

    def __init__(self, context: Context, partition: int) -> None:
        self._context = context
        self._partition = partition
        self._resident: Resident | None = None

    def __enter__(self) -> Resident:
        key = (self._context.checkpoint, self._partition)
        self._resident = brought_up_to_date(self._context, self._partition, _residents.pop(key, None))
        return self._resident

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None and self._resident is not None:
            _residents[self._context.checkpoint, self._partition] = self._resident


def nearest(context: Context) -> int:
    """A partition that this process has worked on, if there is one."""
    here = (partition for checkpoint, partition in _residents if checkpoint == context.checkpoint)
    return next(here, 0)


def forget() -> None:
    """Gives up what this process has."""
    _residents.clear()


def brought_up_to_date(context: Context, partition: int, resident: Resident | None) -> Resident:
    layout, history = context.layout.value, context.history
    tokens = [history.base, *(step.head.token for step in history.steps)]
    if resident is not None and resident.token not in tokens and resident.before in tokens:
        resident.take_back()
    if resident is None or resident.layout != layout.digest or resident.token not in tokens:
        resident = _restored(context, partition)
    for step in history.steps[tokens.index(resident.token) :]:
        delivery = read_delivery(context.checkpoint, step, partition)
        resident.perform(context.plans[step.head.plan].value, step.head, delivery, layout.watched)
    return resident


def _restored(context: Context, partition: int) -> Resident:
    """The state as the snapshot has it."""
    layout, history = context.layout.value, context.history
    node = layout.node(layout.views)
    if history.snapshot is not None:
        folder = partition_folder(history.snapshot, partition)
        reader = SnapshotReader(files_of(context.checkpoint), folder, history.checksums[partition])
        for name in layout.views:
            if name in reader:
                node.restore(name, table_bytes(reader.table(name)))
    return Resident(node, layout.digest, history.base)


def read_delivery(checkpoint: str, step: LoggedStep, partition: int) -> Delivery:
    files = files_of(checkpoint)
    where = files.path(step.log)
    try:
        record = read_record(files.read(step.log), where, step.at)
    except FileNotFoundError as error:
        raise StateError(f"{where} is missing; restore it from a copy") from error
    except OSError as error:
        raise StateError(f"cannot read {where}: {error.strerror}") from error
    return read_step(record.payload, partition, where)


def files_of(checkpoint: str) -> Files:
    return LocalFiles(Path(checkpoint))


def partition_folder(snapshot: str, partition: int) -> str:
    return f"{snapshot}/partition-{partition:05}"
