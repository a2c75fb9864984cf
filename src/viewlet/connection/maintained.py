"""One maintained view: the engine that runs it, and its rows as users and other views see them.

The engine holds result rows over `query.output`; what is visible are the declared columns, in order, cut by LIMIT and
OFFSET. Changes are those of the visible rows: for a limited view, what its first rows gain and lose.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from viewlet.algebra.query import Query
from viewlet.algebra.ring_query import RingQuery
from viewlet.changes import Change, Changes
from viewlet.connection.reading import EagerRows, LazyRows, net
from viewlet.connection.tree_engine import TreeEngine
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Column, Row, Table, TableKind
from viewlet.view import Callback

if TYPE_CHECKING:
    from viewlet.connection.background import Task
    from viewlet.connection.bulk_load import BulkLoad
    from viewlet.connection.compiled import CompiledView


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a CREATE VIEW asks for; `sql` is its query and `statement` the whole, as written.

    `partition_by` are columns to spread it by; one process has nothing to spread. A view over a ring
    has `ring`; its query then says only what its rows look like.
    """

    name: str
    query: Query
    sources: frozenset[str]
    sql: str
    strategy: str = "auto"
    replaces: bool = False
    statement: str = ""
    partition_by: tuple[str, ...] = ()
    ring: RingQuery | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A program on an engine that is filled and ready, and why it is this engine."""

    program: Program
    engine: Interpreter | CompiledView | TreeEngine
    reason: str
    compile_seconds: float = 0.0
    may_change: bool = False  # on the interpreter only until there is enough to do
    statistics: Statistics = UNKNOWN  # what the program was chosen by
    compilation: Task[Running] | None = None  # under way in the background

    def that_may_change(self, may_change: bool) -> Running:
        return replace(self, may_change=may_change)

    @property
    def compiled(self) -> CompiledView | None:
        return None if isinstance(self.engine, Interpreter | TreeEngine) else self.engine

    @property
    def tree(self) -> TreeEngine | None:
        """The view tree, if the view is one over a ring."""
        return self.engine if isinstance(self.engine, TreeEngine) else None

    @property
    def engine_name(self) -> str:
        if isinstance(self.engine, TreeEngine):
            return self.engine.engine_name
        return "interpreter" if self.compiled is None else "compiled"

    def own_stage(self, stage: str, format: str) -> str | None:
        """A stage that only this kind of engine has, for `explain`."""
        return None


@dataclass(frozen=True, slots=True)
class Work:
    """What a view has done: changed rows it was given, batches that had some, seconds in the triggers per table."""

    tuples: int = 0
    batches: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def after(self, table: str, tuples: int, seconds: float) -> Work:
        """The same with the triggers of one table."""
        spent = {**self.seconds, table: self.seconds.get(table, 0.0) + seconds}
        return Work(self.tuples + tuples, self.batches, spent)


class MaintainedView:
    def __init__(self, declared: Declaration, running: Running, log: UndoLog) -> None:
        query = declared.query
        self.declared = declared
        self.name = declared.name
        self.query = query
        self.sources = declared.sources
        self.columns = tuple(Column(column.name, column.var.type) for column in query.columns)
        self.subscribers: dict[object, Callback] = {}
        self.store: MapStore | None = None
        self.work = Work()
        self.load: BulkLoad | None = None
        """What to do in the next batch instead of running triggers."""
        self._batch: Work | None = None
        """What the work will be after the batch under way, if that concerns the view."""
        self._log = log
        self._visible = [query.output.index(column.var) for column in query.columns]
        self.run_on(running)

    def run_on(self, running: Running) -> None:
        """Changes the engine, between two batches; the new one holds the same result."""
        engine = running.engine
        rows = (
            EagerRows(engine, self.query, self._log)
            if isinstance(engine, Interpreter)
            else LazyRows(engine, self.query, self._log)
        )
        if self.is_watched:
            rows.watch()
        self._current = running, rows

    def describe(self, running: Running) -> None:
        """Changes what is said of the engine: its reason, or what becomes of it."""
        self._current = running, self._rows

    @property
    def running(self) -> Running:
        return self._current[0]

    @property
    def _rows(self) -> EagerRows | LazyRows:
        return self._current[1]

    @property
    def program(self) -> Program:
        return self.running.program

    @property
    def table(self) -> Table:
        """The view as a source of other views."""
        return Table(self.name, self.columns, TableKind.VIEW)

    @property
    def is_touched(self) -> bool:
        """The current batch has changed something that it reads."""
        return self._batch is not None

    @property
    def is_watched(self) -> bool:
        """Someone wants the changes of every batch."""
        return self.store is not None or bool(self.subscribers)

    def rows(self) -> list[tuple[Row, int]]:
        """The visible rows in reading order."""
        return [(self._show(row), weight) for row, weight in self._rows.rows()]

    def count(self) -> int:
        """How many rows are visible."""
        tree = self.running.tree
        return sum(weight for _, weight in self.rows()) if tree is None else tree.count()

    def subscribe(self, token: object, callback: Callback) -> None:
        self._rows.watch()
        self.subscribers[token] = callback

    def watch(self) -> MapStore:
        """Starts keeping the visible rows in a store, because another view reads them."""
        if self.store is None:
            self._rows.watch()
            store = MapStore(log=self._log)
            for row, weight in self.rows():
                store.add(row, (weight,))
            self.store = store
        return self.store

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(self, table: str, change: Change) -> None:
        """Runs the triggers of one table, before the table's own store changes."""
        if self._batch is None:
            self._batch = replace(self.work, batches=self.work.batches + 1)
        started = time.perf_counter()
        if self.load is not None:
            self.load.add(table, change)
        else:
            self.running.engine.apply(table, change)
        self._batch = self._batch.after(table, len(change), time.perf_counter() - started)

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read, if changes of it may come as columns."""
        if self.load is not None:
            return self.load.columns_used(table)
        if self.running.tree is not None:
            return self.running.tree.columns_used(table)
        return None if self.running.compiled is None else self.running.compiled.columns_used(table)

    def finish(self) -> Changes:
        """Ends the batch and returns the change of the visible rows; `publish` makes it visible to other views."""
        engine = self.running.engine
        if self.load is not None and self._batch is not None and isinstance(engine, Interpreter):
            engine.replace(self.load.contents(engine))
        change = self._rows.finish(touched=self._batch is not None, wanted=self.is_watched)
        return net((self._show(row), weight) for row, weight in change.items())

    def publish(self, change: Changes) -> None:
        if self.store is not None:
            for row, weight in change.items():
                self.store.add(row, (weight,))

    def commit(self) -> None:
        """The batch is there for good; to be called again if it is interrupted."""
        self.load = None
        if self._batch is None:
            return
        self.work = self._batch
        if not isinstance(self.running.engine, Interpreter):
            self.running.engine.commit()
        self._batch = None

    def rollback(self) -> None:
        """After the tables are back to what they were; to be called again if it is interrupted."""
        self.load = None
        if self._batch is not None and not isinstance(self.running.engine, Interpreter):
            self.running.engine.rollback()
        self._batch = None

    def stats(self) -> dict[str, object]:
        running, work = self.running, self.work
        known: dict[str, object] = {
            "rows": self.count(),
            "sources": sorted(self.sources),
            "strategy": running.program.strategy,
            "engine": running.engine_name,
            "engine_reason": running.reason,
            "tuples": work.tuples,
            "batches": work.batches,
            "seconds": dict(work.seconds),
            "compile_seconds": running.compile_seconds,
            "stored": dict(running.engine.sizes()),
            "subscribers": len(self.subscribers),
        }
        if running.compiled is not None:
            known |= {"bytes": running.compiled.bytes(), "packed_bytes": running.compiled.packed_bytes()}
        elif running.tree is not None and running.engine_name == "compiled":
            known["bytes"] = running.tree.keeper.bytes()
        return known

    def _show(self, row: Row) -> Row:
        return tuple(row[position] for position in self._visible)
