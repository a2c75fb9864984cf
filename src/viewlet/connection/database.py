"""Tables, views and batches: the state behind a connection, without SQL and without locks.

A batch goes through in three steps:

1. *check* every change against the kept tables (absent deletes, duplicate keys, static tables);
2. *run*: the host of the database changes tables and views, and tells what that does to the rows of the views;
3. *commit*: the journal makes the batch durable, the epoch advances, and what changed is announced to subscribers.

An exception before the commit, or in the journal, rolls everything back. The commit is one assignment, of `committed`,
or in a directory the renaming of a manifest. What follows it, and a rollback, may be interrupted too: the batch stays
`pending`, and `recover` completes it before anything else is done or read. After a batch a snapshot may be written, and
views that have become busy may move to a better engine.

No error that comes after the commit is raised by the call that committed: it would be taken for a refusal, and the
batch would be applied again. It is logged. Ctrl-C is raised, with a note that the batch is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.changes import Change, Changes, RowChange, rows_to_arrow, sorted_rows
from viewlet.changes.defaults import completed
from viewlet.changes.sequences import Sequences
from viewlet.connection.announcements import Announcement, announcements
from viewlet.connection.commit_state import CommittedState, Pending
from viewlet.connection.journal import (
    DROP,
    TABLE,
    VIEW,
    InMemory,
    Journal,
    declaration_record,
    view_to_json,
)
from viewlet.connection.redeclare import replace_view
from viewlet.connection.transaction import Transaction
from viewlet.engine.catalogue_json import Json, table_to_json
from viewlet.engine.declaration import Declaration
from viewlet.engine.ingest import rows_in
from viewlet.engine.kinds import kind_of
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.maintainer import Maintainer, maintainers
from viewlet.engine.rows import net
from viewlet.errors import SchemaError
from viewlet.hosts.catalogue import Catalogue
from viewlet.hosts.contract import Batch, Host, Signed, Start
from viewlet.runtime.durable.batch_ids import BatchIds, BatchMark
from viewlet.runtime.durable.log import Record
from viewlet.tables import BaseTable
from viewlet.types import Column, Row, Table
from viewlet.view import Snapshot
from viewlet.visible import logger

if TYPE_CHECKING:
    from viewlet.engine.background import Task
    from viewlet.engine.choice import Choice


@dataclass(slots=True)
class Database:
    """Tables and views on a host. `committed` is what is in force, `outbox` what subscribers are still to be told."""

    host: Host
    committed: CommittedState = field(default_factory=CommittedState)
    journal: Journal = field(default_factory=InMemory)
    outbox: deque[Announcement] = field(default_factory=deque)
    catalogue: Catalogue = field(init=False)
    tables: dict[str, BaseTable] = field(init=False)
    views: dict[str, MaintainedView] = field(init=False)
    transaction: Transaction | None = None
    """What is held back since BEGIN."""
    sequences: Sequences = field(default_factory=Sequences)
    _pending: Pending | None = None

    def __post_init__(self) -> None:
        self.catalogue = self.host.catalogue
        self.tables, self.views = self.catalogue.tables, self.catalogue.views

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
        self, work: Callable[[], None], after: CommittedState, finish: Callable[[], None], take_back: Callable[[], None]
    ) -> None:
        """Does some work, the journal's last, and makes `after` what is in force; on an exception takes it back."""
        self.recover()
        self._pending = Pending(after, self.journal.position(), finish, take_back)
        try:
            work()
            self.committed = after
        except Exception:
            if not self._is_in_force():
                raise
            _log_after_commit(after.epoch, "the end of the commit")
        except BaseException as error:
            if self._is_in_force():
                error.add_note(f"epoch {after.epoch} is committed")
            raise
        finally:
            self._complete()

    def recover(self) -> None:
        """Finishes what is committed and takes back what is not, if an exception came in the middle of it."""
        pending = self._pending
        if pending is None:
            return
        if self._is_in_force():
            self.committed = pending.after
            pending.finish()
        else:
            pending.take_back()
        self._pending = None

    @property
    def epoch_in_force(self) -> int:
        """The epoch, also where an exception has left something that `recover` has to complete or take back."""
        return self.epoch if self._pending is None or not self._is_in_force() else self._pending.after.epoch

    def _is_in_force(self) -> bool:
        """What is pending has been committed."""
        pending = self._pending
        assert pending is not None
        return self.committed is pending.after or self.journal.position() != pending.position

    def _complete(self) -> None:
        """Recovers; what is committed may stay pending, until the next call."""
        try:
            self.recover()
        except Exception:
            if not self._is_in_force():
                raise
            _log_after_commit(self.epoch, "the next call tries again: completing it")

    def _afterwards(self, what: str, step: Callable[[], None]) -> None:
        """Something that follows a commit, and may fail without a consequence for what is committed."""
        try:
            step()
        except Exception:
            _log_after_commit(self.epoch, what)
        except BaseException as error:
            error.add_note(f"epoch {self.epoch} is committed")
            raise

    def _commit_declaration(self, work: Callable[[], None], finish: Callable[[], None]) -> None:
        """A declaration is in force when the journal has it."""
        self._commit(work, replace(self.committed, version=self.version + 1), finish, self.host.rollback)
        self._settle_declaration()

    def commit_with(
        self, work: Callable[[], None], after: CommittedState, finish: Callable[[], None], take_back: Callable[[], None]
    ) -> None:
        """A declaration with more to finish or to take back than the host does."""
        self._commit(work, after, finish, take_back)
        self._settle_declaration()

    def _settle_declaration(self) -> None:
        if self._pending is None:
            self._afterwards("a snapshot", self.journal.settled)

    def checkpoint(self, always: bool = False) -> None:
        """Writes a snapshot of a database in a directory, so that opening it needs no log; `always`, even of no log."""
        self.recover()
        self.journal.checkpoint(always)
        self.host.settle(())

    def close(self, with_snapshot: bool = False) -> None:
        """Ends what is under way, and lets others open the directory; what is not complete is completed by the log."""
        try:
            self._complete()
        except Exception:
            with_snapshot = False  # the directory is in doubt, or memory is: neither is written down
        try:
            self.journal.close(with_snapshot and self._pending is None)
        finally:
            self.host.close()

    # -- BEGIN ... COMMIT ---------------------------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        """From now on changes are held back."""
        if self.transaction is not None:
            raise SchemaError("a transaction is open already: COMMIT or ROLLBACK ends it")
        self.transaction = Transaction(self.catalogue)

    def end_transaction(self) -> Transaction:
        """Ends a transaction, whose changes are still to be applied."""
        transaction, self.transaction = self.open_transaction(), None
        return transaction

    def roll_back_transaction(self) -> None:
        """Ends a transaction without its changes."""
        self.take_back_declarations(self.open_transaction().declared)
        self.transaction = None

    def roll_back_to(self, savepoint: str) -> None:
        """Goes back to a savepoint, in the transaction."""
        transaction = self.open_transaction()
        declared = transaction.declared_since(savepoint)
        transaction.return_to(savepoint)
        self.take_back_declarations(declared)

    def take_back_declarations(self, declared: Sequence[str]) -> None:
        """Drops tables and views that were declared in a transaction."""
        known = [name for name in reversed(declared) if name in self.tables or name in self.views]
        if known:
            self.drop(known)

    def open_transaction(self) -> Transaction:
        if self.transaction is None:
            raise SchemaError("no transaction is open: BEGIN starts one")
        return self.transaction

    def check_no_transaction(self, what: str) -> None:
        """Refuses what a ROLLBACK could not take back."""
        if self.transaction is not None:
            raise SchemaError(f"{what} in a transaction could not be taken back: COMMIT or ROLLBACK first")

    def is_readable(self, name: str) -> bool:
        """It has the rows that it should have: a view that an open transaction concerns changes at COMMIT."""
        return self.transaction is None or not self.transaction.concerns(name)

    def check_readable(self, name: str) -> None:
        """Refuses to read a view that would be out of date."""
        if not self.is_readable(name):
            raise SchemaError(f"view {name!r} will show what this transaction changes after COMMIT: read it then")

    def _held(self, name: str) -> Changes:
        """What the transaction changes of a table."""
        return {} if self.transaction is None else self.transaction.rows(name)

    def _rows_of(self, name: str) -> Changes:
        """The rows of a kept table, with what the transaction changes."""
        rows, held = self.catalogue.find_kept(name).store.change().rows(), self._held(name)
        return net([*rows.items(), *held.items()]) if held else rows

    # -- declarations -----------------------------------------------------------------------------------------------

    def create_table(self, table: Table, constraints: Sequence[Declaration] = ()) -> None:
        """Makes a table, with the views that have to stay empty because of its constraints."""
        started: list[Start] = []

        def work() -> None:
            started.extend(self.host.start(self.host.choose(declared), None) for declared in constraints)
            if not table.temporary:
                self.journal.declare(TABLE, table_to_json(table), self.records(started))

        def finish() -> None:
            for made in started:
                self.put_view(made.view)

        for declared in constraints:
            self.catalogue.check_sources(declared)
        names = [declared.name for declared in constraints]
        self._make_table(table, names, replace(self.committed, version=self.version + 1), work, finish)

    def create_table_with(self, table: Table, rows: object) -> None:
        """Makes a table with its first rows, which are a batch."""
        after = replace(self.committed, epoch=self.epoch + 1, version=self.version + 1)

        def work() -> None:
            batch = self.fill(table, rows, after.epoch)
            self.declare_filled(TABLE, table, table_to_json(table), (batch,), after.epoch)

        self._make_table(table, (), after, work, lambda: None)

    def declare_filled(self, kind: int, table: Table, known: Json, more: tuple[Record, ...], epoch: int) -> None:
        """Notes a table with its rows; of a temporary one only that the epoch is another one."""
        if table.temporary:
            self.journal.batch(epoch, {}, None)
        else:
            self.journal.declare(kind, known, more, epoch)

    def fill(self, table: Table, rows: object, epoch: int) -> Record:
        """Puts the first rows into a new table, as a batch; returns the record of that."""
        made = self.tables[table.name]
        self.host.expect({table.name: rows_in(rows)})
        change = self.change_of(made, rows, 1, encoded=False)
        made.check(change, tuple)
        self.host.begin()
        for _ in self.host.run(epoch, {table.name: change}, ()):
            pass
        return self.host.record(epoch, {table.name: change}, None)

    def alter_again(self, name: str, table: Table) -> None:
        """Repeats ALTER TABLE from a log, where the rows and what reads them follow."""
        self.drop([name, *(view.name for view in self.catalogue.reach((name,)).views)])
        self.create_table(table)

    def _make_table(
        self,
        table: Table,
        others: Sequence[str],
        after: CommittedState,
        work: Callable[[], None],
        finish: Callable[[], None],
    ) -> None:
        """Makes a table and does what belongs to it, as one step; `others` are names that this takes."""
        for name in (table.name, *others):
            self.catalogue.check_free(name)
            self.clear_log(name)
        self.host.check_table(table)

        def all_work() -> None:
            self.put_table(table)
            work()

        def all_finished() -> None:
            self.host.commit()
            finish()

        def take_back() -> None:
            self.host.rollback()
            self._forget_table(table.name)

        self.commit_with(all_work, after, all_finished, take_back)

    def create_view(self, *views: Declaration, engine: str | None = None) -> None:
        """Compiles a view and fills it from the rows already there, on the connection's engine or another.

        Several views that read each other are declared together.
        """
        (first, *others) = views
        if first.replaces and not others and first.name in self.views and self.host.set_aside is not None:
            replace_view(self, first, engine)
        else:
            self._declare_views(views, engine)

    def _declare_views(self, views: Sequence[Declaration], engine: str | None) -> None:
        for declared in views:
            self.catalogue.check_sources(declared)
            self.catalogue.check_name(declared)
            reads_parts = kind_of(declared).reads_parts
            for source in sorted(self.host.tables_under(declared)):
                self.catalogue.check_source(source, declared.name, reads_parts)
            self.clear_log(declared.name)
        started: list[Start] = []

        def work() -> None:
            started.extend(self.host.start(self.host.choose(declared), engine) for declared in views)
            self.declare_started(started)

        def finish() -> None:
            self.host.commit()
            for made in started:
                self.put_view(made.view)

        self._commit_declaration(work, finish)

    def declare_started(self, started: Sequence[Start]) -> None:
        """Notes views that were declared together; of temporary ones nothing is noted."""
        kept = [made for made in started if not made.view.declared.temporary]
        if kept:
            self.journal.declare(VIEW, self.facts(kept[0]), self.records(kept, but_first=True))

    def facts(self, made: Start) -> Json:
        """What is noted of a view that was started."""
        return {**view_to_json(made.view.declared, self.catalogue), **self.host.facts(made.view)}

    def records(self, started: Sequence[Start], but_first: bool = False) -> tuple[Record, ...]:
        """What is noted of views besides the declaration that they are part of, which may be that of the first."""
        kept = [made for made in started if not made.view.declared.temporary]
        views = [declaration_record(VIEW, self.facts(made), self.epoch) for made in kept[int(but_first) :]]
        return (*(record for made in kept for record in made.records), *views)

    def partition_view(self, name: str, columns: tuple[str, ...]) -> None:
        """Spreads a view by other columns of its own, where there is something to spread."""
        with self.host.relocating({name: columns}, None) as moves:
            if moves:
                self.checkpoint(always=True)

    def repartition(self, partitions: int) -> None:
        """Spreads everything over another number of partitions."""
        with self.host.relocating({}, partitions) as moves:
            if moves:
                self.checkpoint(always=True)

    def drop(self, names: Sequence[str]) -> None:
        """Drops tables and views, with the views that were declared together with one of these, as one step."""
        together = [each for name in names if name in self.views for each in self.views[name].declared.together]
        constraints = [each.name for name in names for each in self.constraints_of(name)]
        left = list(dict.fromkeys((*names, *together, *constraints)))
        ordered: list[str] = []
        while left:
            unread = [name for name in left if not {*self.catalogue.readers(name)}.difference(ordered)]
            if not unread:
                own = {view.name for view in self.constraints_of(left[0])}
                self.catalogue.check_unused(left[0], "drop table" if left[0] in self.tables else "drop view", own)
            ordered += unread
            left = [name for name in left if name not in unread]

        def finish() -> None:
            for name in ordered:
                if name in self.tables:
                    self._forget_table(name)
                else:
                    self._forget_view(name)

        noted = [name for name in names if not self.catalogue.is_temporary(name)]
        known: Json = {"name": noted[0]} if len(noted) == 1 else {"names": noted}
        if noted:
            self.declare(DROP, known, finish)
        else:
            self._commit_declaration(lambda: None, finish)

    def constraints_of(self, table: str) -> list[MaintainedView]:
        """The views that have to stay empty because of the constraints of a table."""
        known = [(view, view.declared.constraint) for view in self.views.values()]
        return [view for view, constraint in known if constraint is not None and constraint.table == table]

    def declare(self, kind: int, known: Json, finish: Callable[[], None]) -> None:
        """Makes a declaration that needs no work; `finish` puts it in force."""
        self._commit_declaration(lambda: self.journal.declare(kind, known), finish)

    def put_view(self, view: MaintainedView) -> None:
        """Makes a view that is filled part of the database."""
        replaced = self.catalogue.put_view(view)
        if replaced is not None:
            self.host.forget_view(replaced)

    def put_table(self, table: Table) -> None:
        """Makes an empty table part of the database."""
        self.tables[table.name] = self.host.make_table(table)

    def _forget_table(self, name: str) -> None:
        if name in self.tables:
            self.host.forget_table(self.tables[name])
            self.tables.pop(name)

    def _forget_view(self, name: str) -> None:
        self.catalogue.lost.pop(name, None)
        if name in self.views:
            self.host.forget_view(self.views[name])
            self.catalogue.drop_view(name)

    def clear_log(self, name: str) -> None:
        """Before something gets a name that the log knows for something else: a snapshot takes the place of the log."""
        if self.host.is_in_log(name):
            self.checkpoint()

    # -- reading ----------------------------------------------------------------------------------------------------

    def columns(self, name: str) -> tuple[Column, ...]:
        return self.views[name].columns if name in self.views else self.catalogue.find_table(name).schema.columns

    def stats(self, name: str) -> dict[str, object]:
        if name in self.views:
            return self.host.stats(self.views[name])
        table = self.catalogue.find_table(name)
        return {"kind": table.schema.kind.value, "rows": None if table.schema.is_forgetful else table.store.total}

    def snapshot(self, name: str) -> Snapshot:
        """The rows of a kept table or of a view."""
        if name in self.views:
            self.check_readable(name)
            return self.views[name].snapshot()
        return Snapshot(self.catalogue.find_kept(name).schema.columns, sorted_rows(self._rows_of(name)))

    def arrow(self, name: str) -> Any:
        """The rows of a kept table or of a view as Arrow, in reading order."""
        if name in self.views:
            self.check_readable(name)
            return self.views[name].arrow()
        table = self.catalogue.find_kept(name)
        if not self._held(name):
            return table.store.arrow()
        return rows_to_arrow(table.schema.columns, sorted_rows(self._rows_of(name)))

    def count(self, name: str) -> int:
        """How many rows a kept table or a view has."""
        if name in self.views:
            self.check_readable(name)
            return self.views[name].count()
        return self.catalogue.find_kept(name).store.total + sum(self._held(name).values())

    def version_of(self, name: str) -> object:
        """Something that is another one whenever the rows of a table or view may have changed."""
        view = self.views.get(name)
        if view is not None:
            return view.version
        return self.version if self.transaction is None else (self.version, self.transaction, self.transaction.version)

    def rows_with_keys(self, name: str, keys: Sequence[Row]) -> Changes | None:
        """The rows of a kept table with these primary keys, if they can be found without reading all rows."""
        rows = self.catalogue.find_kept(name).store.with_keys(keys)
        if rows is None or self.transaction is None:
            return rows
        held = self.transaction.rows_with_keys(name, keys)
        return net([*rows.items(), *held.items()])

    def compilations(self) -> list[Task[Choice]]:
        """What is being compiled in the background."""
        found = [maintainer.choice.compilation for maintainer in maintainers(self.views.values())]
        return [task for task in found if task is not None]

    # -- batches ----------------------------------------------------------------------------------------------------

    def change_of(self, table: BaseTable, data: object, sign: int, encoded: bool) -> Change:
        """What the user hands in for a table as a change, times `sign`, or times what it says when `encoded`."""
        data = data if sign < 0 else completed(table.schema, data, self.sequences)
        read = table.read(data, sign, encoded)
        return self.host.change_of(table.schema, data, sign, encoded) if read is None else RowChange(read)

    def change(self, table: BaseTable, signed: Signed) -> Change:
        """Parts of the user's data with their signs as one change."""
        if len(signed) == 1:
            ((data, sign),) = signed
            return self.change_of(table, data, sign, encoded=False)
        return self.net_change(table, signed)

    def net_change(self, table: BaseTable, signed: Signed) -> Change:
        """The same, for what a statement answers too."""
        signed = [(data if sign < 0 else completed(table.schema, data, self.sequences), sign) for data, sign in signed]
        read = [table.read(data, sign) for data, sign in signed]
        if all(part is not None for part in read):
            return RowChange(net(item for part in read if part is not None for item in part.items()))
        return self.host.net_change(table.schema, signed)

    def apply(self, batch: Batch, mark: BatchMark | None = None) -> None:
        """Applies a batch as a whole or not at all; the epoch counts the batches that changed a table.

        A batch whose mark has been committed before is left alone.
        """
        if mark is not None and mark in self.batches:
            return
        names = batch if len(batch) == 1 else [name for name in self.tables if name in batch]
        changed = {name: change for name in names if (change := batch[name])}
        tables = [self.tables[name] for name in changed]
        for table in tables:
            table.check(changed[table.schema.name], partial(self.catalogue.readers, table.schema.name))
        if not changed:
            self._note(mark)
            return
        self.journal.check(changed)
        if (due := self.host.due(changed)) is not None:
            self.declare(*due)
        batches = self.batches if mark is None else self.batches.adding(mark)
        after = CommittedState(self.epoch + 1, self.version + 1, batches)
        reached = self.host.reached(changed)
        news: list[Announcement] = []

        def work() -> None:
            self.host.begin()
            for view, changes in self.host.run(after.epoch, changed, reached.views):
                view.check(changes)
                if view.followers or (changes and view.subscribers):
                    news.extend(announcements(view, changes, after.epoch))
            self.journal.batch(after.epoch, changed, mark)

        finish = partial(self._finish, reached.maintainers, tables, iter(news))
        self._commit(work, after, finish, partial(self._take_back, reached.maintainers))
        if self._pending is None:
            self._afterwards("a snapshot", self.journal.settled)
            self._afterwards("moving a view to a better engine", partial(self.host.settle, reached.maintainers))

    def _note(self, mark: BatchMark | None) -> None:
        """A batch that changes nothing has been committed too."""
        if mark is not None:
            after = replace(self.committed, batches=self.batches.adding(mark))
            self._commit(lambda: self.journal.batch(self.epoch, {}, mark), after, lambda: None, lambda: None)

    def _finish(
        self, touched: Sequence[Maintainer], changed: Sequence[BaseTable], news: Iterator[Announcement]
    ) -> None:
        """Forgets how to undo a batch, and queues its news; an iterator that is used up queues nothing again."""
        self.host.commit()
        for maintainer in touched:
            maintainer.commit()
        for table in changed:
            table.started = not table.kept
        self.outbox.extend(news)

    def _take_back(self, touched: Sequence[Maintainer]) -> None:
        """Undoes a batch: the tables first, for views are filled from them."""
        self.host.rollback()
        for maintainer in touched:
            maintainer.rollback()


def _log_after_commit(epoch: int, what: str) -> None:
    """The exception that is being handled is no refusal."""
    logger.warning("epoch %d is committed; %s failed", epoch, what, exc_info=True, extra={"epoch": epoch})
