"""Sampling: events, or the samples of another grid, as samples at the beats of a grid (sections 7.4.1 and 7.4.2).

An event is a reference point, an interval [a, b) two of them with the beats in between. A beat at which an event is
active has its value at once. The beats between two points wait for the second one; it is then known whether they are
close enough to interpolate. Nothing is done for a group that is silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, Events, Samples, runs
from viewlet.signals.form import form_of
from viewlet.signals.interpolation import Interpolator
from viewlet.signals.nodes import Sample
from viewlet.signals.notation import resolve
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.state import Field, State

CLOSE = 1e-9
"""Parts of a period by which rounding may move a point."""


@dataclass(frozen=True, slots=True)
class Points:
    """Reference points: the beat before or at each, the part of a period since, and the value.

    `solid` tells of a point whether the signal is active all the time since the one before.
    """

    slot: Array
    index: Array
    part: Array
    value: Array
    solid: Array

    def __len__(self) -> int:
        return len(self.slot)


class Sampling:
    """The beats of a grid by one of the interpolations that come with Viewlet, or none."""

    def __init__(self, node: Sample) -> None:
        given = form_of(node.source)
        self._grid, self._from = node.grid, given.grid
        self._function = resolve(given.source.function) if given.is_functional else None
        self._policy = node.interpolation
        self._gap = 0.0 if self._policy is None else float(self._policy.max_gap / node.grid.period)
        kind = "c16" if given.is_complex else "f8"
        width = given.width
        self.fields: tuple[Field, ...] = (
            Field("count", (), "i8"),
            Field("index", (2,), "i8"),
            Field("part", (2,)),
            Field("value", (2, width), kind),
        )
        if self._policy is None:
            self.fields = ()

    def flush(self, state: State) -> Batch | None:
        return None

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        if self._function is not None:
            batch = self._evaluated(self._active(batch))
            points = _points_at(batch)
        elif self._policy is None and isinstance(batch, Events) and batch.end is not None:
            return self._active(batch)
        else:
            points = self._points(batch)
        if self._policy is None:
            found, on = Samples(points.slot, points.index, points.value), points.part == 0
            return found if on.all() else found.take(on)
        return self._between(state, points)

    # -- points --------------------------------------------------------------------------------------------------------

    def _active(self, batch: Events) -> Samples:
        """The beats at which an event is active."""
        first = self._grid.first_at(batch.start)
        count = np.maximum(self._grid.first_at(batch.start + 1 if batch.end is None else batch.end) - first, 0)
        rows = np.repeat(np.arange(len(batch)), count)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        return Samples(batch.slot[rows], first[rows] + place, batch.value[rows])

    def _evaluated(self, batch: Samples) -> Samples:
        """Values of a function of time, whose arguments the events have."""
        assert self._function is not None
        times = self._grid.times(batch.index)
        found = np.asarray(self._function(times, *batch.value.T), np.float64)
        return Samples(batch.slot, batch.index, np.broadcast_to(found, len(batch)).reshape(-1, 1))

    def _points(self, batch: Batch) -> Points:
        if isinstance(batch, Samples):
            assert self._from is not None
            index, part = self._grid.map_from(self._from, batch.index)
            return Points(batch.slot, index, part, batch.value, np.zeros(len(batch), np.bool_))
        if batch.end is None:
            index, part = self._grid.positions(batch.start)
            return Points(batch.slot, index, part, batch.value, np.zeros(len(batch), np.bool_))
        twice = np.repeat(np.arange(len(batch)), np.where(batch.end - batch.start > 1, 2, 1))
        is_second = np.concatenate(([False], twice[1:] == twice[:-1]))[: len(twice)]
        index, part = self._grid.positions(np.where(is_second, batch.end[twice] - 1, batch.start[twice]))
        return Points(batch.slot[twice], index, part, batch.value[twice], is_second)

    # -- beats between points ------------------------------------------------------------------------------------------

    def _between(self, state: State, points: Points) -> Samples:
        """The beats after the previous point of each group, up to each point."""
        policy = self._policy
        assert policy is not None
        first, slots = runs(points.slot)
        before = _previous(state, points, first, slots, 0)
        older = _previous(state, points, first, slots, 1) if policy.kind == "quadratic" else before
        length = (points.index - before.index) + (points.part - before.part)
        beats = points.index - before.index - (points.part == 0)
        allowed = before.known & ((length <= self._gap + CLOSE) | points.solid)
        if policy.kind == "quadratic":
            span = (points.index - older.index) + (points.part - older.part)
            allowed = before.known & (points.solid | (older.known & (span <= self._gap + CLOSE)))
        elif policy.kind == "last":
            reach = np.floor(self._gap + before.part + CLOSE).astype(np.int64)
            beats = np.where(points.solid, beats, np.minimum(beats, reach))
            allowed = before.known
        beats = np.where(allowed, np.maximum(beats, 0), 0)
        on = points.part == 0
        count = beats + on
        rows = np.repeat(np.arange(len(points)), count)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        is_point = place == beats[rows]
        index = np.where(is_point, points.index[rows], before.index[rows] + 1 + place)
        value = points.value[rows]
        fill = np.flatnonzero(~is_point)
        if len(fill):
            row = rows[fill]
            since = ((index[fill] - before.index[row]) - before.part[row])[:, None]
            value[fill] = self._values(since, length[row][:, None], before, older, points, row)
        _remember(state, points, first, slots)
        return Samples(points.slot[rows], index, value)

    def _values(
        self, since: Array, length: Array, before: _Previous, older: _Previous, points: Points, row: Array
    ) -> Array:
        policy = self._policy
        assert policy is not None
        start, end = before.value[row], points.value[row]
        match policy.kind:
            case "last" | "zero":
                return start
            case "constant":
                return np.where(points.solid[row][:, None], start, policy.value)
            case "linear":
                return start + (end - start) * (since / length)
            case _:
                slope = (end - start) / length
                back = ((before.index[row] - older.index[row]) + (before.part[row] - older.part[row]))[:, None]
                is_solid = points.solid[row][:, None]
                back = np.where(is_solid & (back == 0), 1.0, back)
                bend = (slope - (start - older.value[row]) / back) / (length + back)
                return np.where(is_solid, start, start + since * slope + since * (since - length) * bend)


@dataclass(frozen=True, slots=True)
class _Previous:
    """The point before each point, or two before it; `known` where there is one."""

    index: Array
    part: Array
    value: Array
    known: Array


def _previous(state: State, points: Points, first: Array, slots: Array, back: int) -> _Previous:
    """The points `back + 1` before each: rows of the batch, or what the state has of the group."""
    distance = back + 1
    rows = np.arange(len(points)) - distance
    place = np.arange(len(points)) - np.repeat(first[:-1], np.diff(first))
    is_here = place >= distance
    source = np.where(is_here, rows, 0)
    index, part, value = points.index[source], points.part[source], points.value[source]
    known = is_here.copy()
    outside = np.flatnonzero(~is_here)
    if len(outside):
        slot = points.slot[outside]
        which = distance - 1 - place[outside]
        index[outside] = state["index"][slot, which]
        part[outside] = state["part"][slot, which]
        value[outside] = state["value"][slot, which]
        known[outside] = state["count"][slot] > which
    return _Previous(index, part, value, known)


def _remember(state: State, points: Points, first: Array, slots: Array) -> None:
    """The last two points of every group; the latest is the first of them."""
    last, size = first[1:] - 1, np.diff(first)
    single, several = slots[size == 1], slots[size > 1]
    for name, held in (("index", points.index), ("part", points.part), ("value", points.value)):
        array = state[name]
        array[single, 1] = array[single, 0]
        array[several, 1] = held[last[size > 1] - 1]
        array[slots, 0] = held[last]
    state["count"][slots] = np.minimum(state["count"][slots] + size, 2)


def _points_at(batch: Samples) -> Points:
    return Points(batch.slot, batch.index, np.zeros(len(batch)), batch.value, np.zeros(len(batch), np.bool_))


class UserSampling(Stateless):
    """The beats of a grid by an interpolation of the user's, one group after the other."""

    def __init__(self, node: Sample) -> None:
        assert node.interpolation is not None
        self._points = Sampling(node)._points
        self._grid, self._policy = node.grid, node.interpolation
        self._make: type[Interpolator] = resolve(node.interpolation.name)
        size = self._make.size
        self.fields = (Field("count", (), "i8"), Field("time", (size,)), Field("value", (size,)))

    def run(self, state: State, *inputs: Any) -> Batch:
        points = self._points(inputs[0])
        first, slots = runs(points.slot)
        slot, index, value = list[int](), list[int](), list[float]()
        for slot_, begin, end in zip(slots.tolist(), first[:-1].tolist(), first[1:].tolist(), strict=True):
            made = self._make(float(self._policy.max_gap))
            known = int(state["count"][slot_])
            for t, v in zip(state["time"][slot_, :known].tolist(), state["value"][slot_, :known].tolist(), strict=True):
                made.add_point(t, v)
            for row in range(begin, end):
                for k, v in self._step(made, points, row):
                    slot.append(slot_)
                    index.append(k)
                    value.append(v)
            known = len(made.times)
            state["count"][slot_] = known
            state["time"][slot_, :known], state["value"][slot_, :known] = made.times, made.values
        return Samples(np.array(slot, np.int64), np.array(index, np.int64), np.array(value).reshape(-1, 1))

    def _step(self, made: Interpolator, points: Points, row: int) -> list[tuple[int, float]]:
        """The beats that a point decides, and its own."""
        period, offset = float(self._grid.period), float(self._grid.offset)
        last = int(points.index[row])
        now = offset + (last + float(points.part[row])) * period
        is_on = points.part[row] == 0
        previous = made.times[-1] if made.times else None
        made.advance_time(now)
        made.add_point(now, float(points.value[row, 0]))
        found: list[tuple[int, float]] = []
        if previous is not None:
            begin = int(np.floor((previous - offset) / period + CLOSE)) + 1
            for k in range(begin, last + (not is_on)):
                t = offset + k * period
                if not made.can_interpolate(t):
                    break
                found.append((k, float(made.interpolate(t))))
        return [*found, (last, float(points.value[row, 0]))] if is_on else found
