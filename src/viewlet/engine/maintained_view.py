"""One maintained view: the engine that runs it, and its rows as users and other views see them.

The engine holds result rows over `query.output`; what is visible are the declared columns, in order, cut by LIMIT and
OFFSET. Changes are those of the visible rows: for a limited view, what its first rows gain and lose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from viewlet.changes import Change, Changes
from viewlet.engine.choice import Choice
from viewlet.engine.contract import BulkLoad, CountsRows, Engine, ReadsColumns
from viewlet.engine.declaration import Declaration
from viewlet.engine.kinds import kind_of
from viewlet.engine.rows import ResultRows, is_limited, net
from viewlet.errors import UnsupportedError
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Column, Row, Table, TableKind
from viewlet.view import Callback


@dataclass(frozen=True, slots=True)
class Work:
    """What a view has done: changed rows it was given, batches that had some, seconds in the triggers per table."""

    tuples: int = 0
    batches: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


class MaintainedView:
    """A declared view with its engine, its subscribers, and the rows that other views read."""

    def __init__(self, declared: Declaration, choice: Choice, log: UndoLog) -> None:
        query = declared.query
        self.declared = declared
        self.kind = kind_of(declared)
        self.name = declared.name
        self.sources = declared.sources
        self.columns = tuple(Column(column.name, column.var.type) for column in query.columns)
        self.subscribers: dict[object, Callback] = {}
        self.store: MapStore | None = None
        self.work = Work()
        self.load: BulkLoad | None = None
        """What takes the place of the engine in the next batch."""
        self._batch: Work | None = None
        """What the work will be after the batch under way, if that concerns the view."""
        self._log = log
        self._visible = tuple(query.output.index(column.var) for column in query.columns)
        self._is_all_visible = self._visible == tuple(range(len(query.output)))
        self.run_on(choice)

    def run_on(self, choice: Choice) -> None:
        """Changes the engine, between two batches; the new one holds the same result."""
        engine: Any = choice.engine
        query = self.declared.query
        rows = ResultRows(engine, query, self._log)
        if self.is_watched:
            rows.watch()
        columns_used = engine.columns_used if isinstance(engine, ReadsColumns) else None
        count = engine.count if isinstance(engine, CountsRows) and not is_limited(query) else None
        self._parts = _Parts(choice, rows, columns_used, count)

    def describe(self, choice: Choice) -> None:
        """Changes what is said of the engine: its reason, or what becomes of it."""
        self._parts = replace(self._parts, choice=choice)

    @property
    def choice(self) -> Choice:
        return self._parts.choice

    @property
    def engine(self) -> Any:
        return self._parts.choice.engine

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
        rows = self._parts.rows.rows()
        return rows if self._is_all_visible else [(self._show(row), weight) for row, weight in rows]

    def count(self) -> int:
        """How many rows are visible."""
        count = self._parts.count
        return count() if count is not None else sum(weight for _, weight in self.rows())

    def subscribe(self, token: object, callback: Callback) -> None:
        self._follow()
        self.subscribers[token] = callback

    def _follow(self) -> None:
        if self.kind.unfollowed:
            raise UnsupportedError(f"following the changes of {self.kind.noun}", self.kind.unfollowed, "engine")
        self._parts.rows.watch()

    def watch(self) -> MapStore:
        """Starts keeping the visible rows in a store, because another view reads them."""
        if self.store is None:
            self._follow()
            store = MapStore(log=self._log)
            for row, weight in self.rows():
                store.add(row, (weight,))
            self.store = store
        return self.store

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(self, table: str, change: Change) -> None:
        """The change of one table, before the table's own rows change."""
        batch = self.note(table, len(change))
        started = time.perf_counter()
        (self.load or self.engine).apply(table, change)
        batch.seconds[table] += time.perf_counter() - started

    def note(self, table: str, tuples: int) -> Work:
        """The batch changes a table that the view reads."""
        batch = self._batch or self.work
        seconds = dict(batch.seconds)
        seconds.setdefault(table, 0.0)
        self._batch = Work(batch.tuples + tuples, self.work.batches + 1, seconds)
        return self._batch

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read, if changes of it may come as columns."""
        used = self._parts.columns_used if self.load is None else self.load.columns_used
        return None if used is None else used(table)

    def finish(self) -> Changes:
        """Ends a batch that touched the view; returns the change of the visible rows, which `publish` shows others."""
        change = self._parts.rows.finish((self.load or self.engine).finish(), self.is_watched)
        if self._is_all_visible or not change:
            return change
        return net((self._show(row), weight) for row, weight in change.items())

    def publish(self, change: Changes) -> None:
        if self.store is not None:
            self.store.add_rows(change)

    def commit(self) -> None:
        """The batch is permanent; to be called again if it is interrupted."""
        self.load = None
        if self._batch is None:
            return
        self.work = self._batch
        self.engine.commit()
        self._batch = None

    def rollback(self) -> None:
        """After the tables are back to what they were; to be called again if it is interrupted."""
        self.load = None
        if self._batch is not None:
            self.engine.rollback()
        self._batch = None

    def stats(self) -> dict[str, object]:
        choice, work = self.choice, self.work
        engine: Engine = choice.engine
        return {
            "rows": self.count(),
            "sources": sorted(self.sources),
            "strategy": engine.plan.strategy,
            "engine": engine.name,
            "engine_reason": choice.reason,
            "tuples": work.tuples,
            "batches": work.batches,
            "seconds": dict(work.seconds),
            "compile_seconds": choice.compile_seconds,
            "subscribers": len(self.subscribers),
            **engine.stats(),
        }

    def _show(self, row: Row) -> Row:
        return tuple(row[position] for position in self._visible)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What changes at once when a view moves to another engine."""

    choice: Choice
    rows: ResultRows
    columns_used: Callable[[str], tuple[int, ...] | None] | None
    count: Callable[[], int] | None
