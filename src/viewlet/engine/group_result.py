"""The result of a view with user-defined aggregates, over a row for every group.

    built-in aggregates of the groups ──┐
                                        ├──► keys, built-in aggregates, results ──► the rest of the query
    states of the groups ───────────────┘

Changes are undone with the undo log of the engine that owns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewlet.changes import RowChange
from viewlet.engine.aggregate_plan import AggregatePlan
from viewlet.engine.contract import Engine
from viewlet.engine.group_states import GroupStates
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.store import MapStore, RowStore, UndoLog
from viewlet.types import Row


class GroupResult:
    """The groups of a view, and what the rest of its query makes of them, on the interpreter.

    It sees as many rows as there are groups that changed. `groups` is the engine of the built-in aggregates, if there
    are any.
    """

    def __init__(
        self, plan: AggregatePlan, groups: Engine | None, stores: Mapping[str, RowStore], log: UndoLog
    ) -> None:
        self.states = GroupStates(plan.result.name, plan.query, log)
        self.engine = Interpreter(plan.result, stores, log)
        self._groups = groups
        self._stores = stores
        self._log = log
        self._table = plan.query.table.name
        self._keys = plan.query.keys
        self._built_in: dict[Row, Row] = {}
        """The built-in aggregates of each group, by its key."""

    def fill(self, values: Mapping[Row, int]) -> None:
        """Recomputes states and result from the rows that the aggregates read, once the groups are filled."""
        self.states.clear()
        self.states.apply(values)
        self.read_groups()
        rows = {row: 1 for row in map(self._row, self._all_keys()) if row is not None}
        self.engine.restore(self.engine.evaluate({**self._stores, self._table: MapStore.of_rows(rows)}))

    def read_groups(self) -> None:
        """Takes the built-in aggregates from the engine that keeps them."""
        if self._groups is not None:
            self._built_in = self._by_key(self._groups.result())

    def _by_key(self, rows: Iterable[Row]) -> dict[Row, Row]:
        return {row[: self._keys]: row[self._keys :] for row in rows}

    def _all_keys(self) -> Iterable[Row]:
        return list(self.states.keys() if self._groups is None else self._built_in)

    def _row(self, key: Row) -> Row | None:
        """The row of a group, None if there is no such group."""
        built_in = () if self._groups is None else self._built_in.get(key)
        results = self.states.results(key)
        return None if built_in is None or results is None else (*key, *built_in, *results)

    def fold(self, change: Mapping[Row, int]) -> Mapping[Row, int]:
        """Ends a batch: what a change of the rows that the aggregates read, and of the groups, does to the result."""
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
        self.engine.apply(self._table, RowChange(rows))
        return self.engine.finish()

    def _changed_built_in(self) -> dict[Row, Row | None]:
        """The built-in aggregates of groups where they are not what they were; None where the group is gone."""
        if self._groups is None:
            return {}
        change = self._groups.finish()
        if change is None:
            now = self._by_key(self._groups.result())
            gone: dict[Row, Row | None] = {key: None for key in self._built_in if key not in now}
            return gone | {key: row for key, row in now.items() if self._built_in.get(key) != row}
        left: dict[Row, Row | None] = {row[: self._keys]: None for row, count in change.items() if count < 0}
        return left | self._by_key(row for row, count in change.items() if count > 0)

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

    def take_over(self, other: GroupResult) -> None:
        """Continues with what another engine of the same view holds."""
        self.states.take_over(other.states)
        self._built_in = dict(other._built_in)
        self.engine.take_over(other.engine.stores)
