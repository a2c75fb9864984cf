"""Digital filters and recurrences (section 7.4.5): one call of a kernel for all groups of a batch.

A missing sample is a zero, up to `LONGEST_GAP` of them in a row; after a longer gap, or with `missing="reset"` after
any, a filter starts as for a new group. Outputs are where inputs are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, Samples, runs
from viewlet.signals.form import form_of
from viewlet.signals.nodes import Difference, Ewm, Fir, Integral, Lfilter, Sos
from viewlet.signals.operators import kernels
from viewlet.signals.operators.contract import Stateless
from viewlet.signals.state import NEVER, Field, State

LONGEST_GAP = 10_000
"""Missing samples in a row that are filtered as zeros; a longer gap restarts a recursive filter."""

LAST = Field("last", (), "i8", NEVER)
SEEN = Field("seen", (), "i8")


def number_type(is_complex: bool) -> str:
    """The type of values in arrays."""
    return "c16" if is_complex else "f8"


def values_of(batch: Samples, kind: str) -> Array:
    """Values as a kernel takes them."""
    return np.ascontiguousarray(batch.value, kind)


class SectionFilter(Stateless):
    """Second-order sections."""

    def __init__(self, node: Sos) -> None:
        from scipy.signal import sosfilt_zi

        form = form_of(node)
        given = np.array(node.sections, np.float64)
        self._sections = given / given[:, 3:4]
        self._is_steady = node.start == "steady"
        count = len(node.sections)
        self._steady = sosfilt_zi(self._sections) if self._is_steady else np.zeros((count, 2))
        self._gap = LONGEST_GAP if node.missing == "zero" else 0
        self._kind = number_type(form.is_complex)
        self.fields = (Field("memory", (count, 2, form.width), self._kind), LAST)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        y = np.empty_like(x)
        kernels.sos_filter(
            self._sections,
            self._steady,
            self._is_steady,
            self._gap,
            first,
            slots,
            batch.index,
            x,
            state["memory"],
            state["last"],
            y,
        )
        return Samples(batch.slot, batch.index, y)


class RecursiveFilter(Stateless):
    """A filter by its coefficients."""

    def __init__(self, node: Lfilter) -> None:
        from scipy.signal import lfilter_zi

        form = form_of(node)
        order = max(len(node.a), len(node.b)) - 1
        self._b, self._a = (
            np.pad(np.array(each, np.float64), (0, order + 1 - len(each))) / node.a[0] for each in (node.b, node.a)
        )
        self._is_steady = node.start == "steady"
        self._steady = lfilter_zi(self._b, self._a) if self._is_steady and order else np.zeros(order)
        self._silent = len(node.b) - 1 if node.start == "full" else 0
        self._gap = LONGEST_GAP if node.missing == "zero" else 0
        self._kind = number_type(form.is_complex)
        self.fields = (Field("memory", (order, form.width), self._kind), LAST, SEEN)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        y, kept = np.empty_like(x), np.ones(len(x), np.bool_)
        kernels.iir_filter(
            self._b,
            self._a,
            self._steady,
            self._is_steady,
            self._silent,
            self._gap,
            first,
            slots,
            batch.index,
            x,
            state["memory"],
            state["last"],
            state["seen"],
            y,
            kept,
        )
        found = Samples(batch.slot, batch.index, y)
        return found if not self._silent or kept.all() else found.take(kept)


class Convolution(Stateless):
    """A finite impulse response, sample by sample."""

    def __init__(self, node: Fir) -> None:
        form = form_of(node)
        self._kind = number_type(form.is_complex)
        self._taps = np.array(node.taps, self._kind)
        self._silent = len(node.taps) - 1 if node.start == "full" else 0
        self._resets = node.missing == "reset"
        self.fields = (Field("memory", (len(node.taps) - 1, form.width), self._kind), LAST, SEEN)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        y, kept = np.empty_like(x), np.ones(len(x), np.bool_)
        kernels.fir_filter(
            self._taps,
            self._silent,
            self._resets,
            first,
            slots,
            batch.index,
            x,
            state["memory"],
            state["last"],
            state["seen"],
            y,
            kept,
        )
        found = Samples(batch.slot, batch.index, y)
        return found if not self._silent or kept.all() else found.take(kept)


class ExponentialMean(Stateless):
    """The exponentially weighted mean."""

    def __init__(self, node: Ewm) -> None:
        form = form_of(node)
        self._alpha, self._adjust = node.alpha, node.adjust
        self._kind = number_type(form.is_complex)
        self.fields = (Field("mean", (form.width,), self._kind), Field("weight"), LAST)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        y = np.empty_like(x)
        kept = state["mean"], state["weight"], state["last"]
        kernels.exponential_mean(self._alpha, self._adjust, first, slots, batch.index, x, *kept, y)
        return Samples(batch.slot, batch.index, y)


class RunningIntegral(Stateless):
    """The integral since the first sample."""

    def __init__(self, node: Integral) -> None:
        form = form_of(node)
        self._step, self._trapezoid = node.step, node.trapezoid
        self._kind = number_type(form.is_complex)
        self.fields = (Field("total", (form.width,), self._kind), Field("before", (form.width,), self._kind), LAST)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        y = np.empty_like(x)
        kept = state["total"], state["before"], state["last"]
        kernels.running_integral(self._step, self._trapezoid, first, slots, batch.index, x, *kept, y)
        return Samples(batch.slot, batch.index, y)


class LaggedDifference(Stateless):
    """The difference between a sample and an earlier one."""

    def __init__(self, node: Difference) -> None:
        form = form_of(node)
        self._lag, self._step = node.lag, node.step
        self._kind = number_type(form.is_complex)
        self.fields = (
            Field("held", (node.lag, form.width), self._kind),
            Field("held_index", (node.lag,), "i8", NEVER),
        )

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        first, slots = runs(batch.slot)
        x = values_of(batch, self._kind)
        y, kept = np.empty_like(x), np.zeros(len(x), np.bool_)
        held = state["held"], state["held_index"]
        kernels.lagged_difference(self._lag, self._step, first, slots, batch.index, x, *held, y, kept)
        return Samples(batch.slot, batch.index, y).take(kept)
