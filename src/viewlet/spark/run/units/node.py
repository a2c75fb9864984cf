"""A kernel runs statements on the state of one place: a partition, or the driver.

Everything that enters or leaves it is bytes (see `wire`), so that a kernel of generated code may hold its state as it
likes. `ReferenceNode` is the definition: dictionaries and the evaluator.

A batch begins with empty temporaries and ends when the next one begins, or when it is rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

from viewlet.changes import Change, Changes, ColumnChange, RowChange
from viewlet.errors import InternalError
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.result_location import views_of
from viewlet.spark.run.exchange.wire import bytes_table, decode, encode, has_parts, table_bytes
from viewlet.spark.run.units.plan_code import DriverBlock, PlanCode, Receipt
from viewlet.spark.run.units.reference_result import ComparedResult, ReferenceResult
from viewlet.spark.run.units.unit_result import OWN, ResultCode
from viewlet.triggers.executor import Executor
from viewlet.triggers.program import Program, Statement, ViewDefinition
from viewlet.triggers.store import MapStore, Payload
from viewlet.types import Row, Table

Blob = bytes | memoryview
REPLACED = ":="
"""Before the name of a view in a record: what follows is all that the view held."""
Definitions = Mapping[str, ViewDefinition]


class Node(Protocol):
    """The protocol of kernels: the state of one place, and the operations on it."""

    def compile_all(self, plan: PlanCode) -> None:
        """Compiles what a plan runs anywhere, if it is compiled at all."""

    def begin(self, code: PlanCode) -> None:
        """Begins a batch; the previous one can no longer be rolled back."""

    def go_on(self, code: PlanCode) -> None:
        """Continues a batch that this or another node has begun."""

    def rollback(self) -> bool:
        """Rolls back the changes since `begin`, if it can."""

    def columns_read(self, table: str) -> frozenset[int] | None:
        """The columns of a table's changes that statements read, if it takes columns instead of rows."""

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        """A change given as an Arrow table, which has the columns that are read; None if rows are wanted."""

    def change(self, table: str, change: Change) -> None:
        """The change of a table that statements may read, until the next `begin`."""

    def record(self) -> dict[str, list[bytes]]:
        """What it takes to do again what the batch has done, for `redo`: what came in, or what became of the views.

        Entries named `:=view` are all that a view held afterwards, those named after a view what was added to it.
        """

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        """Does again what another node has done, a node of either kernel."""

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        """Fills a temporary with the sum of what was sent."""

    def run(self, statements: Iterable[Statement]) -> None: ...

    def contents(self, name: str) -> bytes:
        """A view or a temporary."""

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        """A view or a temporary by the partitions that some of its keys name; empty parts are left out."""

    def restore(self, name: str, blob: Blob) -> None:
        """Puts contents in place of those of a view; those that have parts are added up."""

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        """A key of a view whose count the batch has made negative, or larger than it may be; None if there is none."""

    def sizes(self) -> Mapping[str, int]:
        """How many rows there are in each view."""

    def bytes(self) -> int:
        """What the views take, as far as that is known."""


class NodeResult(Protocol):
    """The rows of a query, computed from what a kernel has."""

    def result(self) -> Changes:
        """The rows; with ORDER BY and LIMIT, those that can be among the first."""

    def watch(self) -> None:
        """From now on `result_change` is asked for after every batch."""

    def result_change(self) -> Changes:
        """What the batch has done so far to the rows."""


@runtime_checkable
class ResultNode(Node, Protocol):
    """A kernel that computes the rows of a unit's view from what is here."""

    def result_of(self, other: ResultCode | None = None) -> NodeResult:
        """The result of the unit, or another one over its views."""

    def keep_results(self, digests: Collection[str]) -> None:
        """Forgets the results but these, which nobody watches any more."""


@runtime_checkable
class ProgramNode(ResultNode, Protocol):
    """A kernel of a trigger program."""

    def along_with(self, contents: Mapping[str, Blob]) -> AbstractContextManager[None]:
        """For a while has views that live at the driver too, so that rows can be computed that depend on them."""

    def compared_with(
        self, now: Mapping[str, Blob], before: Mapping[str, Blob], has_run: bool
    ) -> AbstractContextManager[None]:
        """Like `along_with`, to tell how such rows have changed; `before` the batch some of these views were different.

        Unless the batch `has_run` here, the views of this place are as they were.
        """


@contextmanager
def informed(node: Node, sent: Mapping[str, Blob]) -> Iterator[None]:
    """For a while a node has views that live at the driver, if there are any."""
    if not sent:
        yield
        return
    if not isinstance(node, ProgramNode):
        raise InternalError(f"a {type(node).__name__} has no views at the driver")
    with node.along_with(sent):
        yield


def compared_with(
    node: Node, now: Mapping[str, Blob], before: Mapping[str, Blob], has_run: bool
) -> AbstractContextManager[None]:
    """For a while a node has views that live at the driver, to tell how rows have changed that depend on them."""
    if not isinstance(node, ProgramNode):
        raise InternalError(f"a {type(node).__name__} has no views at the driver")
    return node.compared_with(now, before, has_run)


class SharedNode(Node, Protocol):
    """A kernel whose views are arrays in files that several processes use, one at a time.

    A batch that one process has begun can be finished by another, or rolled back with what `progress` returned.
    """

    def progress(self, before: str | None) -> bytes:
        """What the batch has done so far, for the process that continues it; `before` is the version before it.

        Without such a version the batch cannot be rolled back.
        """

    def attach_again(self) -> None:
        """Another process has changed the arrays; `take_over` is to follow."""

    def take_over(self, progress: bytes) -> str | None:
        """Continues from what the last process told of its progress; returns the version before the batch."""


def with_result(node: Node, other: ResultCode | None = None) -> NodeResult:
    """The result of a unit whose rows are read where its state is, or another one over its views."""
    if not isinstance(node, ResultNode):
        raise InternalError(f"a {type(node).__name__} has no rows of its own")
    return node.result_of(other)


class ReferenceNode:
    """Views as dictionaries, on the same executor as the interpreter; `program` has the query whose rows are read."""

    def __init__(self, views: Definitions, program: Program | None = None) -> None:
        self._program = program
        self._executor = Executor(views.values())
        self._views = self._executor.views
        self._received: dict[str, Sequence[Blob]] = {}
        self._results: dict[str, ReferenceResult | ComparedResult] = {}
        """Those that have been asked for, by their digests."""
        self._told: dict[str, MapStore] = {}
        """Views that live at the driver, while rows are read."""
        self._told_before: dict[str, MapStore] = {}
        """Those of them that the batch has changed, as they were, while rows are compared."""

    def compile_all(self, plan: PlanCode) -> None:
        pass

    def columns_read(self, table: str) -> frozenset[int] | None:
        return None

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        return None

    def begin(self, code: PlanCode) -> None:
        log = self._executor.log
        log.commit()
        for each in self._results.values():
            each.catch_up()
        for store in self._views.values():
            store.touched.clear()
        log.begin()
        self._executor.begin(code.tables, code.temporaries)
        self._received = {}

    def go_on(self, code: PlanCode) -> None:
        pass

    def rollback(self) -> bool:
        self._executor.log.rollback()
        return True

    def change(self, table: str, change: Change) -> None:
        self._executor.deltas[table] = MapStore.of_rows(change.rows())

    def record(self) -> dict[str, list[bytes]]:
        """All that came in: the statements are run again."""
        found = {name: list(map(bytes, blobs)) for name, blobs in self._received.items()}
        for table, delta in self._executor.deltas.items():
            rows = list(delta.items())
            found[_change_entry(table)] = [table_bytes(to_arrow(rows, len(rows[0][0]), 1))] if rows else []
        return found

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        self.begin(plan)
        if tells_effects(record, self._views):
            self._redo_effects(record)
            return
        for table in plan.tables:
            for blob in record.get(_change_entry(table), []):
                found = bytes_table(blob)
                rows = from_arrow(found, found.num_columns - 1)
                self.change(table, RowChange({row: weight for row, (weight,) in rows}))
        for block in plan.blocks:
            for step in block.steps if isinstance(block, DriverBlock) else ():
                if isinstance(step, Statement):
                    self.run([step])
                elif isinstance(step, Receipt):
                    self.put(step.target, record.get(step.target, []))

    def _redo_effects(self, record: Mapping[str, Sequence[Blob]]) -> None:
        """A count that is zero on the way to the sum of all that was added takes no sums with it."""
        for name, blobs in record.items():
            if name.startswith(REPLACED):
                self.restore(name.removeprefix(REPLACED), blobs[0])
                continue
            view = self._executor.definition(name)
            total = MapStore([field.name for field in view.fields], None)
            for blob in blobs:
                for key, payload in decode(view, blob):
                    total.add(key, payload)
            for key, payload in list(total.items()):
                self._views[name].add(key, payload)

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        self._received[name] = blobs
        store = self._executor.stores[name]
        for blob in blobs:
            for key, payload in decode(self._executor.definition(name), blob):
                store.add(key, payload)

    def run(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self._executor.run(statement)

    def contents(self, name: str) -> bytes:
        return encode(self._executor.definition(name), self._executor.stores[name].items())

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        parts: dict[int, list[tuple[Row, Payload]]] = {}
        for key, payload in self._executor.stores[name].items():
            parts.setdefault(partition_of((key[i] for i in positions), partitions), []).append((key, payload))
        return {number: encode(self._executor.definition(name), rows) for number, rows in parts.items()}

    def restore(self, name: str, blob: Blob) -> None:
        view = self._executor.definition(name)
        rows = decode(view, blob)
        if has_parts(blob):
            total = MapStore([field.name for field in view.fields], None)
            for key, payload in rows:
                total.add(key, payload)
            rows = list(total.items())
        self._executor.put(name, dict(rows))

    @contextmanager
    def along_with(self, contents: Mapping[str, Blob]) -> Iterator[None]:
        try:
            self._told.update(self._decoded(contents))
            yield
        finally:
            self._told.clear()

    @contextmanager
    def compared_with(self, now: Mapping[str, Blob], before: Mapping[str, Blob], has_run: bool) -> Iterator[None]:
        compared = [each for each in self._results.values() if isinstance(each, ComparedResult)]
        try:
            self._told_before.update(self._decoded(before))
            for each in compared:
                each.has_run = has_run
            with self.along_with(now):
                yield
        finally:
            self._told_before.clear()

    def _decoded(self, contents: Mapping[str, Blob]) -> dict[str, MapStore]:
        if self._program is None:
            raise InternalError("the node was made without a query")
        found = {}
        for name, blob in contents.items():
            view = self._program.view(name)
            store = found[name] = MapStore([field.name for field in view.fields], view.presence)
            store.assign(dict(decode(view, blob)))
        return found

    def result_of(self, other: ResultCode | None = None) -> ReferenceResult | ComparedResult:
        digest, program = (OWN, self._program) if other is None else (other.key.digest, other.program)
        if program is None:
            raise InternalError("the node was made without a query")
        if digest not in self._results:
            self._results[digest] = self._made(program)
        return self._results[digest]

    def _made(self, program: Program) -> ReferenceResult | ComparedResult:
        if self._views.keys() >= set(views_of(program)):
            return ReferenceResult(program, self._views, self._executor.log)
        return ComparedResult(program, self._views, self._told, self._told_before)

    def keep_results(self, digests: Collection[str]) -> None:
        self._results = {key: each for key, each in self._results.items() if key in digests}

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        store = self._views[name]
        for key in store.touched:
            count = (store.get(key) or (0,))[0]
            if count < 0 or (at_most is not None and count > at_most):
                return key, count
        return None

    def sizes(self) -> Mapping[str, int]:
        return {name: len(store) for name, store in self._views.items()}

    def bytes(self) -> int:
        return sum(len(store) * 8 * (len(store.fields) + 4) for store in self._views.values())


def tells_effects(record: Mapping[str, Sequence[Blob]], views: Iterable[str]) -> bool:
    """A record tells what became of views; otherwise it tells what came in."""
    known = set(views)
    return any(name in known or name.startswith(REPLACED) for name in record)


def _change_entry(table: str) -> str:
    """The name of a table's change in the record of a batch, which is a file."""
    return f"Δ{table}"
