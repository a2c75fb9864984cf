"""Sampling: events, or the samples of another grid, as samples at the beats of a grid (sections 7.4.1 and 7.4.2).

An event is a reference point, an interval [a, b) two of them with the beats in between. A beat at which an event is
active has its value at once. The beats between two points wait for the second one; it is then known whether they are
close enough to interpolate. Nothing is done for a group that is silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.batches import Array, Batch, Events, Samples, real_parts, runs
from viewlet.signals.errors import SignalError
from viewlet.signals.form import Form, arithmetic_of, form_of
from viewlet.signals.grid import Grid
from viewlet.signals.interpolation import KINDS, Interpolator
from viewlet.signals.nodes import Sample
from viewlet.signals.notation import resolve, resolve_all
from viewlet.signals.operators import sampling_kernels as kernels
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.rows import all_finite
from viewlet.signals.state import Field, State
from viewlet.signals.user_code import calling, numbers_of

MOST = 1 << 28
"""No batch has more samples after sampling: they would have seven gigabytes."""
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

    takes_stretches = False

    def __init__(self, node: Sample) -> None:
        given = form_of(node.source)
        self._grid, self._from = node.grid, given.grid
        self._name = given.source.function
        self._function = resolve_all(given.source.function) if given.is_functional else None
        self._policy = node.interpolation
        self._gap = 0.0 if self._policy is None else float(self._policy.max_gap / node.grid.period)
        self._fill = arithmetic_of(given).zero if given.payload else None
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
        elif self._policy is None and isinstance(batch, Events):
            return self._active(batch) if batch.end is not None else self._on_beats(batch)
        else:
            points = self._points(batch)
        if self._policy is None:
            found, on = Samples(points.slot, points.index, points.value), points.part == 0
            return found if on.all() else found.take(on)
        return self._between(state, points)

    def _on_beats(self, batch: Events) -> Samples:
        """The events at beats, without what only interpolation needs."""
        index, on = self._grid.beats(batch.start)
        found = Samples(batch.slot, index, batch.value)
        return found if on is None else found.take(on)

    # -- points --------------------------------------------------------------------------------------------------------

    def _active(self, batch: Events) -> Samples:
        """The beats at which an event is active."""
        first = self._grid.first_at(batch.start)
        count = np.maximum(self._grid.first_at(batch.start + 1 if batch.end is None else batch.end) - first, 0)
        check_count(float(count.sum(dtype=np.float64)), self._grid)
        rows = np.repeat(np.arange(len(batch)), count)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        return Samples(batch.slot[rows], first[rows] + place, batch.value[rows])

    def _evaluated(self, batch: Samples) -> Samples:
        """Values of a function of time, whose arguments the events have."""
        assert self._function is not None
        times = self._grid.times(batch.index)
        what = f"function={self._name}"
        with calling(what):
            found = self._function(times, *batch.value.T)
        found = numbers_of(found, False, what, "it takes times and gives real values")
        if found.shape not in ((), (len(batch),)):
            raise SignalError(f"{what} gave an array of shape {found.shape} for {len(batch)} times")
        samples = Samples(batch.slot, batch.index, np.broadcast_to(found, len(batch)).reshape(-1, 1))
        return samples if all_finite(found) else samples.take(np.isfinite(samples.value[:, 0]))

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
        value = real_parts(points.value)
        fill = np.zeros(value.shape[1])
        fill[:: value.shape[1] // points.value.shape[1]] = policy.value if self._fill is None else self._fill
        held = state["count"], state["index"], state["part"], real_parts(state["value"])
        kind, beats = KINDS.index(policy.kind), np.empty(len(points), np.int64)
        columns = first, slots, points.index, points.part, points.solid
        count = kernels.count_beats(kind, self._gap + CLOSE, *columns, *held[:3], beats)
        check_count(count, self._grid)
        count = int(count)
        slot, index = np.empty(count, np.int64), np.empty(count, np.int64)
        values = np.empty((count, value.shape[1]))
        kernels.fill_beats(kind, fill, *columns, value, *held, beats, slot, index, values)
        return Samples(slot, index, values.view(points.value.dtype))


def check_count(samples: float, grid: Grid) -> None:
    """Refuses events that have too many beats in them, or between them."""
    if samples > MOST:
        raise DataError(
            f"these events have {samples:.3g} samples {grid} tick(s), and a batch has at most {MOST}: sample() with "
            "a longer period, or a shorter max_gap= where events are far apart"
        )


def _points_at(batch: Samples) -> Points:
    return Points(batch.slot, batch.index, np.zeros(len(batch)), batch.value, np.zeros(len(batch), np.bool_))


def is_per_group(node: Sample) -> bool:
    """An interpolation in Python: of the user's, or linear between values with an arithmetic of their own."""
    policy = node.interpolation
    return policy is not None and (bool(policy.name) or (policy.kind == "linear" and bool(form_of(node).payload)))


def _linear(form: Form) -> type[Interpolator]:
    """The linear interpolation of values with an arithmetic of their own."""
    own = arithmetic_of(form)

    class Linear(Interpolator):
        def interpolate(self, t: float) -> Any:
            share = (t - self.times[-2]) / (self.times[-1] - self.times[-2])
            left, right = (np.atleast_1d(each) for each in self.values[-2:])
            return own.plus(own.scale(left, 1.0 - share), own.scale(right, share))

    return Linear


class UserSampling(Stateless):
    """The beats of a grid by an interpolation of the user's, one group after the other."""

    def __init__(self, node: Sample) -> None:
        assert node.interpolation is not None
        form = form_of(node)
        self._points = Sampling(node)._points
        self._grid, self._policy = node.grid, node.interpolation
        self._what = f"interpolate={self._policy.name or self._policy.kind}"
        if form.is_complex:
            raise SignalError(f"{self._what} is for real values, and these are complex: 'linear' takes both")
        self._make: type[Interpolator] = resolve(self._policy.name) if self._policy.name else _linear(form)
        if not (isinstance(self._make, type) and issubclass(self._make, Interpolator)):
            raise SignalError(f"{self._what} has to be a subclass of viewlet.signals.Interpolator")
        self._width, size = form.width, self._make.size
        self.fields = (Field("count", (), "i8"), Field("time", (size,)), Field("value", (size, self._width)))

    def run(self, state: State, *inputs: Any) -> Batch:
        with calling(self._what):
            return self._interpolated(state, self._points(inputs[0]))

    def _interpolated(self, state: State, points: Points) -> Samples:
        first, slots = runs(points.slot)
        slot, index, value = list[int](), list[int](), list[Any]()
        for slot_, begin, end in zip(slots.tolist(), first[:-1].tolist(), first[1:].tolist(), strict=True):
            made = self._make(float(self._policy.max_gap))
            known = int(state["count"][slot_])
            for t, v in zip(state["time"][slot_, :known].tolist(), state["value"][slot_, :known], strict=True):
                made.add_point(t, self._shown(v))
            for row in range(begin, end):
                for k, v in self._step(made, points, row):
                    slot.append(slot_)
                    index.append(k)
                    number = numbers_of(v, False, self._what, "values are real")
                    if number.size != self._width:
                        raise SignalError(f"{self._what} gave {number.size} numbers for a value of {self._width}")
                    value.append(number.reshape(self._width))
            known = len(made.times)
            state["count"][slot_] = known
            state["time"][slot_, :known] = made.times
            state["value"][slot_, :known] = np.array(made.values, np.float64).reshape(known, self._width)
        found = np.array(value, np.float64).reshape(-1, self._width)
        return Samples(np.array(slot, np.int64), np.array(index, np.int64), found)

    def _shown(self, value: Array) -> Any:
        """A value as an interpolation gets it: a number, or a list of components."""
        return float(value[0]) if self._width == 1 else value.tolist()

    def _step(self, made: Interpolator, points: Points, row: int) -> list[tuple[int, Any]]:
        """The beats that a point decides, and its own."""
        period, offset = float(self._grid.period), float(self._grid.offset)
        last = int(points.index[row])
        now = offset + (last + float(points.part[row])) * period
        is_on = points.part[row] == 0
        previous = made.times[-1] if made.times else None
        made.advance_time(now)
        made.add_point(now, self._shown(points.value[row]))
        found: list[tuple[int, Any]] = []
        if previous is not None:
            begin = int(np.floor((previous - offset) / period + CLOSE)) + 1
            check_count(last - begin if made.can_interpolate(offset + begin * period) else 0, self._grid)
            for k in range(begin, last + (not is_on)):
                t = offset + k * period
                if not made.can_interpolate(t):
                    break
                found.append((k, made.interpolate(t)))
        return [*found, (last, points.value[row])] if is_on else found
