"""A database as a snapshot, and back: rows of tables, state of every view's engine, and the strings behind the codes.

A view goes on with its state if it still has the same definition inside: its program is compiled again with the sizes
known at the time, and compared. Where a newer version of the package has changed it, a view over tables is filled from
them; one over a stream cannot be, and that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viewlet import __version__
from viewlet.engine.catalogue_json import (
    Json,
    statistics_of_json,
    statistics_to_json,
    table_of_json,
    table_to_json,
)
from viewlet.engine.choice import Choice
from viewlet.engine.contract import LocalEngine
from viewlet.engine.declaration import Declaration, declared_by
from viewlet.engine.maintained_view import MaintainedView, Work
from viewlet.errors import MissingExtraError, SqlError, StateError
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.triggers.saved_state import Item
from viewlet.triggers.sources import Sources

if TYPE_CHECKING:
    from viewlet.connection.database import Database
    from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter

STRINGS = "strings"


def write_database(database: Database, writer: SnapshotWriter) -> Json:
    """Fills a snapshot; returns the facts to go with it."""
    tables: list[Json] = []
    for name, table in database.tables.items():
        if table.kept:
            writer.table(f"table {name}", table.store.held_arrow())
        tables.append({**table_to_json(table.schema), "started": table.started})
    parts = {name: _Parts(name, writer) for name in database.views}
    views = [_write_view(view, parts[name], database) for name, view in database.views.items()]
    if any(each.has_words for each in parts.values()):
        texts = (((text,), ()) for text in database.dictionary.texts)
        writer.table(STRINGS, to_arrow(texts, 1, 0))
    return {"version": __version__, "epoch": database.epoch, "tables": tables, "views": views}


def _write_view(view: MaintainedView, parts: _Parts, database: Database) -> Json:
    engine: LocalEngine = view.engine
    return {
        **used_aggregates(view.declared, database),
        "name": view.name,
        "statement": view.declared.statement,
        "engine": engine.name,
        "reason": view.choice.reason,
        "may_change": view.choice.may_change,
        "statistics": statistics_to_json(view.choice.statistics),
        "digest": engine.digest,
        "stores": engine.save(parts),
        "work": [view.work.tuples, view.work.batches, view.work.seconds],
    }


class _Parts:
    """The parts of one view in a snapshot (see `StateWriter`); `has_words` tells whether any part needs the strings."""

    def __init__(self, view: str, writer: SnapshotWriter) -> None:
        self._view = view
        self._writer = writer
        self.has_words = False

    def rows(self, part: str, items: Iterable[Item], arity: int, width: int) -> None:
        self._writer.table(f"view {self._view} {part}", to_arrow(items, arity, width))

    def words(self, part: str, words: Any) -> None:
        self.has_words = True
        self._writer.array(f"view {self._view} {part}", words)


class _SavedParts:
    """The same, to be read (see `StateReader`)."""

    def __init__(self, view: str, reader: SnapshotReader) -> None:
        self._view = view
        self._reader = reader

    def rows(self, part: str, arity: int) -> Iterable[Item]:
        return from_arrow(self._reader.table(f"view {self._view} {part}"), arity)

    def words(self, part: str) -> Any:
        return self._reader.array(f"view {self._view} {part}")


def read_database(database: Database, reader: SnapshotReader) -> None:
    """Brings an empty database to the state of a snapshot."""
    facts = reader.facts
    for known in facts["tables"]:
        schema = table_of_json(known)
        database.create_table(schema)
        table = database.tables[schema.name]
        table.started = known["started"]
        if table.kept:
            table.store.fill(dict(from_arrow(reader.table(f"table {schema.name}"), len(schema.columns))))
    if STRINGS in reader:
        database.dictionary.encode([str(text) for (text,), _ in from_arrow(reader.table(STRINGS), 1)])
    for known in facts["views"]:
        with explaining(known["name"], facts["version"]):
            _read_view(database, known, reader)
    database.committed = replace(database.committed, epoch=facts["epoch"])


def _read_view(database: Database, known: Json, reader: SnapshotReader) -> None:
    declared = declared_again(known, database)
    sources = database.sources(declared)
    choice = _resumed(database, declared, sources, known, reader)
    if choice is None:
        if sources.streams:
            raise StateError(
                f"this version of Viewlet ({__version__}) would keep it in another way, and stream "
                f"{sources.streams[0]!r} keeps no rows to fill it from"
            )
        choice = database.start(declared)
    view = database.add_view(declared, choice)
    tuples, batches, seconds = known["work"]
    view.work = Work(tuples, batches, dict(seconds))


def declared_again(known: Json, database: Database) -> Declaration:
    """What a record of a view asks for; the aggregates that it uses have to be registered."""
    for name, digest in known.get("aggregates", {}).items():
        found = database.aggregates.get(name)
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
    return declared_by(known["statement"], database.schemas(), database.aggregates)


def used_aggregates(declared: Declaration, database: Database) -> Json:
    """The entry of a record that says which aggregates a view uses; views without any have none."""
    used = {name: database.aggregates[name].digest for name in declared.aggregates}
    return {"aggregates": used} if used else {}


def _resumed(
    database: Database, declared: Declaration, sources: Sources, known: Json, reader: SnapshotReader
) -> Choice | None:
    """The view with the state it had, or None if this version does not keep such a state."""
    statistics = statistics_of_json(known["statistics"])
    try:
        choice = database.prepare(declared, sources, known["engine"], known["reason"], statistics)
        if choice.engine.digest != known["digest"] and sources.is_mixed:
            choice = database.prepare(declared, sources, known["engine"], known["reason"], statistics, movable=True)
    except (MissingExtraError, SqlError):
        if sources.streams:
            raise
        return None
    if choice.engine.digest != known["digest"]:
        return None
    if not choice.engine.resume(known["stores"], _SavedParts(declared.name, reader)):
        return None
    return replace(choice, may_change=known["may_change"])


@contextmanager
def explaining(view: str, version: str) -> Iterator[None]:
    """Errors of a view that worked before say which view it is, and which version it worked with."""
    try:
        yield
    except (SqlError, StateError, MissingExtraError) as error:
        hint = f"it worked with version {version}, and nothing in the directory has been changed"
        raise StateError(f"view {view!r} cannot be restored: {error}; {hint}") from error
