"""With each sample of a signal, the last value of another one at or before its beat (an as-of join).

A sample is final when the other signal is behind it: no value between can come any more. Until then it waits, and so do
values of the other signal that are ahead. `at_once`, samples have the last value that is known, and nothing waits: so a
view shows samples that may still change (`maintain.py`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array, Batch, Events, Samples, real_parts, runs, together
from viewlet.signals.form import form_of
from viewlet.signals.grid import FARTHEST
from viewlet.signals.nodes import AsOf
from viewlet.signals.operators import join_kernels as kernels
from viewlet.signals.operators.filters import number_type, values_of
from viewlet.signals.operators.sampling import CLOSE
from viewlet.signals.state import NEVER, Field, State


class LastValue:
    """x joined with the last y at or before each beat, if that is at most `max_gap` old."""

    takes_stretches = False

    def __init__(self, node: AsOf) -> None:
        left, right = form_of(node.left), form_of(node.right)
        assert left.grid is not None
        self._grid, self._from = left.grid, right.grid
        self._gap = min(float(node.max_gap / left.grid.period) + CLOSE, float(FARTHEST // 2))
        self._is_ahead = int(right.grid != left.grid)
        """How many beats behind a sample the other signal has to be; on the same grid there is one value at a beat."""
        self._kinds = number_type(left.is_complex), number_type(right.is_complex)
        self._kind = number_type(form_of(node).is_complex)
        self._left_width = left.width
        self._width = right.width * (2 if right.is_complex else 1)
        self.at_once = False
        self.fields = (
            Field("left", (), "i8", NEVER),
            Field("right", (), "i8", NEVER),
            Field("reach", (), "i8", NEVER),
            Field("value", (self._width,)),
        )

    def flush(self, state: State) -> Batch | None:
        return self._ready(state, state.waiting[0].slots(), None, None) if state.waiting else None

    def run(self, state: State, *inputs: Any) -> Batch:
        left, right = inputs
        left = Samples(left.slot, left.index, values_of(left, self._kinds[0]))
        values = self._values(right)
        waiting = state.waiting or (Backlog(), Backlog())
        state.waiting = waiting[0], waiting[1].add(values)
        first, slots = runs(values.slot)
        state["right"][slots] = values.index[first[1:] - 1]
        touched = np.union1d(left.slot, state.waiting[0].slots() if self.at_once else slots)
        limits = None if self.at_once else state["right"] - self._is_ahead
        return self._ready(state, touched, left, limits)

    def _ready(self, state: State, touched: Array, left: Samples | None, limits: Array | None) -> Samples:
        """The samples of some slots, those that waited and new ones, up to the limit of each slot, with their values;
        without `limits`, all of them."""
        samples, values = state.waiting
        none = np.zeros(0, np.int64)
        new = Samples(none, none, np.zeros((0, self._left_width), self._kinds[0])) if left is None else left
        until = np.full(len(touched), FARTHEST) if limits is None else limits[touched]
        waited, samples = samples.between(touched, state["left"][touched], until, new.take(slice(0)))
        is_ready = np.ones(len(new), np.bool_) if limits is None else new.index <= limits[new.slot]
        ready: Samples = together([waited, new.take(is_ready)])
        first, slots = runs(ready.slot)
        last = ready.index[first[1:] - 1]
        nothing = Samples(none, none, np.zeros((0, 1 + self._width)))
        known, values = values.between(slots, state["left"][slots], last, nothing)
        value, is_there = np.empty((len(ready), self._width)), np.zeros(len(ready), np.bool_)
        reach = np.ascontiguousarray(known.value[:, 0]).view(np.int64)
        columns = known.slot, known.position, reach, known.value[:, 1:]
        kernels.last_values(ready.slot, ready.index, *columns, state["reach"], state["value"], value, is_there)
        state["left"][slots] = last
        waits = partial(_is_ahead_of, state["left"])
        state.waiting = samples.pruned(waits).add(new.take(~is_ready)), values.pruned(waits)
        other = value if self._kinds[1] == "f8" else value.view(np.complex128)
        joined = np.concatenate((ready.value, other), axis=1).astype(self._kind, copy=False)
        return Samples(ready.slot, ready.index, joined).take(is_there)

    def _values(self, batch: Any) -> Samples:
        """The values of the other signal by the first beat that sees them, each with the last beat that may as a first
        component: a whole number, whose bits pass through the column unchanged."""
        if isinstance(batch, Events):
            begin = self._grid.first_at(batch.start)
            index, part = self._grid.positions(batch.start if batch.end is None else batch.end - 1)
        else:
            assert self._from is not None
            index, part = self._grid.map_from(self._from, batch.index)
            begin = index + (part > 0)
        value = real_parts(values_of(batch, self._kinds[1]))
        reach = index + np.floor(part + self._gap).astype(np.int64)
        return Samples(batch.slot, begin, np.column_stack((reach.view(np.float64), value)))


def _is_ahead_of(done: Array, batch: Batch) -> Array:
    """The rows behind the last sample that is done."""
    return batch.position > done[batch.slot]
