"""The journal of a database: what makes its declarations and batches outlive the process.

    record ::= TABLE schema | VIEW statement, facts | DROP names    a declaration, as JSON
             | ALTER name, schema                                   its rows follow as a batch
             | COMMENT name, column, text | TYPE name, definition   None where it is dropped
             | SEQUENCE state | SEQUENCE name, dropped              new ones, and those that have given values
             | a batch, or what else its host repeats               (`Host.record`, `Host.replay`)

A call that raises stops what was about to happen: a batch is rolled back, a declaration is not made. A directory is
opened as its last snapshot and the log since. When the log has become longer than the snapshot, a new snapshot takes
the place of both. The same records are written in the directory of a process and in the checkpoint of a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Protocol

from viewlet import __version__
from viewlet.changes.sequences import NumberSequence
from viewlet.engine.catalogue_json import Json, table_of_json, table_to_json
from viewlet.engine.choose_adaptive import chosen_adaptive
from viewlet.engine.declaration import Declaration, declared_by
from viewlet.engine.progress import ProgressLine
from viewlet.errors import DataError, MissingExtraError, SqlError, StateError, ViewletError
from viewlet.hosts.catalogue import Catalogue, LostView
from viewlet.hosts.contract import Batch, Storage
from viewlet.hosts.earlier import catalogue_of
from viewlet.runtime.durable.batch_ids import BatchIds, BatchMark
from viewlet.runtime.durable.log import Record
from viewlet.types import Constraint
from viewlet.visible import logger

if TYPE_CHECKING:
    from viewlet.connection.database import Database
    from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter

TABLE, VIEW, DROP, ALTER, SEQUENCE, COMMENT, TYPE = 2, 3, 4, 5, 6, 7, 8


class Journal(Protocol):
    """Receives what a database is about to make visible, and makes it durable first."""

    def declare(self, kind: int, known: Json, more: tuple[Record, ...] = (), epoch: int | None = None) -> None:
        """A declaration is about to be in force, and with it what other records say; it may lead to an `epoch`."""

    def check(self, tables: Iterable[str]) -> None:
        """Refuses a batch that some view could not follow."""

    def batch(self, epoch: int, changes: Batch, mark: BatchMark | None) -> None:
        """A batch has been run and leads to `epoch`."""

    def position(self) -> int:
        """Grows with everything told that outlives the process; right after an exception in the middle of it too."""

    def settled(self) -> None:
        """What was told last is in force, and the database at rest."""

    def checkpoint(self, always: bool = False) -> None:
        """Replaces the log by a snapshot, if there is any, or `always`."""

    def stats(self) -> dict[str, object] | None:
        """What a directory holds."""

    def close(self, with_snapshot: bool) -> None:
        """Lets others open the directory."""


class InMemory:
    """The journal of a database that does not outlive its process: there is nothing to do."""

    def declare(self, kind: int, known: Json, more: tuple[Record, ...] = (), epoch: int | None = None) -> None: ...

    def check(self, tables: Iterable[str]) -> None: ...

    def batch(self, epoch: int, changes: Batch, mark: BatchMark | None) -> None: ...

    def position(self) -> int:
        return 0

    def settled(self) -> None: ...

    def checkpoint(self, always: bool = False) -> None: ...

    def stats(self) -> None: ...

    def close(self, with_snapshot: bool) -> None: ...


class LogJournal:
    """The journal of a database in a directory: a log and snapshots."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self.storage = storage

    # -- writing ----------------------------------------------------------------------------------------------------

    def declare(self, kind: int, known: Json, more: tuple[Record, ...] = (), epoch: int | None = None) -> None:
        now = self._database.epoch
        self.storage.commit([declaration_record(kind, known, now), *more], now if epoch is None else epoch)

    def check(self, tables: Iterable[str]) -> None:
        catalogue = self._database.catalogue
        for name in tables if catalogue.lost else ():
            if lost := catalogue.lost_behind(name):
                raise StateError(f"{name!r} takes no rows, because a view would not follow: {lost.error()}")

    def batch(self, epoch: int, changes: Batch, mark: BatchMark | None) -> None:
        batches = self._database.batches if mark is None else self._database.batches.adding(mark)
        sequences = self._database.sequences
        changes = {name: change for name, change in changes.items() if not self._database.catalogue.is_temporary(name)}
        news = [declaration_record(SEQUENCE, known, epoch) for known in sequences.news()]
        self.storage.commit([self._database.host.record(epoch, changes, mark), *news], epoch, batches.ranges)
        sequences.moved.clear()

    def position(self) -> int:
        return self.storage.position()

    def settled(self) -> None:
        """Writes a snapshot if one is due."""
        if self.storage.checkpoint_is_due and not self._database.catalogue.lost:
            self._checkpoint_quietly()

    def checkpoint(self, always: bool = False) -> None:
        for lost in self._database.catalogue.lost.values():  # their state is in the last snapshot and in the log
            raise StateError(f"no snapshot can be written: {lost.error()}")
        if always or self.storage.manifest.logs:
            self.storage.checkpoint(self._write)

    def _checkpoint_quietly(self) -> None:
        """If there is no room for a snapshot, nothing is lost: the log has everything."""
        try:
            self.checkpoint()
        except Exception as error:
            reason = error if isinstance(error, StateError) else f"{type(error).__name__}: {error}"
            logger.warning("no snapshot was written, the log continues: %s", reason)

    def _write(self, writer: SnapshotWriter) -> Json:
        database, catalogue = self._database, self._database.catalogue
        known = {
            "version": __version__,
            "epoch": database.epoch,
            "tables": [
                {**table_to_json(table.schema), "started": table.started}
                for table in catalogue.tables.values()
                if not table.schema.temporary
            ],
            "types": catalogue.types,
            "sequences": database.sequences.facts(),
            "views": [
                view_to_json(view.declared, catalogue)
                for view in catalogue.views.values()
                if not view.declared.temporary
            ],
        }
        return database.host.save(writer, known)

    def stats(self) -> dict[str, object]:
        return self.storage.stats()

    def close(self, with_snapshot: bool) -> None:
        try:
            if with_snapshot and not self._database.catalogue.lost:
                self._checkpoint_quietly()
        finally:
            self.storage.close()

    # -- opening ----------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Brings the database, which is empty and has no journal yet, to the last committed state."""
        database, manifest = self._database, self.storage.manifest
        saved = self.storage.snapshot()
        if saved is not None:
            self._read(saved)
        line = ProgressLine(f"opening {self.storage.stats()['path']}")
        try:
            for number, record in enumerate(self.storage.records(), 1):
                self._replay(record)
                line.step(f"{number} records replayed")
        finally:
            line.close()
        if database.epoch != manifest.epoch:
            raise StateError(f"replaying the log led to epoch {database.epoch}, not to {manifest.epoch}")
        database.committed = replace(database.committed, batches=BatchIds(manifest.batches))
        database.sequences.sweep(table.schema for table in database.tables.values())
        self.storage.remove_left_over()

    def _read(self, saved: SnapshotReader) -> None:
        database, host = self._database, self._database.host
        facts = catalogue_of(host.take_up(saved))
        for known in facts["tables"]:
            table = host.make_table(table_of_json(known), saved)
            table.started = known["started"]
            database.tables[table.schema.name] = table
        database.catalogue.types.update(facts.get("types", {}))
        for known in facts.get("sequences", ()):
            database.sequences.put(NumberSequence(**known))
        for known in facts["views"]:
            self._resume(known, saved)
        database.committed = replace(database.committed, epoch=facts["epoch"])

    def _resume(self, known: Json, saved: SnapshotReader | None) -> None:
        """A view of the snapshot, or of a record; one that misses a function is lost, as are those that read it."""
        database = self._database
        try:
            with _explaining(known):
                declared = declared_again(known, database.catalogue)
                database.put_view(database.host.resume(declared, known, saved))
        except ViewletError as error:
            lost = _lost(known, error, database.catalogue) if database.host.may_lose_views else None
            if lost is None:
                raise
            database.catalogue.lost[lost.name] = lost
            logger.warning("%s", lost.reason)

    def _replay(self, record: Record) -> None:
        """Repeats what a record says. Declarations are those of both hosts, other records the host's own."""
        database = self._database
        if record.kind in (TABLE, VIEW, DROP, ALTER, SEQUENCE, COMMENT, TYPE):
            known = json.loads(bytes(record.payload))
            if record.kind == TABLE:
                database.create_table(table_of_json(known))
            elif record.kind == ALTER:
                database.alter_again(known["old"], table_of_json(known["table"]))
            elif record.kind == VIEW:
                self._resume(known, None)
            elif record.kind == TYPE:
                database.catalogue.define_type(known["name"], known["definition"])
            elif record.kind == COMMENT:
                database.catalogue.comment_on(known["name"], known["column"], known["text"])
            elif record.kind == SEQUENCE:
                database.sequences.replay(known)
            else:
                database.drop(known["names"] if "names" in known else [known["name"]])
            return
        found = database.host.replay(record)
        if found is None:
            database.committed = replace(database.committed, epoch=record.epoch)
            return
        changes, mark = found
        database.host.expect({name: len(change) for name, change in changes.items()})
        try:
            database.apply(changes, mark)
        except DataError as error:
            raise StateError(f"the batch of epoch {record.epoch} cannot be applied again: {error}") from error
        if not any(changes.values()):  # it was about temporary tables, or replaced a table by an empty one
            database.committed = replace(database.committed, epoch=record.epoch)


def declaration_record(kind: int, known: Json, epoch: int) -> Record:
    return Record(kind, epoch, json.dumps(known).encode())


def open_journal(database: Database, storage: Storage) -> None:
    """Restores a database, which is empty, from what is in a directory, and keeps it there from now on."""
    journal = LogJournal(database, storage)
    try:
        journal.restore()
    except BaseException:
        storage.close()
        raise
    database.journal = journal


# -- views as JSON ----------------------------------------------------------------------------------------------------


def view_to_json(declared: Declaration, catalogue: Catalogue) -> Json:
    """What a record and a snapshot say of a view; its host adds more."""
    known: Json = {"name": declared.name, "statement": declared.statement, "version": __version__}
    if declared.layered:
        known["layered"] = True
    if declared.stacked:
        known["stacked"] = True
    if declared.constraint is not None:
        known["constraint"] = asdict(declared.constraint)
    if declared.comments:
        known["comments"] = dict(declared.comments)
    if declared.chosen:
        known["adaptive"] = declared.chosen
    if declared.aggregates:
        known["aggregates"] = {name: catalogue.aggregates[name].digest for name in declared.aggregates}
    return known


def declared_again(known: Json, catalogue: Catalogue) -> Declaration:
    """What a record of a view asks for; the aggregates that it uses have to be registered."""
    for name, digest in known.get("aggregates", {}).items():
        found = catalogue.aggregates.get(name)
        if found is None:
            raise StateError(
                f"it uses the aggregate {name!r}, whose code is not kept in the directory: open it with "
                f"connect(..., aggregates={{{name!r}: TheClass}})"
            )
        if found.digest != digest:
            raise StateError(
                f"it uses an aggregate {name!r} with another state, other types or other parameters than the one "
                f"that was given: {found}"
            )
    layered = known.get("layered", False)  # a view stays as it was declared: its state depends on it
    declared = declared_by(known["statement"], catalogue.schemas(), catalogue.aggregates, layered)
    constraint = Constraint(**known["constraint"]) if "constraint" in known else None
    comments = tuple(known.get("comments", {}).items())
    declared = replace(declared, stacked=known.get("stacked", False), constraint=constraint, comments=comments)
    return chosen_adaptive(declared, known["adaptive"]) if "adaptive" in known else declared


def _lost(known: Json, error: BaseException | None, catalogue: Catalogue) -> LostView | None:
    """A view that misses a function of this program, or that reads such a view; None if something else is wrong."""
    from viewlet.signals.errors import MissingFunctionError

    name, names = known["name"], _names_in(known["statement"])
    sources = frozenset(names & (catalogue.tables.keys() | catalogue.views.keys() | catalogue.lost.keys()))
    while error is not None and not isinstance(error, MissingFunctionError):
        error = error.__cause__
    if error is not None:
        return LostView(name, f"view {name!r} is not open: {error}", sources)
    under = next((each for each in catalogue.lost.values() if each.name in sources), None)
    return (
        None
        if under is None
        else LostView(name, f"view {name!r} is not open, for it reads another: {under.reason}", sources)
    )


def _names_in(statement: str) -> set[str]:
    """All words of a statement as they might be names, which are in lower case unless they are quoted."""
    from viewlet.sql import split_statements
    from viewlet.sql.split import identifier

    words = {word for raw in split_statements(statement) for word in raw.words}
    return {identifier(word) for word in words}


@contextmanager
def _explaining(known: dict[str, Any]) -> Iterator[None]:
    """Errors of a view that worked before say which view it is, and which version it worked with."""
    try:
        yield
    except (SqlError, StateError, MissingExtraError) as error:
        hint = f"it worked with version {known['version']}, and nothing in the directory has been changed"
        raise StateError(f"view {known['name']!r} cannot be restored: {error}; {hint}") from error
