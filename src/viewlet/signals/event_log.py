"""The events of a table in order of group and time, so that those of a group from some time on are found quickly.

Chunks are sorted by slot and start, and their sizes fall at least by half from one to the next. An event that was taken
back is one with a negative multiplicity, until its chunk is merged with that of the event. Nothing is changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from viewlet.signals.batches import Array, Events, real_parts, repeated, side_by_side
from viewlet.signals.order import rows_since

Chunk = tuple[Events, Array]
"""Sorted events, and their multiplicities."""


@dataclass(frozen=True, slots=True)
class EventLog:
    """All events of a source."""

    chunks: tuple[Chunk, ...] = ()

    def add(self, events: Events, multiplicity: Array) -> EventLog:
        """With more events, in any order."""
        if not len(events):
            return self
        chunks = [*self.chunks, _netted([(events, multiplicity)])]
        while len(chunks) > 1 and len(chunks[-2][0]) < 2 * len(chunks[-1][0]):
            newest = chunks.pop()
            chunks[-1] = _netted([chunks[-1], newest])
        return EventLog(tuple(chunks))

    def since(self, slots: Array, bounds: Array, nothing: Events) -> Events:
        """The events of some slots (in ascending order) that start at the bound of their slot or later, sorted; one
        with a multiplicity of two comes twice."""
        parts = []
        for events, weight in self.chunks:
            first, stop = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
            rows_since(events.slot, events.start, slots, bounds, first, stop)
            count = stop - first
            rows = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
            parts.append((events.take(rows), weight[rows]))
        return repeated(*_netted(parts or [(nothing, np.zeros(0, np.int64))]))

    def only(self, slots: Array) -> EventLog:
        """The events of some slots, in ascending order: they are then 0, 1 and so on."""
        chunks = []
        for events, weight in self.chunks:
            is_kept = np.isin(events.slot, slots)
            some = events.take(is_kept)
            chunks.append((replace(some, slot=np.searchsorted(slots, some.slot)), weight[is_kept]))
        return EventLog(tuple(each for each in chunks if len(each[0])))


def _netted(parts: list[Chunk]) -> Chunk:
    """Events and their multiplicities together, sorted; equal ones as one, those that cancel each other left out."""
    events, weight = parts[0]
    if len(parts) > 1:
        events = side_by_side([each for each, _ in parts])
        weight = np.concatenate([each for _, each in parts])
    if (weight > 0).all():
        order = np.lexsort((events.start, events.slot))
        return events.take(order), weight[order]
    columns = [*real_parts(events.value).T, *(() if events.end is None else (events.end,)), events.start, events.slot]
    order = np.lexsort(columns)
    differs = np.concatenate(([True], np.zeros(len(order) - 1, np.bool_)))
    for each in columns:
        differs[1:] |= each[order[1:]] != each[order[:-1]]
    first = np.flatnonzero(differs)
    total = np.add.reduceat(weight[order], first)
    return events.take(order[first[total != 0]]), total[total != 0]
