"""One maintained view: its rows as users and other views see them.

The engine holds result rows over `query.output`; what is visible are the declared columns, in order, cut by LIMIT and
OFFSET. Changes are those of the visible rows: for a limited view, what its first rows gain and lose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from viewlet.changes import Changes, describe_row, rows_to_arrow
from viewlet.engine.arrow_rows import in_reading_order
from viewlet.engine.choice import Choice
from viewlet.engine.contract import CountsRows, Engine, FindsRows, ListsArrow, TellsOwnChanges, Wanted
from viewlet.engine.declaration import Declaration
from viewlet.engine.kinds import kind_of
from viewlet.engine.maintainer import Maintainer, Work
from viewlet.engine.ranking import reading_order
from viewlet.engine.rows import ResultRows, is_limited, net
from viewlet.errors import ConstraintError, UnsupportedError
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Column, Datum, Row, Table, TableKind
from viewlet.view import Callback, Snapshot

MOST_BYTES_REMEMBERED = 256 * 1024 * 1024
"""Size of the Arrow tables that are kept for the next reading."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How a view reads an engine: its rows and, where the engine can do that itself, more."""

    rows: ResultRows
    count: Callable[[], int] | None
    arrow: Callable[[], Any] | None
    rows_with: Callable[[Wanted], Mapping[Row, int] | None] | None


@dataclass(slots=True)
class _Reading:
    """What has been read of a view since its last batch."""

    version: object
    snapshot: Snapshot | None = None
    arrow: Any = None


class MaintainedView:
    """A declared view with its subscribers, and the rows that other views read; `maintainer` runs its query."""

    def __init__(self, declared: Declaration, maintainer: Maintainer, log: UndoLog) -> None:
        query = declared.query
        self.declared = declared
        self.kind = kind_of(declared)
        self.name = declared.name
        self.sources = declared.sources
        said = dict(declared.comments)
        self.columns = tuple(Column(c.name, c.var.type, comment=said.get(c.name)) for c in query.columns)
        self.subscribers: dict[object, Callback] = {}
        self.followers: dict[object, Callback] = {}
        """Subscribers to changes in the form of the engine."""
        self.store: MapStore | None = None
        self._read = _Reading(None)
        self._changed = (0, 0)
        """The latest batch whose changes of the rows are known, and how many rows it changed."""
        self._log = log
        self._visible = tuple(query.output.index(column.var) for column in query.columns)
        self._is_all_visible = self._visible == tuple(range(len(query.output)))
        self.maintainer = maintainer
        self.maintainer.join(self)

    @property
    def comment(self) -> str | None:
        """What COMMENT ON says of it."""
        return dict(self.declared.comments).get("")

    def comment_on(self, column: str, text: str | None) -> None:
        """Sets or removes a comment on a column, or without a name on the view."""
        comments = {name: said for name, said in (*self.declared.comments, (column, text)) if said is not None}
        if text is None:
            comments.pop(column, None)
        self.declared = replace(self.declared, comments=tuple(comments.items()))
        self.columns = tuple(replace(each, comment=comments.get(each.name)) for each in self.columns)

    def read(self, engine: Any) -> Reader:
        """How this view reads an engine that runs its query."""
        query = self.declared.query
        rows = ResultRows(engine, query, self._log)
        if self.is_watched:
            rows.watch()
        count = engine.count if isinstance(engine, CountsRows) and not is_limited(query) else None
        arrow = engine.arrow if isinstance(engine, ListsArrow) and not is_limited(query) else None
        rows_with = engine.rows_with if isinstance(engine, FindsRows) and not is_limited(query) else None
        return Reader(rows, count, arrow, rows_with)

    @property
    def choice(self) -> Choice:
        return self.maintainer.choice

    @property
    def engine(self) -> Any:
        return self.maintainer.engine

    @property
    def work(self) -> Work:
        return self.maintainer.work

    @property
    def sharers(self) -> list[str]:
        """The other views that its engine is for."""
        return [view.name for view in self.maintainer.views if view is not self]

    @property
    def _reader(self) -> Reader:
        return self.maintainer.reader(self)

    @property
    def table(self) -> Table:
        """The view as a source of other views."""
        parts = None if self.kind.parts is None else self.kind.parts(self.declared.definition)
        return Table(self.name, self.columns, TableKind.VIEW, parts=parts)

    @property
    def is_touched(self) -> bool:
        """The current batch has changed something that it reads."""
        return self.maintainer.is_touched

    @property
    def is_watched(self) -> bool:
        """Someone wants the changes of every batch."""
        return self.store is not None or bool(self.subscribers) or self.declared.constraint is not None

    def rows(self) -> list[tuple[Row, int]]:
        """The visible rows in reading order."""
        started = time.perf_counter()
        rows = self._reader.rows.rows()
        self.maintainer.spent += time.perf_counter() - started
        return rows if self._is_all_visible else [(self._show(row), weight) for row, weight in rows]

    @property
    def version(self) -> object:
        """Another value after every batch that may have changed the rows."""
        return self.maintainer, self.work.batches

    def snapshot(self) -> Snapshot:
        """The visible rows in reading order; the same object until a batch touches the view."""
        read = self._since_last_batch()
        if read.snapshot is None:
            read.snapshot = Snapshot(self.columns, self.rows())
        return read.snapshot

    def arrow(self) -> Any:
        """The visible rows in reading order as an Arrow table; the same one until a batch touches the view."""
        read = self._since_last_batch()
        if read.arrow is not None:
            return read.arrow
        table = self._list_arrow()
        if table.nbytes <= MOST_BYTES_REMEMBERED:
            read.arrow = table
        return table

    def arrow_with(self, values: Mapping[str, Collection[Datum]]) -> Any:
        """Like `arrow`, only rows that have one of some values in each of the columns; None if that takes as long."""
        if self._since_last_batch().arrow is not None:
            return None
        rows = self.rows_with(values)
        return None if rows is None else rows_to_arrow(self.columns, rows)

    def rows_with(self, values: Mapping[str, Collection[Datum]]) -> list[tuple[Row, int]] | None:
        """The rows that have one of some values in each of the columns; None if the engine has to read them all."""
        find = self._reader.rows_with
        if find is None:
            return None
        names = [column.name for column in self.columns]
        rows = find({self._visible[names.index(name)]: choices for name, choices in values.items()})
        if rows is None:
            return None
        return [(self._show(row), weight) for row, weight in self._reader.rows.in_order(rows)]

    def _since_last_batch(self) -> _Reading:
        if self._read.version != self.version:
            self._read = _Reading(self.version)
        return self._read

    def _list_arrow(self) -> Any:
        listed = self._reader.arrow
        if listed is None:
            return rows_to_arrow(self.columns, self.snapshot().rows)
        return in_reading_order(listed(), reading_order(self.declared.query), self._visible, self.columns)

    def count(self) -> int:
        """How many rows are visible."""
        count = self._reader.count
        return count() if count is not None else self._reader.rows.count()

    def subscribe(self, token: object, callback: Callback) -> None:
        self._follow()
        self.subscribers[token] = callback

    def follow_on(self, before: MaintainedView) -> None:
        """Takes the subscribers of a view whose place this one has."""
        self.subscribers, self.followers = before.subscribers, before.followers
        if self.subscribers:
            self._follow()
        if self.followers:
            self.engine.follow()

    def follow(self, token: object, callback: Callback) -> None:
        """Adds a subscriber to changes in the form of the engine, which need not be rows."""
        engine = self.engine
        if not isinstance(engine, TellsOwnChanges):
            hint = "subscribe to its rows, or run it in this process"
            raise UnsupportedError(f"following {self.kind.noun} on engine {engine.name!r} by factors", hint, "engine")
        engine.follow()
        self.followers[token] = callback

    def _follow(self) -> None:
        if self.kind.unfollowed:
            raise UnsupportedError(f"following the changes of {self.kind.noun}", self.kind.unfollowed, "engine")
        self._reader.rows.watch()

    def watch(self) -> MapStore:
        """Starts keeping the visible rows in a store, because another view reads them."""
        if self.store is None:
            self._follow()
            store = MapStore(log=self._log)
            for row, weight in self.rows():
                store.add(row, (weight,))
            self.store = store
        return self.store

    def check(self, changes: Changes) -> None:
        """Refuses a batch that leaves rows which break the constraint that the view stands for, if it does."""
        constraint = self.declared.constraint
        if constraint is None:
            return
        for row, weight in changes.items():
            if weight > 0:
                raise ConstraintError(f"{constraint.table}: {describe_row(self.table, row)} breaks {constraint.text}")

    # -- batches ----------------------------------------------------------------------------------------------------

    def finish(self) -> Changes:
        """Ends a batch that touched the view; returns the change of the visible rows, which `publish` shows others."""
        self._read = _Reading(None)
        told, started = self.maintainer.finish(), time.perf_counter()
        change = self._reader.rows.finish(told, self.is_watched)
        self.maintainer.spent += time.perf_counter() - started
        if self.is_watched:
            self._changed = self.work.batches + 1, len(change)
        if self._is_all_visible or not change:
            return change
        return net((self._show(row), weight) for row, weight in change.items())

    def publish(self, change: Changes) -> None:
        if self.store is not None:
            self.store.add_rows(change)

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
            "last_batch": self._last_batch(),
            "compile_seconds": choice.compile_seconds,
            "subscribers": len(self.subscribers),
            "shared_with": self.sharers,
            **engine.stats(),
        }

    def _last_batch(self) -> dict[str, object]:
        """The changed rows that the last batch gave, by source, its seconds, and the changed rows if they are known."""
        last, (batch, changed) = self.maintainer.last, self._changed
        if last is None:
            return {}
        rows = {"changed": changed} if batch == self.work.batches else {}
        return {"tuples": dict(last.rows), "seconds": last.seconds(self.work), **rows}

    def _show(self, row: Row) -> Row:
        return tuple(row[position] for position in self._visible)
