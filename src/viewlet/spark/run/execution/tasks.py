"""The tasks of workers. User errors are returned as answers, so that Spark does not retry the task."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from viewlet.changes import Change, Changes, RowChange, to_changes
from viewlet.errors import InternalError, ViewletError
from viewlet.runtime.durable.rows import from_arrow, is_text
from viewlet.spark.run.exchange.change_files import Share
from viewlet.spark.run.exchange.moves import Outbox, fetch_all
from viewlet.spark.run.exchange.stage_record import DRIVER, EVERYWHERE, Delivery, Piece, SentDeliveries, UnitStage
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.spark.run.execution.change_task import ToldChange, rows_table, share_of, tell_change
from viewlet.spark.run.load.row_frame import table_rows
from viewlet.spark.run.state.partition import (
    Context,
    LoggedStep,
    files_of,
    held,
    nearest,
    read_delivery,
    remove_state,
)
from viewlet.spark.run.state.unit_state import empty_node
from viewlet.spark.run.units.inputs import SharedInputs, inputs_of
from viewlet.spark.run.units.node import Node, compared_with, informed, with_result
from viewlet.spark.run.units.partitioned_node import PartitionedNode
from viewlet.spark.run.units.plan_code import Departure, Place, WorkerBlock
from viewlet.spark.run.units.table_unit import rows_view, unit_name
from viewlet.spark.run.units.unit import SPREAD, UnitCode
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.types import Row, Table

R = TypeVar("R")

CHUNK_ROWS = 1 << 18
"""Rows of a data frame that a task holds at a time."""


@dataclass(slots=True)
class Reply:
    """The outcome of a stage in a partition."""

    pieces: list[Piece] = field(default_factory=list)
    changes: dict[ResultKey, Changes] = field(default_factory=dict)
    shares: dict[ResultKey, Share] = field(default_factory=dict)
    """Changes that are to be kept as files."""
    sizes: dict[str, tuple[Mapping[str, int], int]] = field(default_factory=dict)
    """By unit: the rows of each view, and the bytes of all."""
    seconds: float = 0.0
    has_files: bool = False
    """The machine keeps files of the state."""
    error: ViewletError | None = None

    def take(self, key: ResultKey, change: ToldChange) -> None:
        """Adds what the partition tells of a result."""
        if change.rows is not None:
            self.changes[key] = change.rows
        if change.share is not None:
            self.shares[key] = change.share


@dataclass(frozen=True, slots=True)
class RunStage:
    """Brings the units of a partition to the version before a stage, and runs it; returns changes of watched views."""

    context: Context
    token: str
    stages: tuple[UnitStage, ...]

    def __call__(self, partition: int, deliveries: SentDeliveries) -> Reply:
        files = files_of(self.context.checkpoint)
        return self.run(partition, lambda unit: fetch_all(files, deliveries.get(unit, {})))

    def run(self, partition: int, read: Callable[[str], Delivery]) -> Reply:
        """`read` tells what a unit is given."""
        started = time.perf_counter()
        reply = Reply()
        try:
            with self.context.outbox(self.token, self.context.partitions, len(self.stages)) as outbox:
                for stage in self.stages:
                    self._run(stage, partition, read(stage.unit), reply, outbox)
            reply.pieces = outbox.pieces
        except ViewletError as error:
            return Reply(error=error)
        reply.seconds = time.perf_counter() - started
        return reply

    def _run(self, stage: UnitStage, partition: int, delivery: Delivery, reply: Reply, outbox: Outbox) -> None:
        context, unit = self.context, stage.unit
        code = context.code(unit)
        watched = context.watched_of(unit)
        with held(context, unit, partition) as state:
            block = state.perform(code, stage, self.token, delivery, [context.result(key) for key in watched])
            if stage.last:
                _check(code, state.node)
                for key in watched:
                    if key not in context.compared:
                        reply.take(key, tell_change(context, key, state.node, partition))
            outbox.put(leaving(unit, state.node, block.departures, context.partitions, partition))
            reply.sizes[unit] = state.node.sizes(), state.node.bytes()
            reply.has_files |= state.has_files


@dataclass(frozen=True, slots=True)
class RunLoggedStage:
    """Like `RunStage`, for inputs that are too large to be sent with tasks: each task reads its share of the log."""

    context: Context
    step: LoggedStep

    def __call__(self, partition: int, _: object) -> Reply:
        context, step = self.context, self.step
        task = RunStage(context, step.head.token, step.head.stages)
        return task.run(partition, lambda unit: read_delivery(context.checkpoint, step, unit, partition))


def _check(code: UnitCode, node: Node) -> None:
    for check in code.checks:
        misfit = node.misfit(check.view, check.at_most)
        if misfit is not None:
            raise check.refusal(*misfit)


def leaving(unit: str, node: Node, departures: Sequence[Departure], partitions: int, partition: int) -> Iterator[Piece]:
    for each in departures:
        if each.copied and partition != 0:
            continue
        if isinstance(each.to, Place):
            contents = node.contents(each.source)
            if contents:
                yield unit, each.target, DRIVER if each.to is Place.DRIVER else EVERYWHERE, contents
        else:
            for number, contents in node.split(each.source, each.to, partitions).items():
                yield unit, each.target, number, contents


def chunks(batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow record batches as tables of a bounded number of rows; no table if there is no batch.

    A mapper may run on one after the other: the rows of a data frame may be anywhere, so what it sends for some of them
    is added to what it sends for others.
    """
    import pyarrow as pa

    held_back: list[Any] = []
    rows = 0
    for batch in batches:
        if rows and rows + batch.num_rows > CHUNK_ROWS:
            yield pa.Table.from_batches(held_back)
            held_back, rows = [], 0
        held_back.append(batch)
        rows += batch.num_rows
    if held_back:
        yield pa.Table.from_batches(held_back)


@dataclass(frozen=True, slots=True)
class MapChanges:
    """Runs the first block of units on a part of the change of a table, where that part is."""

    context: Context
    units: tuple[str, ...]
    tables: tuple[str, ...]
    """All that the batch changes."""
    table: Table
    sign: int
    encoded: bool
    token: str
    """That of the batch."""
    wanted: tuple[str, ...] | None = None
    """The columns in use, if not all."""
    takes_counts: bool = False
    """Rows that repeat may come once, with their number."""

    def __call__(self, batches: Iterable[Any], tasks: int) -> list[Piece]:
        """`batches` are Arrow record batches of one task, of which there are about so many."""
        with self.context.outbox(self.token, tasks, len(self.units)) as outbox:
            for rows in chunks(batches):
                shared = SharedInputs()
                for unit in self.units:
                    outbox.put(self.pieces(unit, partial(self._change, rows), shared))
        return outbox.pieces

    def pieces(self, unit: str, change: Callable[[Node], Change], shared: SharedInputs) -> Iterator[Piece]:
        """What leaves a unit for the change that a node is given; `shared` is what others send for the same change."""
        code = self.context.code(unit)
        plan = code.plan(SPREAD, [table for table in self.tables if table in code.tables])
        block = plan.mappers.get(self.table.name)
        if block is None:
            return
        node = _mapper(self.context, code, block)
        inputs = inputs_of(block.statements, block.departures)
        keys = {departure: known.key(type(node)) for departure, known in inputs.items()}
        if len(keys) < len(block.departures) or not shared.has_all(keys.values()):
            node.begin(plan)
            node.change(self.table.name, change(node))
            node.run(block.statements)
        for each in block.departures:
            compute = partial(leaving, unit, node, [each], self.context.partitions, 0)
            yield from shared.pieces(unit, each.target, keys[each], compute) if each in keys else compute()

    def _change(self, rows: Any, node: Node) -> Change:
        """The change that an Arrow table describes, in the form that a node takes."""
        found = node.to_columns(self.table, rows, self.sign, self.encoded)
        return RowChange(self._by_rows(rows)) if found is None else found

    def _by_rows(self, rows: Any) -> Changes:
        """The change row by row; unused columns that were not sent are NULL."""
        if self.wanted is None:
            return to_changes(self.table, rows, self.sign, self.encoded)
        columns = tuple(column for column in self.table.columns if column.name in self.wanted)
        checked = self.table.non_negative.intersection(self.wanted)
        narrow = replace(self.table, columns=columns, primary_key=(), non_negative=frozenset(checked))
        places = [self.table.column_names.index(column.name) for column in columns]
        found: Changes = {}
        for row, weight in to_changes(narrow, rows, self.sign, self.encoded).items():
            whole: list[Any] = [None] * len(self.table.columns)
            for place, value in zip(places, row, strict=True):
                whole[place] = value
            found[tuple(whole)] = weight
        return found


_mappers: dict[tuple[str, str], tuple[UnitCode, Node, dict[str, str]]] = {}
"""By checkpoint and unit: its code, a node, and in which version it has the views beside it."""


def _mapper(context: Context, code: UnitCode, block: WorkerBlock) -> Node:
    """A node for mappers, with the views beside it that are the same in all partitions."""
    key = (context.checkpoint, code.name)
    if key not in _mappers or _mappers[key][0] is not code:
        _mappers[key] = code, empty_node(code), {}
    _, node, versions = _mappers[key]
    token = context.history.token(code.name)
    missing = [name for name in block.beside if versions.get(name) != token]
    if missing:
        with held(context, code.name, nearest(context, code.name)) as state:
            for name in missing:
                node.restore(name, state.node.contents(name))
                versions[name] = token
    return node


class PartitionTask(ABC, Generic[R]):
    """A task that asks a partition for something, and answers with the error of a user if there is one."""

    __slots__ = ()

    def __call__(self, number: int, partition: int | None) -> R | ViewletError:
        """`partition` is given where it is not the number of the task."""
        try:
            return self.answer(number if partition is None else partition)
        except ViewletError as error:
            return error

    @abstractmethod
    def answer(self, partition: int) -> R: ...


@dataclass(frozen=True, slots=True)
class MapTableRows(PartitionTask[list[Piece]]):
    """Runs the first block of units on all rows that tables keep in a partition."""

    context: Context
    token: str
    mappers: tuple[MapChanges, ...]

    def answer(self, partition: int) -> list[Piece]:
        with self.context.outbox(self.token, self.context.partitions) as outbox:
            for mapper in self.mappers:
                rows, shared = self._rows(mapper.table, partition), SharedInputs()
                if rows is not None:
                    for unit in mapper.units:
                        outbox.put(mapper.pieces(unit, rows.change, shared))
        return outbox.pieces

    def _rows(self, table: Table, partition: int) -> _KeptRows | None:
        unit, view = unit_name(table.name), rows_view(table.name)
        with held(self.context, unit, partition) as state:
            blob = state.node.contents(view)
        return _KeptRows(table, blob) if blob else None


@dataclass(frozen=True)
class _KeptRows:
    """The rows that a table keeps in a partition, as a change that inserts them."""

    table: Table
    blob: bytes

    def change(self, node: Node) -> Change:
        """In the form that a node takes."""
        name = self.table.name
        found = None if node.columns_read(name) is None else node.to_columns(self.table, self._arrow, 1, True)
        return self._counted if found is None else found

    @cached_property
    def _arrow(self) -> Any:
        return table_rows(self.table, bytes_table(self.blob))

    @cached_property
    def _counted(self) -> RowChange:
        rows = from_arrow(bytes_table(self.blob), len(self.table.columns))
        return RowChange({row: count for row, (count,) in rows})


@dataclass(frozen=True, slots=True)
class RemoveState(PartitionTask[None]):
    """Removes what the machine of a partition has of a checkpoint."""

    context: Context

    def answer(self, partition: int) -> None:
        remove_state(self.context)


@dataclass(frozen=True, slots=True)
class ReadViews(PartitionTask[list[bytes]]):
    """Reads the contents of some views of a unit."""

    context: Context
    unit: str
    names: tuple[str, ...]

    def answer(self, partition: int) -> list[bytes]:
        with held(self.context, self.unit, partition) as state:
            return [state.node.contents(name) for name in self.names]


@dataclass(frozen=True, slots=True)
class ReadTableKeys(PartitionTask[Changes]):
    """Reads the rows with some primary keys that a table keeps in a partition."""

    context: Context
    table: Table
    keys: frozenset[Row]

    def answer(self, partition: int) -> Changes:
        import pyarrow as pa
        import pyarrow.compute as pc

        unit, view, names = unit_name(self.table.name), rows_view(self.table.name), self.table.column_names
        with held(self.context, unit, partition) as state:
            blob = state.node.contents(view)
        if not blob:
            return {}
        rows, places = bytes_table(blob), [names.index(name) for name in self.table.primary_key]
        first = rows.column(places[0])
        if not is_text(rows.schema.field(places[0])):
            rows = rows.filter(pc.is_in(first, pa.array(list({key[0] for key in self.keys}), first.type)))
        found = ((row, count) for row, (count,) in from_arrow(rows, len(names)))
        return {row: count for row, count in found if tuple(row[place] for place in places) in self.keys}


@dataclass(frozen=True, slots=True)
class ReadResult(PartitionTask[Changes]):
    """Reads the rows of a query that each partition can compute for its share."""

    context: Context
    key: ResultKey

    def answer(self, partition: int) -> Changes:
        with held(self.context, self.key.unit, partition) as state, informed(state.node, self.context.sent):
            return with_result(state.node, self.context.result(self.key)).result()


@dataclass(frozen=True, slots=True)
class ExplainPartition(PartitionTask[str]):
    """What the engine of a partition tells of itself, where each partition has its own."""

    context: Context
    unit: str
    stage: str

    def answer(self, partition: int) -> str:
        with held(self.context, self.unit, partition) as state:
            if not isinstance(state.node, PartitionedNode):
                raise InternalError(f"the partitions of {self.unit} have no engines of their own")
            return state.node.explain(self.stage)


@dataclass(frozen=True, slots=True)
class ReadArrow(PartitionTask[bytes]):
    """Reads the rows of a result as Arrow, with multiplicities."""

    context: Context
    key: ResultKey

    def answer(self, partition: int) -> bytes:
        return table_bytes(_rows_of(self.context, self.key, partition))


@dataclass(frozen=True, slots=True)
class CountRows(PartitionTask[int]):
    """How many rows of a query a partition has, in parts that may have to be added up."""

    context: Context
    key: ResultKey

    def answer(self, partition: int) -> int:
        table = _rows_of(self.context, self.key, partition)
        return int(table.column(table.num_columns - 1).to_numpy().sum())


@dataclass(frozen=True, slots=True)
class KeepRows(PartitionTask[Share | None]):
    """Writes all rows of a result as its changes, after a load."""

    context: Context
    key: ResultKey

    def answer(self, partition: int) -> Share | None:
        table = _rows_of(self.context, self.key, partition)
        return share_of(self.context, self.context.kept[self.key], partition, table)


@dataclass(frozen=True, slots=True)
class CompareRows(PartitionTask[ToldChange]):
    """Tells what a batch has done to rows that depend on views at the driver, which are sent with the context."""

    context: Context
    key: ResultKey
    before: Mapping[str, bytes]
    """What those of these views held before that the batch has changed."""
    has_run: bool
    """The batch has run in the partitions too."""

    def answer(self, partition: int) -> ToldChange:
        context, key = self.context, self.key
        with held(context, key.unit, partition) as state:
            with_result(state.node, context.result(key)).watch()  # another process may have run the batch
            with compared_with(state.node, context.sent, self.before, self.has_run):
                return tell_change(context, key, state.node, partition)


def _rows_of(context: Context, key: ResultKey, partition: int) -> Any:
    """The rows of a result in a partition, as an Arrow table."""
    with held(context, key.unit, partition) as state, informed(state.node, context.sent):
        return rows_table(state.node, context.code(key.unit), context.result(key))
