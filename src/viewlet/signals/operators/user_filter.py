"""Digital filters of the user's: windows of inputs and outputs for every group, and a call for every sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.signals.batches import Batch, Samples, runs
from viewlet.signals.coefficients import MOST
from viewlet.signals.errors import SignalError
from viewlet.signals.filters import DigitalFilter
from viewlet.signals.form import form_of
from viewlet.signals.nodes import Filter
from viewlet.signals.notation import resolve
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.operators.filters import LAST, LONGEST_GAP, SEEN, number_type, values_of
from viewlet.signals.state import NEVER, Field, State
from viewlet.signals.user_code import calling, numbers_of


class UserFilter(Stateless):
    """One group after the other, sample by sample."""

    def __init__(self, node: Filter) -> None:
        form = form_of(node)
        self._what = f"filter({node.name})"
        with calling(self._what):
            self._filter: DigitalFilter = resolve(node.name)()
        for name in ("feed_forward", "feed_backward", "memory"):
            count = getattr(self._filter, name)
            if isinstance(count, bool) or not isinstance(count, int) or not (name == "feed_forward") <= count <= MOST:
                raise SignalError(f"{self._what}: {name} is {count!r}, and not a number of values")
        self._is_complex = form.is_complex
        if form.width != 1:
            raise SignalError(f"filter({node.name}) is for values of one component, not {form.width}")
        kind = number_type(form.is_complex)
        self.fields = (
            Field("forward", (self._filter.feed_forward,), kind),
            Field("backward", (self._filter.feed_backward,), kind),
            Field("memory", (self._filter.memory,), kind),
            LAST,
            SEEN,
        )

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        x = values_of(batch, number_type(self._is_complex))
        y, kept = np.empty_like(x), np.zeros(len(batch), np.bool_)
        with calling(self._what):
            for slot, begin, end in zip(slots.tolist(), first[:-1].tolist(), first[1:].tolist(), strict=True):
                for row in range(begin, end):
                    kept[row] = self._step(state, slot, int(batch.index[row]), x[row, 0], y, row)
        return Samples(batch.slot, batch.index, y).take(kept)

    def _step(self, state: State, slot: int, index: int, x: Any, y: Any, row: int) -> bool:
        """One sample, after the missing ones before it; whether there is an output."""
        last = int(state["last"][slot])
        gap = index - last - 1
        longest = LONGEST_GAP if self._filter.missing_is_zero else 0
        if last == NEVER or gap > longest:
            gap = 0
            state["seen"][slot] = 0
        state["last"][slot] = index
        for value in (*([0.0] * gap), x):
            if (found := self._feed(state, slot, value)) is not None:
                y[row, 0] = found
        is_full = bool(state["seen"][slot] >= self._filter.feed_forward)
        if is_full and not np.isfinite(y[row, 0]):  # it would be fed back: the windows fill up again
            state["seen"][slot] = 0
        return is_full

    def _feed(self, state: State, slot: int, x: Any) -> Any:
        forward, backward, memory = (state[name][slot] for name in ("forward", "backward", "memory"))
        old = forward[0].item()
        forward[:-1] = forward[1:]
        forward[-1] = x
        state["seen"][slot] += 1
        if state["seen"][slot] < self._filter.feed_forward:
            return None
        if state["seen"][slot] == self._filter.feed_forward:
            backward[:] = 0
            memory[:] = 0
            found = self._filter.on_init(forward.copy(), backward.copy(), memory)
        else:
            found = self._filter.on_hop(old, forward[-1].item(), forward.copy(), backward.copy(), memory)
        number = numbers_of(found, self._is_complex, self._what, "let the signal be complex")
        if number.size != 1:
            raise SignalError(f"{self._what} has to give one number, not an array of shape {number.shape}")
        found = number.item()
        if len(backward):
            backward[:-1] = backward[1:]
            backward[-1] = found
        return found
