"""The engine of views with user-defined aggregates: two engines below, one above, and the states between them.

    changes of tables ──┬─► values   the rows that the aggregates read ──► states of the groups ──┐
                        └─► groups   the built-in aggregates of each group ──────────────────────┴──► result

`values` and `groups` are ordinary trigger programs, on the interpreter or on generated code. `values` only tells its
changes: between two batches it holds no rows, unless its program needs them. `result` reads a row per group (keys,
built-in aggregates, results) and runs on the interpreter: it sees as many rows as there are groups that changed.

What runs on dictionaries shares an undo log of the engine's own, which begins with the first change of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from viewlet.algebra.aggregate_query import AggregateQuery
from viewlet.changes import Change, RowChange
from viewlet.engine.contract import LocalEngine, ReadsColumns
from viewlet.engine.group_states import GroupStates
from viewlet.errors import InternalError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program, text_digest
from viewlet.triggers.saved_state import Item, StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Row

VALUES, GROUPS, RESULT, STATES = "values", "groups", "result", "states"


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """What the parts of the engine run."""

    query: AggregateQuery
    values: Program
    groups: Program | None
    result: Program

    @property
    def strategy(self) -> str:
        return self.values.strategy

    @property
    def programs(self) -> dict[str, Program]:
        """The programs by the name of the part that runs them."""
        found = {VALUES: self.values, RESULT: self.result}
        return found if self.groups is None else {VALUES: self.values, GROUPS: self.groups, RESULT: self.result}


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
        self.states = GroupStates(plan.result.name, plan.query, log)
        self.result_engine = Interpreter(plan.result, sources.stores, log)
        self._parts: tuple[Any, ...] = tuple(part for part in (values, groups, self.result_engine) if part is not None)
        self._readers = {
            table: tuple(part for part in self._parts if part.plan.trigger(table) is not None)
            for table in sources.tables
        }
        self._stores = sources.stores
        self._log = log
        self._table = plan.query.table.name
        self._keys = plan.query.keys
        self._built_in: dict[Row, Row] = {}
        """The built-in aggregates of each group, by its key."""
        if not values.watch():
            raise InternalError("the rows that aggregates read do not tell their changes")
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
        self.states.clear()
        self.states.apply(self.values.result())
        self.values.forget_rows()
        self.values.watch()
        if self.groups is not None:
            self.groups.load()
            self.groups.watch()
            self._read_groups()
        rows = MapStore()
        for row in map(self._row, self._all_keys()):
            if row is not None:
                rows.add(row, (1,))
        self.result_engine.restore(self.result_engine.evaluate({**self._stores, self._table: rows}))

    def _read_groups(self) -> None:
        if self.groups is not None:
            self._built_in = {row[: self._keys]: row[self._keys :] for row in self.groups.result()}

    def _all_keys(self) -> Iterable[Row]:
        return list(self.states.keys() if self.groups is None else self._built_in)

    def _row(self, key: Row) -> Row | None:
        """The row of a group, None if there is no such group."""
        built_in = () if self.groups is None else self._built_in.get(key)
        results = self.states.results(key)
        return None if built_in is None or results is None else (*key, *built_in, *results)

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
        built_in = self._changed_built_in()
        touched = [*dict.fromkeys((*(row[: self._keys] for row in change), *built_in))]
        before = [self._row(key) for key in touched]
        self.states.apply(change)
        self._set_built_in(built_in)
        rows: dict[Row, int] = {}
        for old, new in zip(before, map(self._row, touched), strict=True):
            if old != new:
                rows.update({old: -1} if old is not None else {})
                rows.update({new: 1} if new is not None else {})
        self.result_engine.apply(self._table, RowChange(rows))
        return self.result_engine.finish()

    def _changed_built_in(self) -> dict[Row, Row | None]:
        """The built-in aggregates of groups where they are not what they were; None where the group is gone."""
        if self.groups is None:
            return {}
        change = self.groups.finish()
        if change is None:
            now = {row[: self._keys]: row[self._keys :] for row in self.groups.result()}
            gone: dict[Row, Row | None] = {key: None for key in self._built_in if key not in now}
            return gone | {key: row for key, row in now.items() if self._built_in.get(key) != row}
        new: dict[Row, Row | None] = {row[: self._keys]: None for row, count in change.items() if count < 0}
        return new | {row[: self._keys]: row[self._keys :] for row, count in change.items() if count > 0}

    def _set_built_in(self, changed: Mapping[Row, Row | None]) -> None:
        before = {key: self._built_in.get(key) for key in changed}
        self._log.record(lambda: self._put_built_in(before))
        self._put_built_in(changed)

    def _put_built_in(self, rows: Mapping[Row, Row | None]) -> None:
        for key, row in rows.items():
            if row is None:
                self._built_in.pop(key, None)
            else:
                self._built_in[key] = row

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
        return self.result_engine.result()

    def watch(self) -> bool:
        return True

    def take_over(self, other: AggregateEngine) -> None:
        """Continues, on generated code, from what the same engine on the interpreter holds."""
        for mine, its in ((self.values, other.values), (self.groups, other.groups)):
            if isinstance(its, Interpreter):
                _migrate(mine, its)
        self.states.take_over(other.states)
        self._built_in = dict(other._built_in)
        self.result_engine.restore({name: dict(store.items()) for name, store in other.result_engine.stores.items()})

    def save(self, writer: StateWriter) -> dict[str, object]:
        layouts = {name: part.save(_Section(name, writer)) for name, part in self._named_parts().items()}
        self.states.save(_Section(STATES, writer))
        return layouts

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        for name, part in self._named_parts().items():
            if not part.resume(layout[name], _SavedSection(name, reader)):
                return False
        self.states.resume(_SavedSection(STATES, reader))
        self._read_groups()
        return True

    def _named_parts(self) -> dict[str, Any]:
        return dict(zip(self.plan.programs, self._parts, strict=True))

    def stats(self) -> dict[str, object]:
        stored = [part.stats()["stored"] for part in self._parts]
        sizes = {name: size for part in stored for name, size in part.items()}
        return {"stored": {**sizes, STATES: len(self.states)}}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}


def _migrate(mine: Any, its: Interpreter) -> None:
    """Gives a part what the same part holds on the interpreter, whatever runs it from now on."""
    if mine.plan.views != its.program.views:
        raise InternalError("the engines do not keep the same views")
    if isinstance(mine, Interpreter):
        mine.restore({name: dict(store.items()) for name, store in its.stores.items()})
    else:
        mine.take_over(its.stores)


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
