"""The engine of views with user-defined aggregates: two engines over tables, and the states and the result over them.

    changes of tables ──┬─► values   the rows that the aggregates read ──► states of the groups ──┐
                        └─► groups   the built-in aggregates of each group ──────────────────────┴──► result

`values` and `groups` are ordinary trigger programs, on the interpreter or on generated code. `values` only tells its
changes: between two batches it holds no rows, unless its program needs them. `result` is a `GroupResult`.

What runs on dictionaries shares an undo log of the engine's own, which begins with the first change of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from viewlet.changes import Change
from viewlet.engine.aggregate_plan import AggregatePlan
from viewlet.engine.contract import LocalEngine
from viewlet.engine.group_result import GroupResult
from viewlet.engine.parts import (
    DeltaEngine,
    SavedSection,
    Section,
    columns_used,
    stored_sizes,
    told_change,
)
from viewlet.engine.trigger_programs import migrate
from viewlet.triggers.program import text_digest
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import UndoLog
from viewlet.types import Row

STATES = "states"


class AggregateEngine:
    """Maintains one view with user-defined aggregates."""

    def __init__(
        self,
        name: str,
        plan: AggregatePlan,
        values: DeltaEngine,
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
        return columns_used(self._readers[table], table)

    def apply(self, table: str, change: Change) -> None:
        if not self._log.active:
            self._log.begin()
        for part in self._readers[table]:
            part.apply(table, change)

    def finish(self) -> Mapping[Row, int]:
        """Runs the aggregates on what the batch changed, and the rest of the query on the groups that changed."""
        return self.rest.fold(told_change(self.values))

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
        layouts = {name: part.save(Section(name, writer)) for name, part in self._named_parts().items()}
        self.rest.states.save(Section(STATES, writer))
        return layouts

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        for name, part in self._named_parts().items():
            if not part.resume(layout[name], SavedSection(name, reader)):
                return False
        self.rest.states.resume(SavedSection(STATES, reader))
        self.rest.read_groups()
        return True

    def _named_parts(self) -> dict[str, Any]:
        return dict(zip(self.plan.programs, self._parts, strict=True))

    def stats(self) -> dict[str, object]:
        return {"stored": {**stored_sizes(self._parts), STATES: len(self.rest.states)}}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}
