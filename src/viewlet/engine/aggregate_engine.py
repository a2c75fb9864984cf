"""The engine of views with user-defined aggregates: two engines over tables, and the states and the result over them.

    changes of tables ──┬─► values   the rows that the aggregates read ──► states of the groups ──┐
                        └─► groups   the built-in aggregates of each group ──────────────────────┴──► result

`values` and `groups` are ordinary trigger programs, on the interpreter or on generated code. `values` only tells its
changes: between two batches it holds no rows, unless its program needs them. `result` is a `GroupResult`.

What runs on dictionaries shares an undo log of the engine's own, which begins with the first change of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from viewlet.changes import Change
from viewlet.engine.aggregate_plan import AggregatePlan
from viewlet.engine.contract import LocalEngine, ReadsColumns
from viewlet.engine.group_result import GroupResult
from viewlet.engine.trigger_programs import migrate
from viewlet.errors import InternalError
from viewlet.triggers.program import text_digest
from viewlet.triggers.saved_state import Item, StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import UndoLog
from viewlet.types import Row

STATES = "states"


class ValuesEngine(LocalEngine, Protocol):
    """An engine that need not hold the rows of its view."""

    def forget_rows(self) -> None:
        """Empties the view, if its changes are known without its rows; may be done again after an exception."""


class AggregateEngine:
    """Maintains one view with user-defined aggregates."""

    def __init__(
        self,
        name: str,
        plan: AggregatePlan,
        values: ValuesEngine,
        groups: LocalEngine | None,
        sources: Sources,
        log: UndoLog,
    ) -> None:
        self.name = name
        self.plan = plan
        self.values = values
        self.groups = groups
        self.rest = GroupResult(plan, groups, sources.stores, log)
        self._parts: tuple[Any, ...] = tuple(part for part in (values, groups, self.rest.engine) if part is not None)
        self._readers = {
            table: tuple(part for part in self._parts if part.plan.trigger(table) is not None)
            for table in sources.tables
        }
        self._log = log
        values.watch()
        if groups is not None:
            groups.watch()

    @property
    def digest(self) -> str:
        aggregates = [call.aggregate.digest for call in self.plan.query.calls]
        return text_digest(" ".join([*(part.digest for part in self._parts), *aggregates]))

    # -- filling ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Fills the view from the rows that its sources keep."""
        self.values.load()
        if self.groups is not None:
            self.groups.load()
            self.groups.watch()
        self.rest.fill(self.values.result())
        self.values.forget_rows()
        self.values.watch()

    # -- batches ----------------------------------------------------------------------------------------------------

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        used: set[int] = set()
        for part in self._readers[table]:
            columns = part.columns_used(table) if isinstance(part, ReadsColumns) else None
            if columns is None:
                return None
            used.update(columns)
        return tuple(sorted(used))

    def apply(self, table: str, change: Change) -> None:
        if not self._log.active:
            self._log.begin()
        for part in self._readers[table]:
            part.apply(table, change)

    def finish(self) -> Mapping[Row, int]:
        """Runs the aggregates on what the batch changed, and the rest of the query on the groups that changed."""
        change = self.values.finish()
        if change is None:
            raise InternalError("the rows that aggregates read do not tell their changes")
        return self.rest.fold(change)

    def commit(self) -> None:
        self._log.commit()
        for part in self._parts:
            part.commit()
        self.values.forget_rows()

    def rollback(self) -> None:
        self._log.rollback()
        for part in self._parts:
            part.rollback()
        self.values.forget_rows()

    # -- reading and saving -----------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        return self.rest.engine.result()

    def watch(self) -> bool:
        return True

    def take_over(self, other: AggregateEngine) -> None:
        """Continues, on generated code, from what the same engine on the interpreter holds."""
        pairs: tuple[tuple[Any, Any], ...] = ((self.values, other.values), (self.groups, other.groups))
        for mine, its in pairs:
            if its is not None:
                migrate(its, mine)
        self.rest.take_over(other.rest)

    def save(self, writer: StateWriter) -> dict[str, object]:
        layouts = {name: part.save(_Section(name, writer)) for name, part in self._named_parts().items()}
        self.rest.states.save(_Section(STATES, writer))
        return layouts

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        for name, part in self._named_parts().items():
            if not part.resume(layout[name], _SavedSection(name, reader)):
                return False
        self.rest.states.resume(_SavedSection(STATES, reader))
        self.rest.read_groups()
        return True

    def _named_parts(self) -> dict[str, Any]:
        return dict(zip(self.plan.programs, self._parts, strict=True))

    def stats(self) -> dict[str, object]:
        stored = [part.stats()["stored"] for part in self._parts]
        sizes = {name: size for part in stored for name, size in part.items()}
        return {"stored": {**sizes, STATES: len(self.rest.states)}}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}


@dataclass(frozen=True, slots=True)
class _Section:
    """A writer for one part of the engine (see `StateWriter`)."""

    name: str
    writer: StateWriter

    def rows(self, part: str, items: Iterable[Item], arity: int, width: int) -> None:
        self.writer.rows(f"{self.name} {part}", items, arity, width)

    def words(self, part: str, words: Any) -> None:
        self.writer.words(f"{self.name} {part}", words)


@dataclass(frozen=True, slots=True)
class _SavedSection:
    """The same, to be read (see `StateReader`)."""

    name: str
    reader: StateReader

    def rows(self, part: str, arity: int) -> Iterable[Item]:
        return self.reader.rows(f"{self.name} {part}", arity)

    def words(self, part: str) -> Any:
        return self.reader.words(f"{self.name} {part}")
