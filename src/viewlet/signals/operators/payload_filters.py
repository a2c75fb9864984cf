"""Filters and sums of values with an arithmetic of the user's (`payloads.py`).

The next sample of every group of a batch is computed at once, so that the user's methods get many values. Samples
before are in rings, by their indexes: a place whose stamp is another index is a missing sample, which is zero.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from viewlet.signals import nodes
from viewlet.signals.batches import Array, Batch, Samples, runs
from viewlet.signals.form import arithmetic_of, form_of
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.operators.filters import LAST, LONGEST_GAP
from viewlet.signals.payloads import Arithmetic
from viewlet.signals.rows import all_finite
from viewlet.signals.state import NEVER, Field, State

BEGIN = Field("begin", (), "i8", NEVER)
"""The index at which a group began, or began again behind a gap."""


def ring(name: str, size: int, width: int) -> tuple[Field, ...]:
    """A ring of values, and the index of each."""
    return Field(name, (size, width)), Field(f"{name}_at", (size,), "i8", NEVER)


class PayloadOperator(Stateless):
    """The base class: one sample of each group after the other."""

    _restarts = False
    """It feeds outputs back, and begins again behind one that is no finite number."""

    def __init__(self, node: Any) -> None:
        form = form_of(node)
        self._width = form.width
        self._of: Arithmetic = arithmetic_of(form)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        lengths, y, kept = np.diff(first), np.empty_like(batch.value), np.zeros(len(batch), np.bool_)
        for turn in range(int(lengths.max(initial=0))):
            is_live = lengths > turn
            rows = first[:-1][is_live] + turn
            y[rows], kept[rows] = self._step(state, slots[is_live], batch.index[rows], batch.value[rows])
            if self._restarts and not all_finite(y[rows]):
                state["last"][slots[is_live][~np.isfinite(y[rows]).all(axis=1)]] = NEVER
        return Samples(batch.slot, batch.index, y).take(kept)

    @abstractmethod
    def _step(self, state: State, slot: Array, index: Array, x: Array) -> tuple[Array, Any]:
        """The outputs for a sample of each of some groups, and where there is one."""

    def _put(self, state: State, name: str, slot: Array, index: Array, x: Array) -> None:
        place = index % state[name].shape[1]
        state[name][slot, place], state[f"{name}_at"][slot, place] = x, index

    def _get(self, state: State, name: str, slot: Array, index: Array) -> tuple[Array, Array]:
        """The values at some indexes, zero where there is none, and where there is one."""
        place = index % state[name].shape[1]
        is_there = (state[f"{name}_at"][slot, place] == index) & (index >= state["begin"][slot])
        return np.where(is_there[:, None], state[name][slot, place], self._of.zero), is_there

    def _begin(self, state: State, slot: Array, index: Array, longest: int) -> None:
        last = state["last"][slot]
        is_new = (last == NEVER) | (index - last - 1 > longest)
        state["begin"][slot[is_new]] = index[is_new]
        state["last"][slot] = index

    def _dot(self, state: State, name: str, slot: Array, index: Array, weights: Array, first: int = 0) -> Array:
        """The sum of weights[i] times the value i indexes before, from `first` on."""
        total = np.broadcast_to(self._of.zero, (len(slot), self._width))
        for back in range(first, len(weights)):
            value, _ = self._get(state, name, slot, index - back)
            total = self._of.plus(total, self._of.scale(value, float(weights[back])))
        return total


class PayloadConvolution(PayloadOperator):
    """y[n] = the sum of taps[i] x[n-i]."""

    def __init__(self, node: nodes.Fir) -> None:
        super().__init__(node)
        self._taps, self._longest = node.taps, 0 if node.missing == "reset" else 2**62
        self._silent = len(node.taps) - 1 if node.start == "full" else 0
        self.fields = (*ring("x", len(node.taps), self._width), BEGIN, LAST)

    def _step(self, state: State, slot: Array, index: Array, x: Array) -> tuple[Array, Any]:
        self._begin(state, slot, index, self._longest)
        self._put(state, "x", slot, index, x)
        return self._dot(state, "x", slot, index, self._taps), index - state["begin"][slot] >= self._silent


class PayloadRecursion(PayloadOperator):
    """Sections one after the other, each a[0] y[n] = sum of b[i] x[n-i] - sum of a[i] y[n-i]."""

    _restarts = True

    def __init__(self, node: nodes.Lfilter | nodes.Sos) -> None:
        super().__init__(node)
        given = [(node.b, node.a)] if isinstance(node, nodes.Lfilter) else [(s[:3], s[3:]) for s in node.sections]
        self._sections = [(np.array(b) / a[0], np.array(a) / a[0]) for b, a in given]
        self._longest = 0 if node.missing == "reset" else LONGEST_GAP
        self.fields = (BEGIN, LAST)
        for number, (b, a) in enumerate(self._sections):
            self.fields += (*ring(f"x{number}", len(b), self._width), *ring(f"y{number}", len(a), self._width))

    def _step(self, state: State, slot: Array, index: Array, x: Array) -> tuple[Array, Any]:
        last = state["last"][slot].copy()
        self._begin(state, slot, index, self._longest)
        is_behind = state["begin"][slot] != index
        while is_behind.any():  # missing samples are zeros, one after the other
            last += 1
            is_behind &= last < index
            some = slot[is_behind]
            self._feed(state, some, last[is_behind], np.broadcast_to(self._of.zero, (len(some), self._width)))
        return self._feed(state, slot, index, x), True

    def _feed(self, state: State, slot: Array, index: Array, x: Array) -> Array:
        for number, (b, a) in enumerate(self._sections):
            self._put(state, f"x{number}", slot, index, x)
            forward = self._dot(state, f"x{number}", slot, index, b)
            x = self._of.minus(forward, self._dot(state, f"y{number}", slot, index, a, 1))
            self._put(state, f"y{number}", slot, index, x)
        return x


class PayloadMean(PayloadOperator):
    """The exponentially weighted mean."""

    _restarts = True

    def __init__(self, node: nodes.Ewm) -> None:
        super().__init__(node)
        self._alpha, self._adjust = node.alpha, node.adjust
        self.fields = (Field("mean", (self._width,)), Field("weight"), LAST)

    def _step(self, state: State, slot: Array, index: Array, x: Array) -> tuple[Array, Any]:
        is_new = state["last"][slot] == NEVER
        gain = 1.0 if self._adjust else self._alpha
        beats = np.where(is_new, 1, index - state["last"][slot])
        old = np.where(is_new, 0.0, state["weight"][slot] * (1.0 - self._alpha) ** beats)
        mean = np.where(is_new[:, None], self._of.zero, state["mean"][slot])
        share = np.where(is_new, 1.0, gain / (old + gain))[:, None]
        found = self._of.plus(self._of.scale(mean, 1.0 - share), self._of.scale(x, share))
        state["mean"][slot], state["last"][slot] = found, index
        state["weight"][slot] = np.where(is_new, 1.0, old + gain if self._adjust else 1.0)
        return found, True


class PayloadIntegral(PayloadOperator):
    """The integral since the first sample."""

    def __init__(self, node: nodes.Integral) -> None:
        super().__init__(node)
        self._size, self._trapezoid = node.step, node.trapezoid
        self.fields = (Field("total", (self._width,)), Field("before", (self._width,)), LAST)

    def _step(self, state: State, slot: Array, index: Array, x: Array) -> tuple[Array, Any]:
        is_new = (state["last"][slot] == NEVER)[:, None]
        total, before = (np.where(is_new, self._of.zero, state[name][slot]) for name in ("total", "before"))
        area = self._of.scale(self._of.plus(before, x), self._size / 2) if self._trapezoid else None
        more = self._of.scale(x, self._size) if area is None else area
        counts = ~is_new & (state["last"][slot] == index - 1)[:, None] if self._trapezoid else True
        found = np.where(counts, self._of.plus(total, more), total)
        state["total"][slot], state["before"][slot], state["last"][slot] = found, x, index
        return found, True


class PayloadDifference(PayloadOperator):
    """y[n] = (x[n] - x[n - lag]) / step, where both are there."""

    def __init__(self, node: nodes.Difference) -> None:
        super().__init__(node)
        self._lag, self._size = node.lag, node.step
        self.fields = (*ring("x", node.lag + 1, self._width), BEGIN, LAST)

    def _step(self, state: State, slot: Array, index: Array, x: Array) -> tuple[Array, Any]:
        self._begin(state, slot, index, 2**62)
        self._put(state, "x", slot, index, x)
        before, is_there = self._get(state, "x", slot, index - self._lag)
        return self._of.scale(self._of.minus(x, before), 1.0 / self._size), is_there


class PayloadSum(PayloadOperator):
    """Sums and means over hopping windows of the grid, of values or of their squares."""

    def __init__(self, node: nodes.Aggregate) -> None:
        super().__init__(node)
        self._node = node
        self.fields = (*ring("x", node.size, self._width), BEGIN, LAST)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        value = self._of.times(batch.value, batch.value) if self._node.operation in ("energy", "power") else batch.value
        first, slots = runs(batch.slot)
        slot, index, found = list[int](), list[int](), [np.zeros((0, self._width))]
        for where, begin, end in zip(slots.tolist(), first[:-1].tolist(), first[1:].tolist(), strict=True):
            for row in range(begin, end):
                for at in self._beats(state, where, int(batch.index[row])):
                    if at == batch.index[row]:
                        self._put(state, "x", np.array([where]), np.array([at]), value[row])
                    if at % self._node.hop == 0 and (total := self._total(state, where, at)) is not None:
                        slot.append(where)
                        index.append(at)
                        found.append(total)
        return Samples(np.array(slot, np.int64), np.array(index, np.int64), np.concatenate(found))

    def _beats(self, state: State, slot: int, index: int) -> Any:
        """The beats that a sample decides: those since the last one whose windows have it, and its own."""
        last = int(state["last"][slot])
        if last == NEVER:
            state["begin"][slot] = index
        state["last"][slot] = index
        return [*(range(last + 1, min(last + self._node.size, index)) if last != NEVER else ()), index]

    def _total(self, state: State, slot: int, at: int) -> Array | None:
        places = np.arange(at - self._node.size + 1, at + 1)
        values, is_there = self._get(state, "x", np.full(len(places), slot), places)
        values = values[is_there]
        if len(values) < self._node.least:
            return None
        total = values[:1]
        for each in values[1:]:
            total = self._of.plus(total, each[None])
        return self._of.scale(total, 1.0 / len(values)) if self._node.operation in ("mean", "power") else total
