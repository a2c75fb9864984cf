"""A kernel runs statements on the state of one place: a partition, or the driver.

Everything that enters or leaves it is bytes (see `wire`), so that a kernel of generated code may hold its state as it
likes. `ReferenceNode` is the definition: dictionaries and the evaluator.

A batch begins with empty temporaries and ends when the next one begins, or when it is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from viewlet.algebra.evaluate import State, evaluate
from viewlet.changes import Change, Changes, ColumnChange, RowChange
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.run.code import DriverBlock, PlanCode, Receipt
from viewlet.spark.run.wire import bytes_table, decode, encode, table_bytes
from viewlet.triggers.program import Program, Statement, ViewDefinition
from viewlet.triggers.result import ResultKeeper
from viewlet.triggers.step import Step
from viewlet.triggers.store import MapStore, Payload, UndoLog
from viewlet.types import Row, Table

Blob = bytes | memoryview
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
        """What it takes to do again what the batch has done, for `redo`."""

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        """Does again what another node has done."""

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        """Fills a temporary with the sum of what was sent."""

    def run(self, statements: Iterable[Statement]) -> None: ...

    def contents(self, name: str) -> bytes:
        """A view or a temporary."""

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        """A view or a temporary by the partitions that some of its keys name; empty parts are left out."""

    def restore(self, name: str, blob: Blob) -> None:
        """Puts contents in place of those of a view."""

    def result(self, program: Program) -> Changes:
        """The rows of a query over views that are here; with ORDER BY and LIMIT, those that can be among the first."""

    def watch(self, program: Program) -> None:
        """From now on `result_change` is asked for after every batch."""

    def result_change(self, name: str) -> Changes:
        """What the batch has done so far to the rows of a watched query."""

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        """A key of a view whose count the batch has made negative, or larger than it may be; None if there is none."""

    def size(self) -> int:
        """How many rows there are in the views."""

    def bytes(self) -> int:
        """What the views take, as far as that is known."""


class ReferenceNode:
    """Views as dictionaries, statements by the evaluator."""

    def __init__(self, views: Definitions) -> None:
        self._log = UndoLog()
        self._definitions = dict(views)
        self._views = {name: _store(view, view.presence, self._log) for name, view in views.items()}
        self._stores: dict[str, MapStore] = dict(self._views)
        self._deltas: dict[str, MapStore] = {}
        self._received: dict[str, Sequence[Blob]] = {}
        self._steps: dict[Statement, Step] = {}
        self._watched: dict[str, ResultKeeper] = {}

    def compile_all(self, plan: PlanCode) -> None:
        pass

    def columns_read(self, table: str) -> frozenset[int] | None:
        return None

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        return None

    def begin(self, code: PlanCode) -> None:
        temporaries = code.temporaries
        self._log.commit()
        for keeper in self._watched.values():
            keeper.refresh()
        for store in self._views.values():
            store.touched.clear()
        self._log.begin()
        self._steps.clear()  # another plan may give the name of a temporary to another one
        self._definitions = {name: self._definitions[name] for name in self._views} | dict(temporaries)
        self._stores = self._views | {name: _store(view, None, UndoLog()) for name, view in temporaries.items()}
        self._deltas = {table: MapStore() for table in code.tables}
        self._received = {}

    def go_on(self, code: PlanCode) -> None:
        pass

    def rollback(self) -> bool:
        self._log.rollback()
        return True

    def change(self, table: str, change: Change) -> None:
        delta = self._deltas[table] = MapStore()
        for row, multiplicity in change.rows().items():
            delta.add(row, (multiplicity,))

    def record(self) -> dict[str, list[bytes]]:
        """All that came in: the statements are run again."""
        found = {name: list(map(bytes, blobs)) for name, blobs in self._received.items()}
        for table, delta in self._deltas.items():
            rows = list(delta.items())
            found[f"Δ{table}"] = [table_bytes(to_arrow(rows, len(rows[0][0]), 1))] if rows else []
        return found

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        self.begin(plan)
        for table in plan.tables:
            for blob in record.get(f"Δ{table}", []):
                found = bytes_table(blob)
                rows = from_arrow(found, found.num_columns - 1)
                self.change(table, RowChange({row: weight for row, (weight,) in rows}))
        for block in plan.blocks:
            for step in block.steps if isinstance(block, DriverBlock) else ():
                if isinstance(step, Statement):
                    self.run([step])
                elif isinstance(step, Receipt):
                    self.put(step.target, record.get(step.target, []))

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        self._received[name] = blobs
        store = self._stores[name]
        for blob in blobs:
            for key, payload in decode(self._definitions[name], blob):
                store.add(key, payload)

    def run(self, statements: Iterable[Statement]) -> None:
        state = State({}, self._deltas, self._stores)
        for statement in statements:
            if statement not in self._steps:
                self._steps[statement] = Step.of(statement, self._definitions[statement.view])
            self._steps[statement].carry_out(state, self._stores[statement.view])

    def contents(self, name: str) -> bytes:
        return encode(self._definitions[name], self._stores[name].items())

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        parts: dict[int, list[tuple[Row, Payload]]] = {}
        for key, payload in self._stores[name].items():
            parts.setdefault(partition_of((key[i] for i in positions), partitions), []).append((key, payload))
        return {number: encode(self._definitions[name], rows) for number, rows in parts.items()}

    def restore(self, name: str, blob: Blob) -> None:
        self._views[name].assign(dict(decode(self._definitions[name], blob)))

    def result(self, program: Program) -> Changes:
        found = evaluate(program.result, program.query.output, State({}, {}, self._views))
        return {row: int(number) for row, number in found.items()}  # type: ignore[arg-type]

    def watch(self, program: Program) -> None:
        if program.name not in self._watched:
            keeper = self._watched[program.name] = ResultKeeper(program, self._views, self._log)
            keeper.refresh_all()

    def result_change(self, name: str) -> Changes:
        return self._watched[name].refresh()

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        store = self._views[name]
        for key in store.touched:
            count = (store.get(key) or (0,))[0]
            if count < 0 or (at_most is not None and count > at_most):
                return key, count
        return None

    def size(self) -> int:
        return sum(map(len, self._views.values()))

    def bytes(self) -> int:
        return sum(len(store) * 8 * (len(store.fields) + 4) for store in self._views.values())


def _store(view: ViewDefinition, presence: str | None, log: UndoLog) -> MapStore:
    return MapStore([field.name for field in view.fields], presence, log)
