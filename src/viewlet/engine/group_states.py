"""The states of user-defined aggregates: for every group the number of its rows, and one state for each call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from viewlet.algebra.aggregate_query import AggregateCall, AggregateQuery
from viewlet.errors import DataError
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum, Row

KEYS, STATES = "keys", "states"


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group: how many rows it has, and the states of its aggregates, which are never changed in place."""

    rows: int
    states: tuple[Any, ...]
    results: Row


class GroupStates:
    """The states of all groups, as the rows that the aggregates read come and go.

    Without GROUP BY the one group is there whatever its rows are.
    """

    def __init__(self, view: str, query: AggregateQuery, log: UndoLog) -> None:
        self._view = view
        self._calls = query.calls
        self._keys = query.keys
        self._grouped = query.grouped
        self._log = log
        self._groups: dict[Row, GroupState] = {}
        self.clear()

    def clear(self) -> None:
        """Back to no rows."""
        self._groups = {} if self._grouped else {(): self._empty()}

    def __len__(self) -> int:
        return len(self._groups)

    def results(self, key: Row) -> Row | None:
        """What the aggregates come to in a group, None if there is no such group."""
        group = self._groups.get(key)
        return None if group is None else group.results

    def keys(self) -> Iterable[Row]:
        return self._groups.keys()

    def apply(self, change: Mapping[Row, int]) -> None:
        """Applies a change of the rows that the aggregates read."""
        by_key: dict[Row, list[tuple[Row, int]]] = {}
        for row, count in change.items():
            by_key.setdefault(row[: self._keys], []).append((row, count))
        after = {key: self._changed(key, rows) for key, rows in by_key.items()}
        before = {key: self._groups.get(key) for key in after}
        self._log.record(lambda: self._put(before))
        self._put(after)

    def _changed(self, key: Row, rows: list[tuple[Row, int]]) -> GroupState | None:
        """What a change makes of a group: user code runs here, nothing is changed."""
        old = self._groups.get(key) or self._empty()
        count = old.rows + sum(weight for _, weight in rows)
        try:
            states = tuple(_folded(call, state, rows) for call, state in zip(self._calls, old.states, strict=True))
            if count == 0:
                return None if self._grouped else self._empty()
            return self._group(count, states)
        except DataError as error:
            raise DataError(f"view {self._view!r}: {error}") from error.__cause__

    def _empty(self) -> GroupState:
        return self._group(0, tuple(call.aggregate.zero for call in self._calls))

    def _group(self, rows: int, states: tuple[Any, ...]) -> GroupState:
        results: list[Datum] = [call.aggregate.value(state) for call, state in zip(self._calls, states, strict=True)]
        return GroupState(rows, states, tuple(results))

    def _put(self, groups: Mapping[Row, GroupState | None]) -> None:
        for key, group in groups.items():
            if group is None:
                self._groups.pop(key, None)
            else:
                self._groups[key] = group

    def take_over(self, other: GroupStates) -> None:
        """Continues with the groups of another engine of the same view."""
        self._groups = dict(other._groups)

    def save(self, writer: StateWriter) -> None:
        """Writes keys and numbers of rows as rows, and the states of each call as words of a fixed width."""
        writer.rows(KEYS, ((key, (group.rows,)) for key, group in self._groups.items()), self._keys, 1)
        for i, call in enumerate(self._calls):
            states = [group.states[i] for group in self._groups.values()]
            writer.words(f"{STATES} {i}", call.aggregate.layout.pack(states))

    def resume(self, reader: StateReader) -> None:
        """Continues from what `save` wrote."""
        items = list(reader.rows(KEYS, self._keys))
        columns = [call.aggregate.layout.unpack(reader.words(f"{STATES} {i}")) for i, call in enumerate(self._calls)]
        states: Iterator[tuple[Any, ...]] = zip(*columns, strict=True)
        self._groups = {tuple(key): self._group(rows, held) for (key, (rows,)), held in zip(items, states, strict=True)}


def _folded(call: AggregateCall, state: Any, rows: list[tuple[Row, int]]) -> Any:
    """The state of one call after a change; rows that it does not tell apart are one."""
    counts: dict[Row, int] = {}
    for row, weight in rows:
        values = tuple(row[position] for position in call.positions)
        counts[values] = counts.get(values, 0) + weight
    return call.aggregate.fold(state, [item for item in counts.items() if item[1]], call.types)
