"""A kind of view made outside Viewlet: the last rows per key, `SELECT * FROM last_rows(clicks, 3, visitor, moment)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewlet.changes import Change
from viewlet.engine import Subject, ViewKind, register_kind
from viewlet.engine.declaration import Declaration
from viewlet.engine.partitioned import partitioned
from viewlet.sql.table_functions import BoundCall, TableCall
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Row


@dataclass(frozen=True, slots=True)
class LastRows:
    """The definition, which is also the plan: of each key, the `count` rows that are last by `at`, then by all."""

    table: str
    arity: int
    count: int
    key: int
    at: int
    strategy = "last-rows"

    def last(self, rows: Iterable[tuple[Row, int]]) -> dict[Row, int]:
        left, found = self.count, dict[Row, int]()
        for row, times in sorted(rows, key=lambda item: (item[0][self.at], item[0]), reverse=True):  # type: ignore[return-value,arg-type]
            if left > 0:
                found[row] = min(times, left)
                left -= times
        return found


def bind(call: TableCall) -> BoundCall:
    table = call.table(0)
    definition = LastRows(
        table.name, len(table.columns), call.whole_number(1), call.column(2, table), call.column(3, table)
    )
    return BoundCall(definition, table.columns, frozenset({table.name}))


class LastRowsEngine:
    """Keeps all rows by key, because a delete brings earlier ones back; a batch looks at the keys it touches."""

    name = "interpreter"

    def __init__(self, plan: LastRows, sources: Sources, log: UndoLog) -> None:
        self.plan = plan
        self.digest = repr(plan)
        self._sources = sources
        self._rows = MapStore(log=log)
        self._touched: dict[Row, dict[Row, int]] = {}
        """Keys that the batch touches, with their last rows before it."""

    def load(self) -> None:
        self._rows.assign(dict(self._sources.stores[self.plan.table].items()))

    def apply(self, table: str, change: Change) -> None:
        for row in change.rows():
            key = (row[self.plan.key],)
            if key not in self._touched:
                self._touched[key] = self._last(key)
        self._rows.add_rows(change.rows())

    def _last(self, key: Row) -> dict[Row, int]:
        rows = self._rows.slice((self.plan.key,), key)
        return self.plan.last((row, (self._rows.get(row) or (0,))[0]) for row in rows)

    def finish(self) -> Mapping[Row, int]:
        changes: dict[Row, int] = {}
        for key, before in self._touched.items():
            after = self._last(key)
            for row in before.keys() | after.keys():
                changes[row] = after.get(row, 0) - before.get(row, 0)
        return {row: weight for row, weight in changes.items() if weight}

    def result(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        for key in {(row[self.plan.key],) for row, _ in self._rows.items()}:
            found |= self._last(key)
        return found

    def all_rows(self) -> Mapping[Row, int]:
        return self._rows.multiplicities()

    def watch(self) -> bool:
        return True

    def commit(self) -> None:
        self._touched = {}

    def rollback(self) -> None:
        self._touched = {}  # the undo log has the rows

    def save(self, writer: StateWriter) -> dict[str, object]:
        writer.rows("rows", self._rows.items(), self.plan.arity, 1)
        return {"rows": self.plan.arity}

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self._rows.assign(dict(reader.rows("rows", layout["rows"])))
        return True

    def stats(self) -> dict[str, object]:
        return {"stored": {"rows": len(self._rows)}}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}


def stages(subject: Subject) -> Mapping[str, Callable[[], str]]:
    return {"sql": lambda: subject.declared.sql, "plan": lambda: repr(subject.plan), "engine": lambda: subject.engine}


def plan(declared: Declaration, *_: object) -> Any:
    return declared.definition


LAST_ROWS = register_kind(
    ViewKind(
        noun="a last_rows view",
        accepts=lambda definition: isinstance(definition, LastRows),
        plan=plan,
        reference=lambda declared, sources, statistics, log, movable: LastRowsEngine(plan(declared), sources, log),
        distributed=partitioned(plan, LastRowsEngine, by=lambda plan: {plan.table: (plan.key,)}),
        stages=stages,
        summary=("sql", "plan", "engine"),
        function=("last_rows", bind),
    )
)
