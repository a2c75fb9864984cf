"""What maintains one query, for all the views that declare it.

    view ─┐
    view ─┼─► maintainer ──► engine
    view ─┘

Views whose queries are the same but for names share a maintainer (`engine/shape.py`): a batch is applied once, and its
change of the rows is told to each of them. A view has rows, subscribers and a name of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from viewlet.changes import Change
from viewlet.engine.choice import Choice
from viewlet.engine.contract import BulkLoad, ReadsColumns, SharesViews, SkipsRows
from viewlet.engine.declaration import Declaration
from viewlet.engine.kinds import kind_of
from viewlet.engine.shape import shape_of
from viewlet.types import Row

if TYPE_CHECKING:
    from viewlet.engine.maintained_view import MaintainedView, Reader
    from viewlet.triggers.guards import Guard


@dataclass(frozen=True, slots=True)
class Work:
    """What was done: changed rows that were given, batches that had some, seconds in the triggers per table."""

    tuples: int = 0
    batches: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


class LastBatch(NamedTuple):
    """The latest batch that concerned a query: the work before it, and its changed rows by table or view."""

    before: Work
    rows: Mapping[str, int]

    def seconds(self, work: Work) -> dict[str, float]:
        """The seconds in the triggers of each table, given the work after the batch."""
        return {source: work.seconds[source] - self.before.seconds.get(source, 0.0) for source in self.rows}


@dataclass(frozen=True, slots=True)
class _Parts:
    """What changes at once when the engine does, or when a view comes or goes."""

    choice: Choice
    readers: Mapping[MaintainedView, Reader]
    columns_used: Callable[[str], tuple[int, ...] | None] | None
    sharing: SharesViews | None


class Maintainer:
    """An engine, and the views that read it; `declared` is the declaration that its plan was made of."""

    def __init__(self, declared: Declaration, choice: Choice) -> None:
        self.declared = declared
        self.kind = kind_of(declared)
        self.name = declared.name
        self.work = Work()
        self.last: LastBatch | None = None
        self.since = time.time()
        """When the engine began, in seconds of the epoch of Unix."""
        self.spent = 0.0
        """Seconds that the engine has worked, on batches and on being read."""
        self.load: BulkLoad | None = None
        """What takes the place of the engine in the next batch."""
        self._batch: Work | None = None
        """What the work will be after the batch under way, if that concerns the query."""
        self._applied: dict[str, int] = {}
        """The rows of the changes of the batch under way that have been noted, by table or view."""
        self._told: tuple[Mapping[Row, int] | None] | None = None
        """What the engine has told of the batch under way."""
        self._parts = _Parts(choice, {}, _columns_used(choice.engine), _sharing(choice.engine))

    @cached_property
    def shape(self) -> Hashable | None:
        """What other views have to have to share the engine."""
        return shape_of(self.declared)

    # -- views ------------------------------------------------------------------------------------------------------

    @property
    def views(self) -> tuple[MaintainedView, ...]:
        return tuple(self._parts.readers)

    def reader(self, view: MaintainedView) -> Reader:
        return self._parts.readers[view]

    def join(self, view: MaintainedView) -> None:
        """Another view reads the engine."""
        reader = view.read(self.choice.engine)
        self._parts = replace(self._parts, readers={**self._parts.readers, view: reader})

    def leave(self, view: MaintainedView) -> None:
        """A view is gone; may be called again."""
        readers = {known: reader for known, reader in self._parts.readers.items() if known is not view}
        self._parts = replace(self._parts, readers=readers)

    def run_on(self, choice: Choice) -> None:
        """Changes the engine, between two batches; the new one holds the same result."""
        self.spent, self.since = 0.0, time.time()
        readers = {view: view.read(choice.engine) for view in self.views}
        self._parts = _Parts(choice, readers, _columns_used(choice.engine), _sharing(choice.engine))

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
    def sharing(self) -> SharesViews | None:
        """The engine, if others may read its stored views and it may read theirs."""
        return self._parts.sharing

    @property
    def is_touched(self) -> bool:
        """The current batch has changed something that is read."""
        return self._batch is not None

    @property
    def is_watched(self) -> bool:
        """Someone wants the changes of every batch."""
        return any(view.is_watched for view in self.views)

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply(self, source: str, change: Change) -> None:
        """The change of one table or view, before its own rows change; once, whichever view asks for it."""
        if source in self._applied:
            return
        batch = self.note(source, len(change))
        started = time.perf_counter()
        (self.load or self.engine).apply(source, change)
        seconds = time.perf_counter() - started
        batch.seconds[source] += seconds
        self.spent += seconds

    def note(self, source: str, tuples: int) -> Work:
        """The batch changes something that is read; counted once."""
        batch = self._batch or self.work
        if self._batch is None or source not in self._applied:
            self._applied[source] = tuples
            seconds = dict(batch.seconds)
            seconds.setdefault(source, 0.0)
            batch = self._batch = Work(batch.tuples + tuples, self.work.batches + 1, seconds)
        return batch

    def guard(self, source: str) -> Guard | None:
        """What a row of a table or view needs to have to change anything, if that can be told."""
        engine = self.engine
        return engine.guard(source) if isinstance(engine, SkipsRows) else None

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read, if changes of it may come as columns."""
        used = self._parts.columns_used if self.load is None else self.load.columns_used
        return None if used is None else used(table)

    def finish(self) -> Mapping[Row, int] | None:
        """What the batch does to the rows; None if the engine does not know it."""
        if self._told is None:
            started = time.perf_counter()
            self._told = ((self.load or self.engine).finish(),)
            self.spent += time.perf_counter() - started
        return self._told[0]

    def commit(self) -> None:
        """The batch is permanent; to be called again if it is interrupted."""
        self.load = None
        if self._batch is None:
            return
        if self.work is not self._batch:
            self.last = LastBatch(self.work, self._applied)
            self.work = self._batch
        self.engine.commit()
        self._end()

    def rollback(self) -> None:
        """After the tables are back to what they were; to be called again if it is interrupted."""
        self.load = None
        if self._batch is not None:
            self.engine.rollback()
        self._end()

    def _end(self) -> None:
        self._applied, self._told = {}, None
        self._batch = None


def maintainers(views: Iterable[MaintainedView]) -> tuple[Maintainer, ...]:
    """What maintains some views, each once."""
    return tuple(dict.fromkeys(view.maintainer for view in views))


def _columns_used(engine: Any) -> Callable[[str], tuple[int, ...] | None] | None:
    return engine.columns_used if isinstance(engine, ReadsColumns) else None


def _sharing(engine: Any) -> SharesViews | None:
    return engine if isinstance(engine, SharesViews) else None
