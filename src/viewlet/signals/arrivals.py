"""The events of streams as they arrive: which are late, and which wait for others that may still come before them.

An event waits until its group has one `lateness` ticks later. Intervals that may overlap wait, cut where others begin
or end, until no event can begin inside them any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array, Batch, Events, in_order, runs, together
from viewlet.signals.groups import Groups
from viewlet.signals.ingest import Describe, no_events, without_overlaps
from viewlet.signals.nodes import Source
from viewlet.signals.state import NEVER, Field, State

FEWEST_GONE = 1 << 10
"""Groups from which on those that are gone are given up."""


class Arrivals:
    """What is known of the events of each source, by slot."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self.state = State(
            [Field(f"{name}{i}", (), "i8", NEVER) for i in range(len(self._sources)) for name in ("end", "newest")]
        )
        """Of each source, where the last event that has run ends, and the start of the newest that came."""
        self.late = (0,) * len(self._sources)
        """Events that came too late, by source."""
        self.clock = NEVER
        """The start of the newest event of all groups."""

    @property
    def facts(self) -> tuple[tuple[int, ...], int]:
        """What is not in the state."""
        return self.late, self.clock

    @facts.setter
    def facts(self, facts: tuple[tuple[int, ...], int]) -> None:
        self.late, self.clock = facts

    def ends(self, number: int) -> Array:
        """Where the last event of each slot that has run ends."""
        return self.state[f"end{number}"]

    def note(self, ready: Sequence[Events]) -> None:
        """Sorted events run now."""
        for number, events in enumerate(ready):
            first, slots = runs(events.slot)
            stops = events.start + 1 if events.end is None else events.end
            ends = self.ends(number)
            ends[slots] = np.maximum(ends[slots], stops[first[1:] - 1])

    def due(self, number: int, events: Events, describe: Describe) -> Events:
        """The events of a stream that can run now."""
        source = self._sources[number]
        events = self._without_late(number, events, describe)
        if source.idle and len(events):
            self.clock = max(self.clock, int(events.start.max()))
        if not source.lateness and (source.end is None or source.overlap == "error"):
            return events
        newest = self.state[f"newest{number}"]
        np.maximum.at(newest, events.slot, events.start)
        waiting = self.state.waiting or (Backlog(),) * len(self._sources)
        everything = together([waiting[number].rows(no_events(source)), events])
        frontier = newest[everything.slot] - source.lateness
        kept = list(waiting)
        found: Events
        if source.end is None or source.overlap == "error":
            is_due = everything.start <= frontier
            found, rest = everything.take(is_due), everything.take(~is_due)
        else:
            found, rest = self._settled(number, everything, frontier, describe)
        kept[number] = Backlog.of(rest)
        self.state.waiting = tuple(kept)
        return found

    def _settled(self, number: int, events: Events, frontier: Array, describe: Describe) -> tuple[Events, Events]:
        """What intervals come to where no other one can begin any more, and what is left of them."""
        assert events.end is not None
        groups = int(events.slot.max()) + 1 if len(events) else 0
        reach = np.zeros(groups, np.int64)
        reach[events.slot] = frontier
        merged = without_overlaps(self._sources[number], in_order(events), describe)
        assert merged.end is not None
        is_due = merged.end <= reach[merged.slot]
        found = merged.take(is_due)
        done = np.full(groups, NEVER)
        assert found.end is not None
        np.maximum.at(done, found.slot, found.end)
        rest = events.take(events.end > done[events.slot])
        return found, Events(rest.slot, np.maximum(rest.start, done[rest.slot]), rest.value, rest.end)

    def _without_late(self, number: int, events: Events, describe: Describe) -> Events:
        source, ends = self._sources[number], self.ends(number)
        bound = ends[events.slot]
        if source.overlap != "error" and source.end is not None:
            newest = self.state[f"newest{number}"][events.slot]
            bound = np.where(newest == NEVER, NEVER, newest - source.lateness)
        if source.idle and self.clock != NEVER:
            # A group that is not known may have been given up: it was silent for twice as long.
            is_known = (ends[events.slot] != NEVER) | (self.state[f"newest{number}"][events.slot] != NEVER)
            bound = np.where(is_known, bound, self.clock - source.idle)
        is_late = events.start < bound
        if not is_late.any():
            return events
        if source.late == "refuse":
            row = int(np.flatnonzero(is_late)[0])
            raise DataError(
                f"{source.table}: an event {describe(int(events.slot[row]))} at {source.time} = {events.start[row]} "
                f"comes after one that ends at {bound[row]}: say lateness= to wait for late events, late='count' to "
                "leave them out"
            )
        late = list(self.late)
        late[number] += int(is_late.sum())
        self.late = tuple(late)
        return events.take(~is_late)

    # -- idle groups ---------------------------------------------------------------------------------------------------

    def follow(self, groups: Groups, before: Array) -> None:
        """Some groups restart, with the last slots of `groups` in place of those before: what waits is theirs."""
        if not len(before):
            return
        newest = self.state["newest0"]
        newest[groups.count - len(before) : groups.count] = newest[before]
        assert groups.latest is not None
        assert groups.codes is not None
        latest, codes = groups.latest, groups.codes
        self.state.waiting = tuple(each.renumbered(lambda slot: latest[codes[slot]]) for each in self.state.waiting)

    def active(self, count: int) -> Array | None:
        """Of each of the first slots, whether its group was not silent for twice the idle time, if that is said."""
        idle = self._sources[0].idle
        return self.ends(0)[:count] >= self.clock - 2 * idle if idle else None

    def left(self, groups: Groups, active: Array, samples: Sequence[Batch]) -> Array | None:
        """The slots to keep, where enough others can be given up: those of groups that are not active, and of which no
        sample is left."""
        if groups.count < FEWEST_GONE or np.count_nonzero(active) > groups.count // 2:
            return None
        for chunk in (*samples, *(chunk for each in self.state.waiting for chunk in each.chunks)):
            active[chunk.slot] = True
        active[-1] |= not groups.words
        return np.flatnonzero(active) if np.count_nonzero(active) <= groups.count // 2 else None
