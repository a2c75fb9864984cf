"""The state of a local host in a snapshot: rows of tables, state of every view's engine, strings behind the codes.

A view continues from its state if its program is still the same: it is compiled again with the sizes known at the
time, and compared. Where a newer version of the package has changed it, a view over tables is filled from
them; one over a stream cannot be, and that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viewlet import __version__
from viewlet.engine.catalogue_json import Json, statistics_of_json, statistics_to_json
from viewlet.engine.choice import Choice
from viewlet.engine.chooser import EngineChooser
from viewlet.engine.declaration import Declaration, planned_again, planned_to_json
from viewlet.engine.kinds import kind_of
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.maintainer import Maintainer, Work
from viewlet.errors import MissingExtraError, SqlError, StateError
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.triggers.saved_state import Item
from viewlet.triggers.sources import Sources
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.hosts.local import LocalHost
    from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter

STRINGS = "strings"
SHARES = "shares"
"""The fact of a view that says which other view has the state of their engine."""


def write_state(host: LocalHost, writer: SnapshotWriter, known: Json) -> Json:
    """Fills a snapshot; returns the facts to go with it."""
    for name, table in host.catalogue.tables.items():
        if table.kept and not table.schema.temporary:
            writer.table(_rows_of(name), host.stores[name].held_arrow())
    views = {name: view for name, view in host.catalogue.views.items() if not view.declared.temporary}
    owners = _owners(views.values())
    parts = {maintainer: _Parts(view, writer) for maintainer, view in owners.items()}
    states = {maintainer: _write_state(maintainer, each) for maintainer, each in parts.items()}
    saved = [{**each, **_view_facts(views[each["name"]], owners, states)} for each in known["views"]]
    if any(each.has_words for each in parts.values()):
        texts = (((text,), ()) for text in host.dictionary.texts)
        writer.table(STRINGS, to_arrow(texts, 1, 0))
    return {**known, "views": saved}


def _owners(views: Iterable[MaintainedView]) -> dict[Maintainer, str]:
    """The first view of each maintainer, by whose name a snapshot knows its state."""
    found: dict[Maintainer, str] = {}
    for view in views:
        found.setdefault(view.maintainer, view.name)
    return found


def _view_facts(view: MaintainedView, owners: Mapping[Maintainer, str], states: Mapping[Maintainer, Json]) -> Json:
    """The state of the view's engine, or which view has it."""
    owner = owners[view.maintainer]
    if owner != view.name:
        return {SHARES: owner}
    return {**states[view.maintainer], **planned_to_json(view.maintainer.declared, view.declared)}


def _write_state(maintainer: Maintainer, parts: _Parts) -> Json:
    engine, choice, work = maintainer.engine, maintainer.choice, maintainer.work
    return {
        "engine": engine.name,
        "reason": choice.reason,
        "may_change": choice.may_change,
        "statistics": statistics_to_json(choice.statistics),
        "digest": engine.digest,
        "stores": engine.save(parts),
        "work": [work.tuples, work.batches, work.seconds],
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
    """The state of a view in a snapshot, to be read (see `StateReader`)."""

    def __init__(self, view: str, reader: SnapshotReader) -> None:
        self._view = view
        self._reader = reader

    def rows(self, part: str, arity: int) -> Iterable[Item]:
        return from_arrow(self._reader.table(f"view {self._view} {part}"), arity)

    def words(self, part: str) -> Any:
        return self._reader.array(f"view {self._view} {part}")


def _rows_of(table: str) -> str:
    return f"table {table}"


def read_strings(engines: EngineChooser, saved: SnapshotReader) -> None:
    """Gives the strings of a snapshot their codes again."""
    if STRINGS in saved:
        texts = (text for (text,), _ in from_arrow(saved.table(STRINGS), 1))
        engines.dictionary.restore([None if text is None else str(text) for text in texts])


def read_table(schema: Table, saved: SnapshotReader) -> Any:
    """The rows of a table that keeps them, as Arrow."""
    return saved.table(_rows_of(schema.name))


def read_view(host: LocalHost, declared: Declaration, known: Json, saved: SnapshotReader) -> MaintainedView:
    """A view with the state it had, or filled from its sources; one that shared an engine shares it again."""
    if SHARES in known:
        owner = host.catalogue.views[known[SHARES]].maintainer
        return MaintainedView(declared, owner, host.log)
    sources = host.sources(declared)
    planned = planned_again(known, declared, host.catalogue.schemas(), host.catalogue.aggregates)
    views = host.catalogue.views
    over_parts = any(name in views and views[name].kind.reads_parts for name in declared.sources)
    is_behind = over_parts and not kind_of(declared).reads_parts
    # views over parts of streams have their own files, which may have batches that the log is about to repeat
    choice = None if is_behind else _resumed(host.engines, planned, sources, known, saved, declared.name)
    if choice is None:
        if sources.streams:
            raise StateError(
                f"this version of Viewlet ({__version__}) would keep it in another way, and stream "
                f"{sources.streams[0]!r} keeps no rows to fill it from"
            )
        view = host.start(declared, None).view
    else:
        view = MaintainedView(declared, Maintainer(planned, choice), host.log)
    tuples, batches, seconds = known["work"]
    view.maintainer.work = Work(tuples, batches, dict(seconds))
    return view


def _resumed(
    engines: EngineChooser, declared: Declaration, sources: Sources, known: Json, saved: SnapshotReader, name: str
) -> Choice | None:
    """The view with the state it had under a name, or None if this version does not keep such a state."""
    statistics = statistics_of_json(known["statistics"])
    try:
        choice = engines.prepare(declared, sources, known["engine"], known["reason"], statistics)
        if choice.engine.digest != known["digest"] and sources.is_mixed:
            choice = engines.prepare(declared, sources, known["engine"], known["reason"], statistics, movable=True)
    except (MissingExtraError, SqlError):
        if sources.streams:
            raise
        return None
    # views over parts of streams have no state here: where their parts are, their definitions are compared
    if choice.engine.digest != known["digest"] and not kind_of(declared).reads_parts:
        return None
    if not choice.engine.resume(known["stores"], _SavedParts(name, saved)):
        return None
    return replace(choice, may_change=known["may_change"])
