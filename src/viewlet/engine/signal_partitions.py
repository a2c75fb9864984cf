"""Signal views on Spark: groups go to partitions by their keys, and every partition has an engine of its own.

A partition has no tables to read. Its engine keeps the rows of tables that keep theirs, so that late and deleted ones
can be made good; of streams it keeps the state of the operators only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from viewlet.algebra.signal_query import SignalQuery
from viewlet.changes import Change
from viewlet.engine.signal_engine import SignalEngine
from viewlet.errors import UnsupportedError
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog


class PartitionEngine(SignalEngine):
    """The engine of one partition."""

    def __init__(self, plan: SignalQuery, sources: Sources, log: UndoLog) -> None:
        self._own = {each.table: MapStore(log=log) for each in plan.inputs}
        self._kept = {each.table for each in plan.inputs if each.is_kept}
        super().__init__(plan, replace(sources, stores=self._own))

    def apply(self, table: str, change: Change) -> None:
        super().apply(table, change)
        if table in self._kept:
            self._own[table].add_rows(change.rows())

    def save(self, writer: StateWriter) -> dict[str, object]:
        for number, table in enumerate(sorted(self._kept)):
            arity = len(self._sources.tables[table].columns)
            writer.rows(f"table {number}", self._own[table].items(), arity, 1)
        return super().save(writer)

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        for number, table in enumerate(sorted(self._kept)):
            arity = len(self._sources.tables[table].columns)
            self._own[table].assign(dict(reader.rows(f"table {number}", arity)))
        return super().resume(layout, reader)


def keys_of(plan: SignalQuery) -> Mapping[str, tuple[int, ...]]:
    """The columns of each table that say to which partition a row goes."""
    found: dict[str, tuple[int, ...]] = {}
    for each in plan.inputs:
        if found.setdefault(each.table, each.key) != each.key:
            hint = "let one of the signals read a view of the table"
            raise UnsupportedError(f"two signals of {each.table!r} by different keys on Spark", hint, "engine")
    return found
