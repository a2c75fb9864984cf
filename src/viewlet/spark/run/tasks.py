"""What tasks do. Errors that a user can cause travel as answers, so that Spark does not try such a task again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.changes import Changes, to_changes
from viewlet.errors import ViewletError
from viewlet.runtime.durable.snapshot import SnapshotWriter
from viewlet.spark.run.code import Departure, Place, PlanCode
from viewlet.spark.run.kept import Check, rows_view
from viewlet.spark.run.kernel import Node
from viewlet.spark.run.partition import Context, Layout, Shared, borrowed, files_of, nearest, partition_folder
from viewlet.spark.run.steps import EVERYWHERE, Delivery, StepHead
from viewlet.spark.run.wire import bytes_table, decode
from viewlet.triggers.program import Program
from viewlet.types import Table

DRIVER = -2
Piece = tuple[str, int, bytes]
"""A temporary, a partition (or `EVERYWHERE`, or `DRIVER`), and contents for it."""


@dataclass(slots=True)
class Reply:
    pieces: list[Piece] = field(default_factory=list)
    changes: dict[str, Changes] = field(default_factory=dict)
    rows: int = 0
    seconds: float = 0.0
    error: ViewletError | None = None


@dataclass(frozen=True, slots=True)
class RunBlock:
    """Brings a partition to the version before a stage, and runs the stage; tells the changes of some queries."""

    context: Context
    head: StepHead
    report: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    def __call__(self, partition: int, delivery: Delivery) -> Reply:
        started = time.perf_counter()
        try:
            with borrowed(self.context, partition) as resident:
                node = resident.node
                code = self.context.plans[self.head.plan].value
                block = resident.perform(code, self.head, delivery, self.context.layout.value.watched)
                for check in self.checks:
                    misfit = node.misfit(check.view, check.at_most)
                    if misfit is not None:
                        raise check.refusal(*misfit)
                pieces = list(leaving(node, block.departures, self.context.partitions, partition))
                changes = {name: node.result_change(name) for name in self.report}
                return Reply(pieces, changes, node.size(), time.perf_counter() - started)
        except ViewletError as error:
            return Reply(error=error)


def leaving(node: Node, departures: Sequence[Departure], partitions: int, partition: int) -> Iterator[Piece]:
    for each in departures:
        if each.copied and partition != 0:
            continue
        if isinstance(each.to, Place):
            contents = node.contents(each.source)
            if contents:
                yield each.target, DRIVER if each.to is Place.DRIVER else EVERYWHERE, contents
        else:
            for number, contents in node.split(each.source, each.to, partitions).items():
                yield each.target, number, contents


@dataclass(frozen=True, slots=True)
class MapChanges:
    """Runs the first block of a plan on a part of a table's change, wherever that is."""

    context: Context
    code: Shared[PlanCode]
    table: Table
    sign: int
    encoded: bool
    partitions: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Piece]:
        """`batches` are Arrow record batches of one task."""
        import pyarrow as pa

        held = list(batches)
        if held:
            yield from self.pieces(to_changes(self.table, pa.Table.from_batches(held), self.sign, self.encoded))

    def pieces(self, changes: Changes) -> Iterator[Piece]:
        code = self.code.value
        block = code.mappers[self.table.name]
        node = _mapper(self.context.layout.value, block.beside)
        for name, contents in self._beside(block.beside).items():
            node.restore(name, contents)
        node.begin(code)
        node.change(self.table.name, changes)
        node.run(block.statements)
        yield from leaving(node, block.departures, self.partitions, 0)

    def _beside(self, names: Sequence[str]) -> dict[str, bytes]:
        """Views that are the same in all partitions, from one that is at hand."""
        if not names:
            return {}
        with borrowed(self.context, nearest(self.context)) as resident:
            return {name: resident.node.contents(name) for name in names}


_mappers: dict[tuple[str, tuple[str, ...]], Node] = {}
"""A node per layout and the views a mapper needs, for the code it has loaded."""


def _mapper(layout: Layout, beside: tuple[str, ...]) -> Node:
    if any(digest != layout.digest for digest, _ in _mappers):
        _mappers.clear()
    key = (layout.digest, beside)
    if key not in _mappers:
        _mappers[key] = layout.node({name: layout.views[name] for name in beside})
    return _mappers[key]


@dataclass(frozen=True, slots=True)
class MapKept:
    """The same for all rows that tables keep in a partition."""

    context: Context
    mappers: tuple[MapChanges, ...]

    def __call__(self, partition: int, _: object) -> list[Piece] | ViewletError:
        try:
            with borrowed(self.context, partition) as resident:
                found: list[Piece] = []
                for mapper in self.mappers:
                    view = self.context.layout.value.views[rows_view(mapper.table.name)]
                    rows = decode(view, resident.node.contents(view.name))
                    found += mapper.pieces({row: count for row, (count,) in rows})
                return found
        except ViewletError as error:
            return error


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Writes what a partition holds into a folder; tells the checksum and the bytes."""

    context: Context
    folder: str

    def __call__(self, partition: int, _: object) -> tuple[int, int] | ViewletError:
        try:
            with borrowed(self.context, partition) as resident:
                writer = SnapshotWriter(files_of(self.context.checkpoint), partition_folder(self.folder, partition))
                for name in self.context.layout.value.views:
                    contents = resident.node.contents(name)
                    if contents:
                        writer.table(name, bytes_table(contents))
                return writer.finish({}), writer.bytes
        except ViewletError as error:
            return error


@dataclass(frozen=True, slots=True)
class ReadViews:
    """The contents of some views."""

    context: Context
    names: tuple[str, ...]

    def __call__(self, partition: int, _: object) -> list[bytes] | ViewletError:
        try:
            with borrowed(self.context, partition) as resident:
                return [resident.node.contents(name) for name in self.names]
        except ViewletError as error:
            return error


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The rows of a query that every partition can tell its own share of."""

    context: Context
    program: Shared[Program]

    def __call__(self, partition: int, _: object) -> Changes | ViewletError:
        try:
            with borrowed(self.context, partition) as resident:
                return resident.node.result(self.program.value)
        except ViewletError as error:
            return error
