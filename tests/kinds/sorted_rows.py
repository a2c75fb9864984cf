"""A second engine for the kind of `last_rows.py`, as the recipe "add an engine" says: the rows of each key in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.kinds.last_rows import LAST_ROWS, LastRows, LastRowsEngine
from viewlet.changes import Change
from viewlet.engine import CompiledForm
from viewlet.engine.declaration import Declaration
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.types import Row


class SortedEngine:
    """Keeps a sorted list for each key; a batch that fails gets the lists back that it changed."""

    name = "compiled"

    def __init__(self, plan: LastRows, sources: Sources) -> None:
        self.plan = plan
        self.digest = repr(plan)
        self._sources = sources
        self._lists: dict[Any, list[Any]] = {}
        self._before: dict[Any, list[Any]] = {}

    def fill(self, rows: Mapping[Row, int]) -> None:
        self._lists = {}
        self._add(rows)

    def load(self) -> None:
        self.fill(self._sources.stores[self.plan.table].change().rows())

    def apply(self, table: str, change: Change) -> None:
        for row in change.rows():
            key = row[self.plan.key]
            self._before.setdefault(key, list(self._lists.get(key, ())))
        self._add(change.rows())

    def _add(self, rows: Mapping[Row, int]) -> None:
        for row, times in rows.items():
            ranked, item = self._lists.setdefault(row[self.plan.key], []), (row[self.plan.at], row)
            for _ in range(times):
                insort(ranked, item)
            if times < 0:
                at = bisect_left(ranked, item)
                del ranked[at : at - times]

    def _last(self, ranked: list[Any]) -> dict[Row, int]:
        last = [row for _, row in ranked[-self.plan.count :]]
        return {row: last.count(row) for row in last}

    def finish(self) -> Mapping[Row, int]:
        pairs = [(self._last(before), self._last(self._lists[key])) for key, before in self._before.items()]
        changes = {row: new.get(row, 0) - old.get(row, 0) for old, new in pairs for row in old | new}
        return {row: weight for row, weight in changes.items() if weight}

    def result(self) -> Mapping[Row, int]:
        return {row: n for ranked in self._lists.values() for row, n in self._last(ranked).items()}

    def watch(self) -> bool:
        return True

    def commit(self) -> None:
        self._before = {}

    def rollback(self) -> None:
        self._lists |= self._before
        self._before = {}

    def save(self, writer: StateWriter) -> dict[str, object]:
        counted = Counter(row for ranked in self._lists.values() for _, row in ranked)
        writer.rows("rows", [(row, (times,)) for row, times in counted.items()], self.plan.arity, 1)
        return {"rows": self.plan.arity}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.fill({row: times for row, (times,) in reader.rows("rows", layout["rows"])})
        return True

    def stats(self) -> dict[str, object]:
        return {"stored": {"rows": sum(map(len, self._lists.values()))}}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}


@dataclass(frozen=True, slots=True)
class SortedDraft:
    plan: Any
    obstacle = None
    is_cached = True

    def build(self, sources: Sources, *_: object) -> SortedEngine:
        return SortedEngine(self.plan, sources)


def draft(declared: Declaration, *_: object) -> SortedDraft:
    return SortedDraft(declared.definition)


def migrate(reference: LastRowsEngine, compiled: SortedEngine) -> None:
    compiled.fill(reference.all_rows())


SORTED_LAST_ROWS = replace(
    LAST_ROWS, compiled=CompiledForm(draft, lambda tables: None, lambda plan, watched: None, migrate)
)
