"""A query that is kept up to date: batches of events become changes of its samples.

Events of a group that follow those before are run as they come. Where a table has rows that are late, corrected or
deleted, the group goes back to its last checkpoint before the first of them and continues from there with its rows, and
what differs is the change. A stream keeps no rows: its events wait for `lateness` (`arrivals.py`), and are late if they
come after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.arrivals import Arrivals
from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array, Batch, Events, in_order, repeated, runs, together
from viewlet.signals.checkpoints import Checkpoints, pieces
from viewlet.signals.event_log import EventLog
from viewlet.signals.form import Form, form_of
from viewlet.signals.groups import Groups
from viewlet.signals.idle import restart_idle
from viewlet.signals.ingest import Describe, no_events, without_overlaps
from viewlet.signals.nodes import Signal
from viewlet.signals.output import Output
from viewlet.signals.program import Program
from viewlet.signals.state import NEVER, Field, Saved, State

FARTHEST = np.iinfo(np.int64).max


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


History = Callable[[int], Arrival]
"""All events that a source has now."""


@dataclass(frozen=True, slots=True)
class _Before:
    """What a batch that is under way has changed."""

    groups: Groups
    output: Output
    tail: Output
    logs: tuple[EventLog, ...] | None
    newest: int
    facts: tuple[tuple[int, ...], int]
    states: list[Saved]


class Maintenance:
    """The groups, the state and the samples of a view."""

    def __init__(self, query: Signal, kept: Sequence[bool], retain: int | None, *, keeps_events: bool = False) -> None:
        self.program = Program(query)
        self.form = form_of(query)
        self.sources = self.program.sources
        self.groups = Groups.of(len(self.sources[0].key))
        self.output = Output()
        self.newest = NEVER
        """The position of the newest sample."""
        self.arrivals = Arrivals(self.sources)
        self.progress = State([Field("run", (), "i8"), Field("checkpoint", (), "i8"), Field("shown", (), "i8", NEVER)])
        """Of each group: how many events have run, now and at its last checkpoint; the position of its last sample."""
        self._kept, self._is_kept = tuple(kept), all(kept)
        self._is_cut = self._is_kept and all(each.end is None or each.overlap == "error" for each in self.sources)
        """Checkpoints lie between events: what becomes of intervals that overlap may have edges inside others."""
        self._retain = _positions(self.form, retain)
        self._keeps_events = keeps_events and self._is_kept
        self._logs: tuple[EventLog, ...] | None = (EventLog(),) * len(self.sources) if self._keeps_events else None
        """The events of each source: always, or once rows of its table have been late, corrected or deleted."""
        self._checkpoints = Checkpoints(self._states())
        self._before: _Before | None = None
        self._shown: Program | None = None
        """The same query without samples that wait for a last value; None if none ever do."""
        self.tail = Output()
        """The samples of the view that may still change, because they have the last value that is known now."""
        if self.program.last_value_sources:
            self._shown = Program(query)
            self._shown.show_all()
        self.reserve()

    def _states(self) -> list[State]:
        return [self.arrivals.state, self.progress, *self.program.states()]

    def _all_states(self) -> list[State]:
        """With those that follow from others, and are in no checkpoint and no snapshot."""
        return [*self._states(), *(self._shown.states() if self._shown else ())]

    @property
    def chunks(self) -> tuple[Batch, ...]:
        """The samples of the view."""
        return (*self.output.chunks, *self.tail.chunks)

    def __len__(self) -> int:
        return len(self.output) + len(self.tail)

    @property
    def late(self) -> int:
        """Events that came too late."""
        return sum(self.arrivals.late)

    @property
    def waiting(self) -> int:
        """Events and samples that wait for others."""
        return sum(each.waiting for state in self._states() for each in state.waiting)

    def reserve(self) -> None:
        """Makes room for the groups that are known."""
        for state in self._all_states():
            state.reserve(self.groups.count)

    # -- batches -------------------------------------------------------------------------------------------------------

    def advance(self, groups: Groups, arrived: Sequence[Arrival], history: History, describe: Describe) -> Delta:
        """Runs a batch; `groups` has those that are new in it."""
        self._begin(groups, np.unique(np.concatenate([each.events.slot for each in arrived])))
        events = [each.events for each in arrived]
        gone: list[Batch] = []
        again = np.zeros(0, np.int64)
        if self._is_kept:
            events, gone, again = self._corrected(arrived, history)
        else:
            events = [self._in_time(number, each, describe) for number, each in enumerate(arrived)]
        ready = [
            without_overlaps(source, in_order(each, self.groups.count), describe)
            for source, each in zip(self.sources, events, strict=True)
        ]
        added, ran = self._run(ready)
        self.output = self.output.add(added)
        changed: list[Batch] = [added]
        if self._shown is not None:
            removed, news = self._show(self._shown, ran, np.union1d(again, added.slot))
            gone, changed = [*gone, *removed], [added, *news]
        return Delta((*gone, *self._forget(changed)), tuple(changed))

    def _show(self, shown: Program, ran: list[Events], again: Array) -> tuple[list[Batch], list[Batch]]:
        """What a batch does to the samples that may still change. They are computed again from those that are final in
        the groups for which that is not all: `again`, and those with a new value of which others take the last."""
        values = [ran[number].slot for number in self.program.last_value_sources]
        slots = np.unique(np.concatenate([again, *values]))
        rest = [each.take(~np.isin(each.slot, slots)) for each in ran]
        shown.follow(self.program, slots[:0])
        news = [shown.run(rest)]
        shown.follow(self.program, slots)
        news.append(shown.run([no_events(each) for each in self.sources]))
        self.tail, gone = self.tail.split(slots, np.full(len(slots), NEVER))
        for each in news:
            self.tail = self.tail.add(each)
        return gone, news

    def _begin(self, groups: Groups, touched: Array) -> None:
        before, self.groups = self.groups, groups
        self.reserve()
        self._before = _Before(
            before,
            self.output,
            self.tail,
            self._logs,
            self.newest,
            self.arrivals.facts,
            [state.save(touched) for state in self._all_states()],
        )

    def commit(self) -> None:
        """The batch is permanent; the state of groups that have been idle, or whose events are gone, is given up."""
        before, self._before = self._before, None
        self._checkpoints.commit()
        count, active = self.groups.count, None
        if not self._is_kept:
            active = self.arrivals.active(count)
        elif before is not None and before.groups.count < count:
            active = self.progress["run"][:count] > 0
        kept = None if active is None else self.arrivals.left(self.groups, active, self.chunks)
        if kept is not None:
            self.groups = self.groups.only(kept)
            self.output, self.tail = self.output.renumbered(kept), self.tail.renumbered(kept)
            for state in self._all_states():
                state.only(kept)
            self._checkpoints.only(kept)
            if self._logs is not None:
                self._logs = tuple(log.only(kept) for log in self._logs)

    def rollback(self) -> None:
        """Takes the batch back; may be called again."""
        if (before := self._before) is not None:
            fresh = np.arange(before.groups.count, self.groups.count)
            for state, saved in zip(self._all_states(), before.states, strict=True):
                state.reset(fresh)
                state.restore(saved)
            self._checkpoints.rollback()
            self.groups, self.output, self._logs = before.groups, before.output, before.logs
            self.tail = before.tail
            self.newest, self.arrivals.facts = before.newest, before.facts
            self._before = None

    def _in_time(self, number: int, arrival: Arrival, describe: Describe) -> Events:
        """The events of a stream that can run now, those of groups that return after idle time as of new groups."""
        source, events = self.sources[number], arrival.events
        if len(events) and arrival.multiplicity.min() < 0:
            raise DataError(
                f"{source.table} is {'read beside ' if self._kept[number] else ''}a stream, whose rows cannot be taken "
                "back under a signal; make it a TABLE"
            )
        return self.arrivals.due(number, repeated(events, arrival.multiplicity), describe)

    def _corrected(self, arrived: Sequence[Arrival], history: History) -> tuple[list[Events], list[Batch], Array]:
        """The events to run: new ones, and those of disturbed groups since a checkpoint; samples that are void; and
        the disturbed groups."""
        ends = [self.arrivals.ends(number) for number in range(len(arrived))]
        late = []
        for each, end in zip(arrived, ends, strict=True):
            is_late = (each.events.start < end[each.events.slot]) | (each.multiplicity != 1)
            late.append(each.events.take(is_late))
        slots = np.unique(np.concatenate([each.slot for each in late]))
        events = [each.events for each in arrived]
        if self._logs is not None:
            pairs = zip(self._logs, arrived, strict=True)
            self._logs = tuple(log.add(each.events, each.multiplicity) for log, each in pairs)
        if not len(slots):
            return events, [], slots
        if self._logs is None:
            self._logs = tuple(_log(history(number)) for number in range(len(arrived)))
        self._checkpoints.restore(slots, [_first(each, slots) for each in late])
        for number, (log, new) in enumerate(zip(self._logs, events, strict=True)):
            again = log.since(slots, self.arrivals.ends(number)[slots], new.take(slice(0)))
            events[number] = together([new.take(~np.isin(new.slot, slots)), again])
        self.output, gone = self.output.split(slots, self.progress["shown"][slots])
        return events, gone, slots

    def _run(self, ready: list[Events]) -> tuple[Any, list[Events]]:
        """The samples of sorted events, and the events by their groups; checkpoints are taken on the way."""
        found, ran = [], list[list[Events]]()
        for piece in pieces(ready, self._checkpoints.interval) if self._is_cut else [ready]:
            if not self._is_kept:
                piece = self._alive(piece)
            self.arrivals.note(piece)
            ran.append(piece)
            found.append(self.program.run(piece))
            first, slots = runs(found[-1].slot)
            self.progress["shown"][slots] = found[-1].position[first[1:] - 1]
            if self._is_kept:
                self._take_checkpoints(piece)
        return together(found), [together(parts) for parts in zip(*ran, strict=True)] if self._shown else ready

    def _alive(self, ready: list[Events]) -> list[Events]:
        """Events of groups that have been idle belong to new groups from now on."""
        if not self.sources[0].idle:
            return ready
        (events,) = ready
        ends, idle = self.arrivals.ends(0), self.sources[0].idle
        events, self.groups, before = restart_idle(events, ends, idle, self.groups)
        self.reserve()
        self.arrivals.follow(self.groups, before)
        return [events]

    def _take_checkpoints(self, piece: Sequence[Events]) -> None:
        run = self.progress["run"]
        touched = []
        for each in piece:
            first, slots = runs(each.slot)
            run[slots] += np.diff(first)
            touched.append(slots)
        slots = np.unique(np.concatenate(touched))
        due = slots[run[slots] - self.progress["checkpoint"][slots] >= self._checkpoints.interval]
        if len(due):
            self.progress["checkpoint"][due] = run[due]
            ends = [self.arrivals.ends(number)[due] for number in range(len(piece))]
            self._checkpoints.take(due, run[due], ends)

    def _forget(self, found: Sequence[Batch]) -> list[Batch]:
        """The samples that are older than those to be retained."""
        if self._retain is None or not any(map(len, found)):
            return []
        self.newest = max(self.newest, *(int(each.position.max()) for each in found if len(each)))
        self.output, gone = self.output.after(self.newest - self._retain)
        self.tail, more = self.tail.after(self.newest - self._retain)
        return [*gone, *more]

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Facts, as JSON, and arrays by name."""
        arrays: dict[str, Array] = {}
        count = self.groups.count
        states = self._states()
        waiting = []
        for number, state in enumerate(states):
            for name, array in state.arrays.items():
                arrays[f"state {number} {name}"] = array[:count]
            waits = enumerate(state.waiting)
            waiting.append([_write_all(arrays, f"waiting {number} {i}", each.chunks) for i, each in waits])
        output = [_write(arrays, f"output {i}", chunk) for i, chunk in enumerate(self.output.chunks)]
        late, clock = self.arrivals.facts
        facts = {"late": list(late), "clock": clock, "newest": self.newest, "waiting": waiting, "output": output}
        facts["groups"] = count
        for number, log in enumerate(self._logs or () if self._keeps_events else ()):
            facts[f"log {number}"] = [
                _write(arrays, f"log {number} {i}", events) for i, (events, _) in enumerate(log.chunks)
            ]
            arrays.update({f"log {number} {i} weight": weight for i, (_, weight) in enumerate(log.chunks)})
        return facts, arrays

    def resume(self, groups: Groups, facts: Any, read: Callable[[str], Array]) -> None:
        """Continues from what `save` gave."""
        self.groups = groups
        self.arrivals.facts, self.newest = (tuple(facts["late"]), facts["clock"]), facts["newest"]
        for number, state in enumerate(self._states()):
            for name in state.arrays:
                state.arrays[name] = read(f"state {number} {name}").copy()
            kinds = facts["waiting"][number]
            state.waiting = tuple(
                Backlog.of(_read(read, f"waiting {number} {i}", kind)) if kind else Backlog()
                for i, kind in enumerate(kinds)
            )
        self.output = Output(tuple(_read(read, f"output {i}", kind) for i, kind in enumerate(facts["output"])))
        if self._keeps_events:
            self._logs = tuple(_read_log(read, number, facts) for number in range(len(self.sources)))
        self.reserve()
        if self._shown is not None:
            self._show(self._shown, [no_events(each) for each in self.sources], np.arange(groups.count))
            self._forget(self.tail.chunks)


def _positions(form: Form, ticks: int | None) -> int | None:
    """A duration as a difference of positions."""
    return ticks if ticks is None or form.grid is None else int(ticks / form.grid.period)


def _log(arrival: Arrival) -> EventLog:
    return EventLog().add(arrival.events, arrival.multiplicity)


def _first(events: Events, slots: Array) -> Array:
    """The earliest start of an event in each of some slots."""
    found = np.full(len(slots), FARTHEST)
    np.minimum.at(found, np.searchsorted(slots, events.slot), events.start)
    return found


def _write(arrays: dict[str, Array], name: str, batch: Batch) -> list[str]:
    """Adds the columns of a batch; returns their names, after the kind of batch."""
    columns = {each: getattr(batch, each) for each in batch.__dataclass_fields__}
    found = [each for each, column in columns.items() if column is not None]
    arrays.update({f"{name} {each}": columns[each] for each in found})
    return [type(batch).__name__, *found]


def _write_all(arrays: dict[str, Array], name: str, chunks: Sequence[Batch]) -> list[str]:
    """The same for several batches as one; nothing of none."""
    return _write(arrays, name, together(chunks)) if chunks else []


def _read(read: Callable[[str], Array], name: str, kind: Sequence[str]) -> Batch:
    from viewlet.signals.batches import Samples

    made = {"Events": Events, "Samples": Samples}[kind[0]]
    return made(**{each: read(f"{name} {each}") for each in kind[1:]})  # type: ignore[no-any-return]


def _read_log(read: Callable[[str], Array], number: int, facts: Any) -> EventLog:
    chunks = []
    for i, kind in enumerate(facts[f"log {number}"]):
        events: Any = _read(read, f"log {number} {i}", kind)
        chunks.append((events, read(f"log {number} {i} weight")))
    return EventLog(tuple(chunks))
