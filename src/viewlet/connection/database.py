"""Tables, views and batches: the state behind a connection, without SQL and without locks.

A batch goes through in four steps:

1. *check* every change against the kept tables (absent deletes, duplicate keys, static tables);
2. *tables*, in the order of their declaration: the triggers of every view over the table, then the table itself;
3. *views*, in the order of theirs: the result's change is fed to the views over it, then becomes visible;
4. *commit*: the journal makes the batch durable, the epoch advances, and what changed is announced to subscribers.

An exception before the commit, or in the journal, rolls everything back. The commit is one assignment, of `committed`,
or in a directory the renaming of a manifest. What follows it, and a rollback, may be interrupted too: the batch stays
`pending`, and `recover` completes it before anything else is done or read. After a batch, views that have become busy
may move to the compiled engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.changes import Change, Changes, RowChange, did_you_mean, rows_to_arrow, sorted_rows
from viewlet.connection.journal import Batch, InMemory, Journal
from viewlet.engine.choice import Choice
from viewlet.engine.chooser import EngineChooser
from viewlet.engine.declaration import Declaration
from viewlet.engine.ingest import change_of, net_change
from viewlet.engine.kind import Subject
from viewlet.engine.kinds import kind_of
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.rows import net
from viewlet.errors import SchemaError, UnsupportedError
from viewlet.runtime.durable.batch_ids import BatchIds, BatchMark
from viewlet.runtime.garbage import collecting_later
from viewlet.tables import BaseTable, TableStore
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import RowStore, UndoLog
from viewlet.types import Column, Row, Table
from viewlet.view import Snapshot

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate
    from viewlet.engine.background import Task
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.triggers.statistics import Statistics

FEW_ROWS = 1_000
"""Tables with fewer rows in all are taken to be still filling up."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """One subscriber's share of a committed batch; `call` hands it over."""

    view: str
    epoch: int
    token: object
    call: partial[object]


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit replaces at once.

    `epoch` counts batches; `version` counts declarations too, so that equal versions mean equal contents; `batches` are
    those with an id.
    """

    epoch: int = 0
    version: int = 0
    batches: BatchIds = field(default_factory=BatchIds)


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch or a declaration under way: it leads to `after`, from a journal at `position`.

    `finish` and `take_back` may be called again after an exception in them.
    """

    after: Committed
    position: int
    finish: Callable[[], None]
    take_back: Callable[[], None]


@dataclass(slots=True)
class Database:
    """What is in force is `committed`; `outbox` has what subscribers are still to be told."""

    committed: Committed = field(default_factory=Committed)
    tables: dict[str, BaseTable] = field(default_factory=dict)
    views: dict[str, MaintainedView] = field(default_factory=dict)
    engine: str = "auto"
    aggregates: dict[str, Aggregate] = field(default_factory=dict)
    """Those that users have registered, by name."""
    journal: Journal = field(default_factory=InMemory)
    outbox: deque[Announcement] = field(default_factory=deque)
    _pending: Pending | None = None
    _log: UndoLog = field(default_factory=UndoLog)
    _engines: EngineChooser = field(init=False)
    _readers: dict[str, tuple[MaintainedView, ...]] = field(default_factory=dict)
    """The views that read a table or view directly, found when first asked for."""
    _reached: dict[tuple[str, ...], tuple[MaintainedView, ...]] = field(default_factory=dict)
    """The views that changes of some tables may touch, found when first asked for."""

    def __post_init__(self) -> None:
        self._engines = EngineChooser(self.engine, self._statistics, self.sources, self._log)

    @property
    def epoch(self) -> int:
        return self.committed.epoch

    @property
    def version(self) -> int:
        return self.committed.version

    @property
    def batches(self) -> BatchIds:
        return self.committed.batches

    # -- transactions -----------------------------------------------------------------------------------------------

    def _commit(
        self, work: Callable[[], None], after: Committed, finish: Callable[[], None], take_back: Callable[[], None]
    ) -> None:
        """Does some work, the journal's last, and makes `after` what is in force; on an exception takes it back."""
        self.recover()
        self._pending = Pending(after, self._position(), finish, take_back)
        try:
            work()
            self.committed = after
        finally:
            self.recover()

    def recover(self) -> None:
        """Finishes what is committed and takes back what is not, if an exception came in the middle of it."""
        pending = self._pending
        if pending is None:
            return
        if self.committed is pending.after or self._position() != pending.position:
            self.committed = pending.after
            pending.finish()
        else:
            pending.take_back()
        self._pending = None

    def _position(self) -> int:
        """Grows with every commit that outlives the process."""
        return self.journal.position()

    def _commit_declaration(self, journal: Callable[[], None], finish: Callable[[], None]) -> None:
        """A declaration is in force when the journal has it."""
        self._commit(journal, replace(self.committed, version=self.version + 1), finish, lambda: None)
        self.journal.settled()

    # -- names ------------------------------------------------------------------------------------------------------

    def schemas(self) -> dict[str, Table]:
        """Everything a query may name."""
        tables = {name: table.schema for name, table in self.tables.items()}
        return tables | {name: view.table for name, view in self.views.items()}

    def find(self, name: str) -> str | None:
        """The catalogue's spelling of a name: the exact one, or the one in lower case."""
        if not isinstance(name, str):
            raise SchemaError(f"a table or view is named by a string, not by {name!r}")
        for spelling in (name, name.lower()):
            if spelling in self.tables or spelling in self.views:
                return spelling
        return None

    def find_table(self, name: str) -> BaseTable:
        found = self.find(name)
        if found in self.views:
            raise SchemaError(f"{name!r} is a view; changes and table() are for tables")
        if found is None:
            raise SchemaError(f"there is no table {name!r}" + did_you_mean(name, self.tables))
        return self.tables[found]

    def find_view(self, name: str) -> MaintainedView:
        found = self.find(name)
        if found in self.tables:
            raise SchemaError(f"{name!r} is a table, not a view")
        if found is None:
            raise SchemaError(f"there is no view {name!r}" + did_you_mean(name, self.views))
        return self.views[found]

    def dependents(self, name: str) -> tuple[MaintainedView, ...]:
        """The views that read a table or view directly, in the order of their declaration."""
        found = self._readers.get(name)
        if found is None:
            found = tuple(view for view in self.views.values() if name in view.sources)
            self._readers[name] = found
        return found

    def _reach(self, names: tuple[str, ...]) -> tuple[MaintainedView, ...]:
        """The views that changes of some tables may touch, through other views too, in the order of declaration."""
        found = self._reached.get(names)
        if found is None:
            touched, views = set(names), list[MaintainedView]()
            for view in self.views.values():
                if not touched.isdisjoint(view.sources):
                    views.append(view)
                    touched.add(view.name)
            found = self._reached[names] = tuple(views)
        return found

    def _forget_readers(self) -> None:
        """The views are no longer the same."""
        self._readers, self._reached = {}, {}

    def register_aggregate(self, aggregate: Aggregate) -> None:
        """Makes an aggregate known to the statements that follow; one that a view uses stays as it is.

        Registering the same class again does nothing.
        """
        name, known = aggregate.name, self.aggregates.get(aggregate.name)
        if known is not None and aggregate.is_same(known):
            return
        users = [view.name for view in self.views.values() if name in view.declared.aggregates]
        if users:
            raise SchemaError(
                f"aggregate {name!r} is used by view {', '.join(map(repr, users))}: drop that first, or choose "
                "another name"
            )
        self.aggregates[name] = aggregate

    def readers(self, name: str) -> list[str]:
        """The names of the views that read a table or view directly."""
        return [view.name for view in self.dependents(name)]

    # -- declarations -----------------------------------------------------------------------------------------------

    def create_table(self, table: Table) -> None:
        self._check_free(table.name)
        made = BaseTable(table, TableStore(table, self._log, lambda: self.dictionary))
        self._commit_declaration(
            lambda: self.journal.table_created(table), lambda: self.tables.update({table.name: made})
        )

    def create_view(self, declared: Declaration, engine: str | None = None) -> None:
        """Compiles a view and fills it from the rows already there, on the connection's engine or another."""
        self._check_name(declared)
        for source in sorted(declared.sources):
            self._check_not_started(source, declared.name)
            self._check_readable(source, declared.name)
        with collecting_later(self._size(declared)):
            view = MaintainedView(declared, self.start(declared, engine), self._log)
        self._commit_declaration(lambda: self.journal.view_created(declared), lambda: self._put(view))

    def _size(self, declared: Declaration) -> int:
        return sum(len(kept) for source in declared.sources if (kept := self._kept_rows(source)) is not None)

    def start(self, declared: Declaration, engine: str | None = None) -> Choice:
        """A view filled from the rows already there, not yet part of the database."""
        return self._engines.start(declared, self.sources(declared), engine)

    def prepare(
        self,
        declared: Declaration,
        sources: Sources,
        engine: str,
        reason: str,
        statistics: Statistics,
        movable: bool = False,
    ) -> Choice:
        """A view still to be filled, its program chosen by what was known before."""
        return self._engines.prepare(declared, sources, engine, reason, statistics, movable)

    def add_view(self, declared: Declaration, choice: Choice) -> MaintainedView:
        """Makes a view that is filled part of the database."""
        view = MaintainedView(declared, choice, self._log)
        self._put(view)
        return view

    def _put(self, view: MaintainedView) -> None:
        replaced = self.views.pop(view.name, None)
        self.views[view.name] = view
        self._forget_readers()
        if replaced is not None:
            self._engines.forget(replaced)

    def plan(self, declared: Declaration) -> Any:
        """The plan of a view that need not be declared."""
        sources = self._source_schemas(declared)
        return kind_of(declared).plan(declared, sources, self._statistics(sources))

    def subject(self, declared: Declaration, plan: Any, engine: str, format: str = "text") -> Subject:
        """What `explain` is asked about."""
        tables = self._source_schemas(declared)
        return Subject(declared, plan, declared, tables, self._statistics, engine, format)

    def _source_schemas(self, declared: Declaration) -> dict[str, Table]:
        schemas = self.schemas()
        return {source: schemas[source] for source in sorted(declared.sources)}

    def sources(self, declared: Declaration) -> Sources:
        stores = {source: self._source_store(source) for source in declared.sources}
        has_past = any(self.tables[source].started for source in declared.sources & self.tables.keys())
        return Sources(self._source_schemas(declared), stores, has_past)

    def _statistics(self, sources: Mapping[str, Table]) -> Statistics:
        """Sizes of the tables a view reads, unless there are so few rows that they tell nothing of those to come."""
        from viewlet.triggers.statistics import UNKNOWN, Statistics

        kept = {name: store for name in sources if (store := self._kept_rows(name)) is not None}
        if sum(map(len, kept.values())) < FEW_ROWS:
            return UNKNOWN
        return Statistics({name: store.size(len(sources[name].columns)) for name, store in kept.items()})

    def _kept_rows(self, name: str) -> RowStore | None:
        """The rows of a table or view, if someone keeps them."""
        if name in self.views:
            return self.views[name].store
        return self.tables[name].store if self.tables[name].kept else None

    def drop_table(self, name: str) -> None:
        self._check_unused(name, "drop table")
        self._commit_declaration(lambda: self.journal.dropped(name), lambda: self._forget_table(name))

    def drop_view(self, name: str) -> None:
        self._check_unused(name, "drop view")
        self._commit_declaration(lambda: self.journal.dropped(name), lambda: self._forget_view(name))

    def _forget_table(self, name: str) -> None:
        self.tables.pop(name, None)

    def _forget_view(self, name: str) -> None:
        view = self.views.pop(name, None)
        self._forget_readers()
        if view is not None:
            self._engines.forget(view)

    def _check_name(self, declared: Declaration) -> None:
        """A view may have its name, and does not read itself."""
        if declared.replaces and declared.name in self.views:
            self._check_unused(declared.name, "replace view")
        else:
            self._check_free(declared.name)
        if declared.name in declared.sources:
            raise SchemaError(f"view {declared.name!r} cannot read itself")

    def _check_free(self, name: str) -> None:
        if name in self.tables or name in self.views:
            raise SchemaError(f"there is already a {'table' if name in self.tables else 'view'} {name!r}")

    def _check_unused(self, name: str, action: str) -> None:
        users = self.readers(name)
        if users:
            raise SchemaError(f"cannot {action} {name!r}: view {', '.join(map(repr, users))} reads it; drop that first")

    def _check_not_started(self, source: str, view: str) -> None:
        table = self.tables.get(source)
        if table is not None and table.started:
            raise SchemaError(
                f"stream {source!r} has already received rows, and streams do not keep them: "
                f"declare view {view!r} before the first batch, or make {source!r} a TABLE"
            )

    def _check_readable(self, source: str, view: str) -> None:
        if source in self.views and not self.views[source].kind.feeds_views:
            hint = f"read {source!r} with SELECT or its handle; let view {view!r} read the tables under it"
            raise UnsupportedError(f"a view over {source!r}, {self.views[source].kind.noun}", hint, "engine")

    def _source_store(self, name: str) -> RowStore:
        return self.tables[name].store if name in self.tables else self.views[name].watch()

    # -- reading ----------------------------------------------------------------------------------------------------

    def columns(self, name: str) -> tuple[Column, ...]:
        return self.views[name].columns if name in self.views else self.find_table(name).schema.columns

    def stats(self, name: str) -> dict[str, object]:
        if name in self.views:
            return self.views[name].stats()
        table = self.find_table(name)
        return {"kind": table.schema.kind.value, "rows": table.store.total if table.kept else None}

    def snapshot(self, name: str) -> Snapshot:
        """The rows of a kept table or of a view."""
        if name in self.views:
            view = self.views[name]
            return Snapshot(view.columns, view.rows())
        table = self._find_kept(name)
        return Snapshot(table.schema.columns, sorted_rows(table.store.change().rows()))

    def arrow(self, name: str) -> Any:
        """The rows of a kept table or of a view as Arrow, in reading order."""
        return self.snapshot(name).to_arrow() if name in self.views else self._find_kept(name).store.arrow()

    def count(self, name: str) -> int:
        """How many rows a kept table or a view has."""
        return self.views[name].count() if name in self.views else self._find_kept(name).store.total

    def version_of(self, name: str) -> object:
        """Something that is another one whenever the rows of a table or view may have changed."""
        view = self.views.get(name)
        return self.version if view is None else (view, view.work.batches)

    def rows_with_keys(self, name: str, keys: Sequence[Row]) -> Changes | None:
        """The rows of a kept table with these primary keys, if they can be found without reading all rows."""
        return self._find_kept(name).store.with_keys(keys)

    def _find_kept(self, name: str) -> BaseTable:
        table = self.find_table(name)
        if not table.kept:
            raise unreadable_stream(name)
        return table

    # -- batches ----------------------------------------------------------------------------------------------------

    def change_of(self, table: Table, data: object, sign: int, encoded: bool) -> Change:
        """What the user hands in for a table as a change, times `sign`, or times what it says when `encoded`."""
        read = self.tables[table.name].read(data, sign)
        return change_of(self, table, data, sign, encoded) if read is None else RowChange(read)

    def net_change(self, table: Table, signed: Sequence[tuple[object, int]]) -> Change:
        """Several parts of the user's data with their signs as one change."""
        read = [self.tables[table.name].read(data, sign) for data, sign in signed]
        if all(part is not None for part in read):
            return RowChange(net(item for part in read if part is not None for item in part.items()))
        return net_change(self, table, signed)

    def columns_wanted(self, name: str, rows: int) -> frozenset[int] | None:
        """Which columns of a change with so many rows are read, if it may come as columns: all views run compiled.

        A table that keeps its rows wants all columns.
        """
        table, used = self.tables[name], set[int]()
        for view in self.dependents(name):
            columns = view.columns_used(name)
            if columns is None:
                return None
            used.update(columns)
        if table.kept:
            return frozenset(range(len(table.schema.columns))) if table.store.takes_columns(rows) else None
        return frozenset(used) if self.dependents(name) else None

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Before a batch is converted, with so many rows per table: lets views move to a better engine."""
        for view in self._reach(tuple(sizes)):
            self._engines.expect(view, sum(sizes.get(source, 0) for source in view.sources))

    def compilations(self) -> list[Task[Choice]]:
        """What is being compiled in the background."""
        found = [view.choice.compilation for view in self.views.values()]
        return [task for task in found if task is not None]

    def take_compiled(self) -> None:
        """Moves views to the code that has been compiled for them meanwhile."""
        for view in self.views.values():
            self._engines.move_if_ready(view)

    def close(self) -> None:
        """Ends what is under way in the background."""
        self._engines.close()

    @property
    def dictionary(self) -> StringDictionary:
        return self._engines.dictionary

    def apply(self, batch: Batch, mark: BatchMark | None = None) -> None:
        """Applies a batch as a whole or not at all; the epoch counts the batches that changed a table.

        A batch whose mark has been committed before is left alone.
        """
        if mark is not None and mark in self.batches:
            return
        names = batch if len(batch) == 1 else [name for name in self.tables if name in batch]
        changed = [(self.tables[name], batch[name]) for name in names if batch[name]]
        for table, change in changed:
            table.check(change, partial(self.readers, table.schema.name))
        if not changed:
            self._note(mark)
            return
        batches = self.batches if mark is None else self.batches.adding(mark)
        after = Committed(self.epoch + 1, self.version + 1, batches)
        reached = self._reach(tuple(table.schema.name for table, _ in changed))
        news: list[Announcement] = []

        def work() -> None:
            self._log.begin()
            for table, change in changed:
                self._change_table(table, change)
            for view in reached:
                if view.is_touched:
                    news.extend(self._announcements(view, self._change_view(view), after.epoch))
            self.journal.batch(after.epoch, {table.schema.name: change for table, change in changed}, mark)

        finish = partial(self._finish, reached, [table for table, _ in changed], iter(news))
        self._commit(work, after, finish, partial(self._take_back, reached))
        for view in reached:
            self._engines.compile_if_busy(view)
        self.journal.settled()

    def _note(self, mark: BatchMark | None) -> None:
        """A batch that changes nothing has been committed too."""
        if mark is not None:
            after = replace(self.committed, batches=self.batches.adding(mark))
            self._commit(lambda: self.journal.batch(self.epoch, {}, mark), after, lambda: None, lambda: None)

    def _finish(
        self, touched: Sequence[MaintainedView], changed: Sequence[BaseTable], news: Iterator[Announcement]
    ) -> None:
        """Forgets how to undo a batch, and queues its news; an iterator that is used up queues nothing again."""
        self._log.commit()
        for view in touched:
            view.commit()
        for table in changed:
            table.started = not table.kept
        self.outbox.extend(news)

    def _take_back(self, touched: Sequence[MaintainedView]) -> None:
        """Undoes a batch: the tables first, for views are filled from them."""
        self._log.rollback()
        for view in touched:
            view.rollback()

    def _change_table(self, table: BaseTable, change: Change) -> None:
        for view in self.dependents(table.schema.name):
            view.apply(table.schema.name, change)
        table.add(change)

    def _change_view(self, view: MaintainedView) -> Changes:
        changes = view.finish()
        if changes:
            change = RowChange(changes)
            for dependent in self.dependents(view.name):
                self._engines.expect_change(dependent, len(changes))
                dependent.apply(view.name, change)
            view.publish(changes)
        return changes

    @staticmethod
    def _announcements(view: MaintainedView, changes: Changes, epoch: int) -> list[Announcement]:
        if not changes or not view.subscribers:
            return []
        arrow = rows_to_arrow(view.columns, sorted_rows(changes), with_multiplicity=True)
        return [
            Announcement(view.name, epoch, token, partial(callback, epoch, arrow))
            for token, callback in view.subscribers.items()
        ]


def unreadable_stream(name: str) -> SchemaError:
    return SchemaError(f"{name!r} is a stream, and streams do not keep their rows; read a view over it instead")
