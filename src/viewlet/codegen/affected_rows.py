"""The rows of stored views that tell how a batch has changed a result over several of them.

    Exists(a.count[k]) * (low := min x: b.count[k, x])      a row of `b` has changed at k = 7: all rows with k = 7

A term of a result reads its views through variables that they share (`triggers.result.TermSources`), so it is evaluated
for the values of these variables that some changed row has, before the batch and after it. Where other terms read the
same views, their rows at other values may be among those that are found. They are the same before and after, and so is
what a term makes of them: it cancels out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viewlet.codegen.process import Column
from viewlet.runtime.flat import FlatStore
from viewlet.runtime.probe import SIZE
from viewlet.triggers.result import TermSources

Slots = Callable[[str, Column], Column]
"""Where a store has the rows with some keys; less than zero for those it does not have."""
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a store as they were and as they are; the first of them, `both` in number, are in the same order."""

    before: Column
    after: Column
    both: int

    def and_same(self, rows: Column) -> ChangedRows:
        """With rows that have not changed."""
        return ChangedRows(np.concatenate([self.before, rows]), np.concatenate([self.after, rows]), 0)


def affected_rows(
    terms: Sequence[TermSources],
    changed: Mapping[str, ChangedRows],
    stores: Mapping[str, FlatStore],
    slots: Slots,
) -> dict[str, ChangedRows]:
    """The changed rows of every view of a result, with those that the terms read along with them."""
    picks: dict[str, list[tuple[tuple[int, ...], Column]]] = {view: [] for view in changed}
    for term in terms:
        touched = [
            rows[:, list(positions)]
            for view, positions in term.positions
            for rows in (changed[view].before, changed[view].after)
        ]
        values = np.concatenate(touched) if touched else np.zeros((0, 0), np.int64)
        if len(values):
            for view, positions in term.positions:
                picks[view].append((positions, values))
    found = {}
    for view, rows in changed.items():
        store = stores[view]
        chosen = _chosen(store, picks[view], slots)
        own = slots(view, rows.after[:, : store.layout.arity])
        chosen[own[own >= 0]] = False
        found[view] = rows.and_same(store.pool[: len(chosen)][chosen])
    return found


def _chosen(store: FlatStore, picks: Sequence[tuple[tuple[int, ...], Column]], slots: Slots) -> Column:
    """Which slots have rows whose key has one of some values at some positions."""
    layout, size = store.layout, int(store.meta[SIZE])
    chosen: Column = np.zeros(size, bool)
    for positions, values in picks:
        if not positions:
            chosen[:] = True
        elif len(positions) == layout.arity:
            keys = np.empty((len(values), layout.arity), np.int64)
            keys[:, list(positions)] = values
            found = slots(layout.name, keys)
            chosen[found[found >= 0]] = True
        else:
            chosen |= _is_among(store.pool[:size, list(positions)], values)
    chosen &= store.live[:size] != 0 if layout.arity else not store.is_empty
    return chosen


def _is_among(rows: Column, values: Column) -> Column:
    """Which rows have the hash of one of the values: those that equal one of them, and maybe others."""
    wanted = np.unique(_hashes(values))
    hashes = _hashes(rows)
    places: Column = np.searchsorted(wanted, hashes)
    places[places == len(wanted)] = 0
    return np.asarray(wanted[places] == hashes)


def _hashes(rows: Column) -> Column:
    hashes = np.zeros(len(rows), np.uint64)
    for i in range(rows.shape[1]):
        hashes = (hashes ^ rows[:, i].view(np.uint64)) * _FACTOR
        hashes ^= hashes >> _HALF
    return hashes
