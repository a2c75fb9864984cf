"""A query that is kept up to date: batches of events become changes of its samples.

Events of a group that follow those before are run as they come. Where a table has rows that are late, corrected or
deleted, the group is computed again from all of its rows, and what differs is the change. A stream keeps no rows: its
events wait for `lateness`, and are late if they come after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.batches import Array, Batch, Events, in_order, together
from viewlet.signals.form import Form, form_of
from viewlet.signals.groups import Groups
from viewlet.signals.ingest import Describe, without_overlaps
from viewlet.signals.nodes import Signal, Source
from viewlet.signals.output import Output
from viewlet.signals.program import Program
from viewlet.signals.state import NEVER, Field, Saved, State


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a batch does to the events of one source: rows in any order, with multiplicities."""

    events: Events
    multiplicity: Array


@dataclass(frozen=True, slots=True)
class Delta:
    """What a batch does to the samples of a view; some may be in both."""

    removed: tuple[Batch, ...] = ()
    added: tuple[Batch, ...] = ()


History = Callable[[int, Array], Events]
"""All events that a source has now of some slots."""


@dataclass(frozen=True, slots=True)
class _Before:
    """What a batch that is under way has changed."""

    groups: Groups
    output: Output
    late: tuple[int, ...]
    newest: int
    arrivals: Saved
    program: list[Saved]


class Maintenance:
    """The groups, the state and the samples of a view."""

    def __init__(self, query: Signal, kept: Sequence[bool], retain: int | None) -> None:
        self.program = Program(query)
        self.form = form_of(query)
        self.sources = self.program.sources
        self.groups = Groups.of(len(self.sources[0].key))
        self.output = Output()
        self.late = (0,) * len(self.sources)
        """Events that came too late, by source."""
        self.newest = NEVER
        """The position of the newest sample."""
        self.arrivals = State(
            [Field(f"{name}{i}", (), "i8", NEVER) for i in range(len(self.sources)) for name in ("end", "newest")]
        )
        """Of each source, where the last event that has run ends, and the start of the newest that came."""
        self._kept, self._retain = tuple(kept), _positions(self.form, retain)
        self._before: _Before | None = None
        self.reserve()

    def reserve(self) -> None:
        """Makes room for the groups that are known."""
        self.program.reserve(self.groups.count)
        self.arrivals.reserve(self.groups.count)

    # -- batches -------------------------------------------------------------------------------------------------------

    def advance(self, groups: Groups, arrived: Sequence[Arrival], history: History, describe: Describe) -> Delta:
        """Runs a batch; `groups` has those that are new in it."""
        before, self.groups = self.groups, groups
        self.reserve()
        touched = np.unique(np.concatenate([each.events.slot for each in arrived]))
        self._before = _Before(
            before,
            self.output,
            self.late,
            self.newest,
            self.arrivals.save(touched),
            self.program.save(touched),
        )
        again = np.unique(np.concatenate([self._disturbed(i, each) for i, each in enumerate(arrived)]))
        if len(again):
            self.program.reset(again)
            self.arrivals.reset(again)
        ready = []
        for number, each in enumerate(arrived):
            events = each.events
            if len(again):
                old = history(number, again) if self._kept[number] else events.take(slice(0))
                events = together([events.take(~np.isin(events.slot, again)), old])
            ready.append(self._ready(number, events, describe))
        found = self.program.run(ready)
        gone: list[Batch] = []
        if len(again):
            self.output, gone = self.output.split(again)
        self.output = self.output.add(found)
        gone += self._forget(found)
        return Delta(tuple(gone), (found,))

    def commit(self) -> None:
        """The batch is permanent."""
        self._before = None

    def rollback(self) -> None:
        """Takes the batch back; may be called again."""
        if (before := self._before) is not None:
            self.program.restore(before.program)
            self.arrivals.restore(before.arrivals)
            self.groups, self.output, self.late = before.groups, before.output, before.late
            self.newest = before.newest
            self._before = None

    def _disturbed(self, number: int, arrival: Arrival) -> Array:
        """The slots of a table whose rows do not simply follow those before."""
        events = arrival.events
        if not self._kept[number]:
            if len(events) and arrival.multiplicity.min() < 0:
                raise DataError(
                    f"{self.sources[number].table} is a stream, whose rows cannot be taken back under a signal; make "
                    "it a TABLE"
                )
            return events.slot[:0]
        is_late = events.start < self.arrivals[f"end{number}"][events.slot]
        return events.slot[is_late | (arrival.multiplicity != 1)]

    def _ready(self, number: int, events: Events, describe: Describe) -> Events:
        """Events that can run now: in order, one at a time, and of a stream, no longer expected to be overtaken."""
        source = self.sources[number]
        ends = self.arrivals[f"end{number}"]
        if not self._kept[number]:
            events = self._in_time(number, source, events, describe)
        events = without_overlaps(source, in_order(events, self.groups.count), describe)
        if len(events):
            last = np.append(np.flatnonzero(events.slot[1:] != events.slot[:-1]), len(events) - 1)
            stops = events.start + 1 if events.end is None else events.end
            ends[events.slot[last]] = stops[last]
        return events

    def _in_time(self, number: int, source: Source, events: Events, describe: Describe) -> Events:
        ends = self.arrivals[f"end{number}"]
        is_late = events.start < ends[events.slot]
        if is_late.any():
            if source.late == "refuse":
                row = int(np.flatnonzero(is_late)[0])
                raise DataError(
                    f"{source.table}: an event {describe(int(events.slot[row]))} at {source.time} = "
                    f"{events.start[row]} comes after one that ends at {ends[events.slot[row]]}: say lateness= to wait "
                    "for late events, late='count' to leave them out"
                )
            late = list(self.late)
            late[number] += int(is_late.sum())
            self.late = tuple(late)
            events = events.take(~is_late)
        if not source.lateness:
            return events
        newest = self.arrivals[f"newest{number}"]
        np.maximum.at(newest, events.slot, events.start)
        waiting = self.arrivals.waiting or tuple(events.take(slice(0)) for _ in self.sources)
        everything = together([waiting[number], events])
        is_due = everything.start <= newest[everything.slot] - source.lateness
        kept = list(waiting)
        kept[number] = everything.take(~is_due)
        self.arrivals.waiting = tuple(kept)
        return everything.take(is_due)  # type: ignore[no-any-return]

    def _forget(self, found: Batch) -> list[Batch]:
        """The samples that are older than those to be retained."""
        if self._retain is None or not len(found):
            return []
        self.newest = max(self.newest, int(found.position.max()))
        self.output, gone = self.output.after(self.newest - self._retain)
        return gone

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Facts, as JSON, and arrays by name."""
        arrays: dict[str, Array] = {}
        count = self.groups.count
        states = [self.arrivals, *self.program.states()]
        waiting = []
        for number, state in enumerate(states):
            for name, array in state.arrays.items():
                arrays[f"state {number} {name}"] = array[:count]
            waiting.append([_write(arrays, f"waiting {number} {i}", each) for i, each in enumerate(state.waiting)])
        output = [_write(arrays, f"output {i}", chunk) for i, chunk in enumerate(self.output.chunks)]
        facts = {"late": list(self.late), "newest": self.newest, "waiting": waiting, "output": output}
        return facts, arrays

    def resume(self, groups: Groups, facts: Any, read: Callable[[str], Array]) -> None:
        """Continues from what `save` gave."""
        self.groups = groups
        self.late, self.newest = tuple(facts["late"]), facts["newest"]
        for number, state in enumerate([self.arrivals, *self.program.states()]):
            for name in state.arrays:
                state.arrays[name] = read(f"state {number} {name}").copy()
            kinds = facts["waiting"][number]
            state.waiting = tuple(_read(read, f"waiting {number} {i}", kind) for i, kind in enumerate(kinds))
        self.output = Output(tuple(_read(read, f"output {i}", kind) for i, kind in enumerate(facts["output"])))
        self.reserve()


def _positions(form: Form, ticks: int | None) -> int | None:
    """A duration as a difference of positions."""
    return ticks if ticks is None or form.grid is None else int(ticks / form.grid.period)


def _write(arrays: dict[str, Array], name: str, batch: Batch) -> list[str]:
    """Adds the columns of a batch; returns their names, after the kind of batch."""
    columns = {each: getattr(batch, each) for each in batch.__dataclass_fields__}
    found = [each for each, column in columns.items() if column is not None]
    arrays.update({f"{name} {each}": columns[each] for each in found})
    return [type(batch).__name__, *found]


def _read(read: Callable[[str], Array], name: str, kind: Sequence[str]) -> Batch:
    from viewlet.signals.batches import Samples

    made = {"Events": Events, "Samples": Samples}[kind[0]]
    return made(**{each: read(f"{name} {each}") for each in kind[1:]})  # type: ignore[no-any-return]
