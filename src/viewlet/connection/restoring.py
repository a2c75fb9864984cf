"""A database as a snapshot, and back: rows of tables, state of every view's engine, and the strings behind the codes.

A view goes on with its state if it still has the same definition inside: its program is compiled again with the sizes
known at the time, and compared. Where a newer version of the package has changed it, a view over tables is filled from
them; one over a stream cannot be, and that is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from viewlet import __version__
from viewlet.connection.build import Sources
from viewlet.connection.catalogue_json import (
    Json,
    state_digest,
    statistics_of_json,
    statistics_to_json,
    table_of_json,
    table_to_json,
    text_digest,
)
from viewlet.connection.maintained import Declaration, MaintainedView, Running, Work
from viewlet.connection.statements import declaration
from viewlet.connection.tree_engine import TreeEngine
from viewlet.errors import MissingExtraError, SqlError, StateError
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.sql import CreateView, bind_statement, split_statements
from viewlet.triggers.interpreter import Interpreter
from viewlet.viewtree.keepers import ReferenceTree
from viewlet.viewtree.state_text import of_rows, to_rows

if TYPE_CHECKING:
    from viewlet.codegen.rings.keepers import GeneratedTree
    from viewlet.connection.database import Database
    from viewlet.runtime.durable.snapshot import SnapshotReader, SnapshotWriter

STRINGS = "strings"


def write_database(database: Database, writer: SnapshotWriter) -> Json:
    """Fills a snapshot; returns the facts to go with it."""
    tables: list[Json] = []
    for name, table in database.tables.items():
        if table.kept:
            writer.table(f"table {name}", to_arrow(table.store.items(), len(table.schema.columns), 1))
        tables.append({**table_to_json(table.schema), "started": table.started})
    views = [_write_view(view, writer) for view in database.views.values()]
    if any(view.running.engine_name == "compiled" for view in database.views.values()):
        texts = (((text,), ()) for text in database.dictionary.texts)
        writer.table(STRINGS, to_arrow(texts, 1, 0))
    return {"version": __version__, "epoch": database.epoch, "tables": tables, "views": views}


def _write_view(view: MaintainedView, writer: SnapshotWriter) -> Json:
    running, name = view.running, view.name
    if isinstance(running.engine, Interpreter):
        stores: dict[str, object] = {}
        for definition in running.program.views:
            store = running.engine.stores[definition.name]
            rows = to_arrow(store.items(), len(definition.keys), len(definition.fields))
            writer.table(f"view {name} {definition.name}", rows)
            stores[definition.name] = len(definition.keys)
    elif isinstance(running.engine, TreeEngine):
        stores = _write_tree(view, running.engine, writer)
    else:
        stores = running.engine.layouts()
        for part, words in running.engine.packed():
            writer.array(f"view {name} {part}", words)
    return {
        "name": name,
        "statement": view.declared.statement,
        "engine": running.engine_name,
        "reason": running.reason,
        "may_change": running.may_change,
        "statistics": statistics_to_json(running.statistics),
        "digest": _digest(running),
        "stores": stores,
        "work": [view.work.tuples, view.work.batches, view.work.seconds],
    }


def _write_tree(view: MaintainedView, tree: TreeEngine, writer: SnapshotWriter) -> dict[str, object]:
    """The views of a tree over streams; one over tables is filled from them."""
    if tree.is_kept:
        return {}
    if not isinstance(tree.keeper, ReferenceTree):
        generated = cast("GeneratedTree", tree.keeper)
        for part, words in generated.packed():
            writer.array(f"view {view.name} {part}", words)
        return generated.layouts()
    stores: dict[str, object] = {}
    for store, entries in tree.keeper.state().items():
        arity = len(tree.plan.tree.nodes[store].keys)
        writer.table(f"view {view.name} {store}", to_arrow(to_rows(entries), arity, 1))
        stores[store] = arity
    return stores


def _digest(running: Running) -> str:
    return state_digest(running.program) if running.tree is None else text_digest(running.tree.plan.digest)


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
    declared = bind_view(database, known["statement"])
    sources = database.sources(declared)
    running = _resumed(database, declared, sources, known, reader)
    if running is None:
        if sources.streams:
            raise StateError(
                f"this version of Viewlet ({__version__}) would keep it in another way, and stream "
                f"{sources.streams[0]!r} keeps no rows to fill it from"
            )
        running = database.start(declared)
    view = database.add_view(declared, running)
    tuples, batches, seconds = known["work"]
    view.work = Work(tuples, batches, dict(seconds))


def _resumed(
    database: Database, declared: Declaration, sources: Sources, known: Json, reader: SnapshotReader
) -> Running | None:
    """The view with the state it had, or None if this version does not keep such a state."""
    statistics = statistics_of_json(known["statistics"])
    try:
        running = database.prepare(declared, sources, known["engine"], known["reason"], statistics)
        if _digest(running) != known["digest"] and sources.is_mixed:
            running = database.prepare(declared, sources, known["engine"], known["reason"], statistics, movable=True)
    except (MissingExtraError, SqlError):
        if sources.streams:
            raise
        return None
    if _digest(running) != known["digest"]:
        return None
    name = declared.name
    if isinstance(running.engine, TreeEngine):
        resumed = _resume_tree(running.engine, name, known["stores"], reader)
        return running.that_may_change(known["may_change"]) if resumed else None
    if isinstance(running.engine, Interpreter):
        state = {
            store: dict(from_arrow(reader.table(f"view {name} {store}"), arity))
            for store, arity in known["stores"].items()
        }
        running.engine.restore(state)
    elif running.engine.layouts() == known["stores"]:
        running.engine.restore({store: reader.array(f"view {name} {store}") for store in known["stores"]})
    else:
        return None
    return running.that_may_change(known["may_change"])


def _resume_tree(tree: TreeEngine, name: str, stores: Json, reader: SnapshotReader) -> bool:
    """Whether a tree could be given the state it had."""
    if tree.is_kept:
        return False
    if isinstance(tree.keeper, ReferenceTree):
        rows = {store: from_arrow(reader.table(f"view {name} {store}"), arity) for store, arity in stores.items()}
        tree.keeper.restore({store: of_rows(found) for store, found in rows.items()})
        return True
    generated = cast("GeneratedTree", tree.keeper)
    if generated.layouts() != stores:
        return False
    generated.restore({store: reader.array(f"view {name} {store}") for store in stores})
    return True


def bind_view(database: Database, statement: str) -> Declaration:
    """What a CREATE VIEW that was accepted before asks for."""
    bound = bind_statement(next(split_statements(statement)), database.schemas())
    if not isinstance(bound, CreateView):
        raise StateError(f"{statement!r:.80} does not declare a view")
    return declaration(bound, statement)


@contextmanager
def explaining(view: str, version: str) -> Iterator[None]:
    """Errors of a view that worked before say which view it is, and which version it worked with."""
    try:
        yield
    except (SqlError, StateError, MissingExtraError) as error:
        hint = f"it worked with version {version}, and nothing in the directory has been changed"
        raise StateError(f"view {view!r} cannot be restored: {error}; {hint}") from error
