"""The figures of all tables and views, read no more often than a small share of the time allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from viewlet.connection.database import Database
from viewlet.connection.session import Session
from viewlet.errors import SchemaError, ViewletError
from viewlet.ui.subject import Subject

Record = dict[str, Any]

SHARE = 0.005
"""Of the time, how much batches may wait while figures are read."""
SHORTEST_SECONDS = 0.25
LONGEST_SECONDS = 60.0
"""Between two readings."""


class Figures:
    """What the page shows of every table and view; `source` is what is read."""

    def __init__(self, source: Callable[[], Subject]) -> None:
        self._source = source
        self._reading = threading.Lock()
        self._state: Record = {"number": 0}
        self.due = 0.0

    def state(self, messages: int) -> Record:
        """The last figures; `number` is another one when they have changed. While they are read, others get the old."""
        if self._reading.acquire(blocking=self._state["number"] == 0):
            try:
                if time.monotonic() >= self.due:
                    self._read()
            finally:
                self._reading.release()
        return {**self._state, "messages": messages}

    def _read(self) -> None:
        session, held, relations = self._source().session, 0.0, list[Record]()
        with session.open() as database:
            started = time.perf_counter()
            epoch = database.epoch
            tables, views = list(database.tables), list(database.catalogue.visible_views)
            lost = [
                {"name": name, "kind": "lost view", "sources": sorted(each.sources), "problem": each.reason}
                for name, each in database.catalogue.lost.items()
            ]
            held += time.perf_counter() - started
        for name in (*tables, *views):
            with suppress(SchemaError), session.open() as database:  # it may have been dropped
                started = time.perf_counter()
                relations.append(_relation(database, name))
                held += time.perf_counter() - started
        now = time.monotonic()
        self.due = now + min(max(SHORTEST_SECONDS, held / SHARE), LONGEST_SECONDS)
        found = {"epoch": epoch, "relations": relations + lost}
        changed = found != {name: self._state.get(name) for name in found}
        self._state = {"number": self._state["number"] + changed, "at": now, **found}


def _relation(database: Database, name: str) -> Record:
    """What the graph shows of a table or view."""
    view = database.views.get(name)
    try:
        stats = dict[str, Any](database.stats(name))
    except SchemaError:
        raise
    except ViewletError as error:
        stats = {"problem": str(error)}
    if view is None:
        return {"name": name, "sources": [], **stats, "kind": database.tables[name].schema.kind.value.lower()}
    sizes = stats.get("bytes")
    known = ("rows", "batches", "tuples", "seconds", "engine", "strategy", "problem")
    return {
        "name": name,
        "kind": view.kind.noun.removeprefix("a ").removeprefix("an "),
        "sources": sorted(view.sources),
        **{each: stats[each] for each in known if each in stats},
        "bytes": sum(sizes.values()) if isinstance(sizes, dict) else sizes,
    }


def describe(session: Session, name: str) -> Record:
    """Everything about a table or view: its columns, its definition, how it is maintained."""
    with session.open() as database:
        found = database.catalogue.find(name)
        if found is None:
            raise SchemaError(f"there is no table or view {name!r}")
        if found in database.catalogue.lost:
            raise database.catalogue.lost[found].error()
        view = database.views.get(found)
        schema = database.catalogue.schemas()[found]
        columns = [
            {"name": column.name, "type": column.declared + ("" if column.type.nullable else " NOT NULL")}
            for column in schema.columns
        ]
        known: Record = {
            "name": found,
            "epoch": database.epoch,
            "columns": columns,
            "key": list(schema.primary_key),
            "readers": database.catalogue.readers(found),
            "stats": {each: _text(value) for each, value in database.stats(found).items()},
        }
        if view is not None:
            known |= {"sql": view.declared.statement, "explain": session.explain(found)}
            with suppress(ViewletError):
                known["picture"] = bool(picture(session, found))
        return known


def picture(session: Session, name: str) -> str:
    """The stage `view-tree` of a view, as SVG; an error where it has none."""
    return session.explain(name, "view-tree", "svg")


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
