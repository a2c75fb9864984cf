"""Checkpoints of groups: the state of a group after some of its events, from which corrections are computed again.

A group of a table has one after every `interval` events. Those behind are thinned out as it grows, so that their
distances from the newest event double: a correction n events back runs about 2n events again, and a group with n events
has about log n checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array, Events, runs
from viewlet.signals.state import State

FEWEST = 1 << 10
"""The events between two checkpoints of a group, at least."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What every operator knew of a group: the rows of its arrays, and what waited."""

    events: int
    """How many had run."""
    ends: tuple[int, ...]
    """Of each source, where the last of them ends."""
    rows: tuple[dict[str, Any], ...]
    waiting: tuple[tuple[Backlog, ...], ...]

    def moved(self, slot: int) -> Checkpoint:
        """The same of a group that has another slot now."""
        states = (tuple(each.renumbered(lambda old: np.full_like(old, slot)) for each in some) for some in self.waiting)
        return replace(self, waiting=tuple(states))


class Checkpoints:
    """The checkpoints of all groups by slot, the oldest first."""

    def __init__(self, states: Sequence[State]) -> None:
        self._states = tuple(states)
        self.interval = interval_of(states)
        self._held: dict[int, tuple[Checkpoint, ...]] = {}
        self._undo: dict[int, tuple[Checkpoint, ...]] = {}

    def take(self, slots: Array, events: Array, ends: Sequence[Array]) -> None:
        """Adds one of the present state for each of some slots."""
        for place, slot in enumerate(slots.tolist()):
            rows = tuple({name: held[slot].copy() for name, held in state.arrays.items()} for state in self._states)
            waiting = tuple(tuple(each.of_slots(np.array([slot])) for each in state.waiting) for state in self._states)
            found = Checkpoint(int(events[place]), tuple(int(each[place]) for each in ends), rows, waiting)
            self._set(slot, _thinned((*self._held.get(slot, ()), found)))

    def restore(self, slots: Array, bounds: Sequence[Array]) -> None:
        """Brings some slots back to their last state before a time in each source; those without one are new."""
        found: list[tuple[int, Checkpoint]] = []
        for place, slot in enumerate(slots.tolist()):
            before = [int(each[place]) for each in bounds]
            held = self._held.get(slot, ())
            kept = tuple(
                each for each in held if all(end <= bound for end, bound in zip(each.ends, before, strict=True))
            )
            if len(kept) < len(held):
                self._set(slot, kept)
            if kept:
                found.append((slot, kept[-1]))
        for number, state in enumerate(self._states):
            state.reset(slots)
            for slot, each in found:
                for name, row in each.rows[number].items():
                    state.arrays[name][slot] = row
            for _, each in found:
                if each.waiting[number]:
                    pairs = zip(state.waiting, each.waiting[number], strict=True)
                    state.waiting = tuple(now.plus(before) for now, before in pairs)

    def _set(self, slot: int, held: tuple[Checkpoint, ...]) -> None:
        self._undo.setdefault(slot, self._held.get(slot, ()))
        self._held[slot] = held

    def only(self, slots: Array) -> None:
        """Keeps some slots, in ascending order: they are then 0, 1 and so on."""
        held = {place: self._held[slot] for place, slot in enumerate(slots.tolist()) if self._held.get(slot)}
        self._held = {place: tuple(each.moved(place) for each in kept) for place, kept in held.items()}

    def commit(self) -> None:
        """What has been taken stays."""
        self._undo = {}

    def rollback(self) -> None:
        """Brings back what was there at the last commit."""
        self._held.update(self._undo)
        self._undo = {}


def interval_of(states: Sequence[State]) -> int:
    """The events between two checkpoints of a group: at least as many as there are numbers in its state."""
    return max(FEWEST, sum(int(np.prod(each.shape)) for state in states for each in state.fields))


def _thinned(held: tuple[Checkpoint, ...]) -> tuple[Checkpoint, ...]:
    """Without those whose neighbours are close enough to each other, seen from the newest."""
    kept, newest = list(held), held[-1].events
    place = 1
    while place < len(kept) - 1:
        if newest - kept[place - 1].events <= 2 * (newest - kept[place + 1].events):
            del kept[place]
        else:
            place += 1
    return tuple(kept)


def pieces(ready: Sequence[Events], interval: int) -> Iterable[list[Events]]:
    """Sorted events in pieces, to be run one after the other, between which checkpoints are worth having: each group
    is cut `interval` events before its end, twice as many, four times as many and so on."""
    if all(np.diff(runs(each.slot)[0]).max(initial=0) <= interval for each in ready):
        return [list(ready)]
    levels = [_levels(each, interval) for each in ready]
    most = max(int(each.max(initial=0)) for each in levels)
    return (
        [each.take(level == number) for each, level in zip(ready, levels, strict=True)]
        for number in range(most, -1, -1)
    )


def _levels(events: Events, interval: int) -> Array:
    """Of each event, how often the distance from the last one of its group doubles beyond `interval`."""
    first, _ = runs(events.slot)
    distance = (np.repeat(first[1:], np.diff(first)) - np.arange(len(events)) - 1) // interval
    return np.frexp(distance.astype(np.float64))[1]
