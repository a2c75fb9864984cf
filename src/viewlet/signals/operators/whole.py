"""Operators that need all samples of a group at once, such as zero-phase filters: over finished tables only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array, Batch, Samples, runs, together
from viewlet.signals.errors import SignalError
from viewlet.signals.form import form_of
from viewlet.signals.nodes import Whole
from viewlet.signals.state import Field, State


def whole_function(node: Whole) -> Callable[[Array], Array]:
    """What computes a sequence of samples without gaps, along the first axis."""
    from scipy import signal

    match node.operation, node.arguments:
        case "filtfilt", (tuple(b), tuple(a)):
            return lambda x: signal.filtfilt(b, a, x, axis=0)
        case "sosfiltfilt", (tuple(sections),):
            sos = np.array(sections)
            return lambda x: signal.sosfiltfilt(sos, x, axis=0)
        case "resample_poly", (int(up), int(down)):
            return lambda x: signal.resample_poly(x, up, down, axis=0)
        case "detrend", (str(kind),):
            return lambda x: signal.detrend(x, axis=0, type=kind)
        case _:
            raise SignalError(f"there is no operator {node.operation!r}")


class WholeSequence:
    """Collects the samples, and computes each stretch without a gap at the end."""

    fields: tuple[Field, ...] = ()
    takes_stretches = False

    def __init__(self, node: Whole) -> None:
        self._function, self._name = whole_function(node), node.operation
        form, before = form_of(node), form_of(node.source)
        assert form.grid is not None
        assert before.grid is not None
        ratio = before.grid.period / form.grid.period
        self._up, self._down = ratio.numerator, ratio.denominator
        self._shift = int(before.grid.offset // form.grid.period)
        """Beats of the new grid before the offset of the old one."""
        self._nothing = np.zeros((0, form.width), np.complex128 if form.is_complex else np.float64)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        (held,) = state.waiting or (Backlog(),)
        state.waiting = (held.add(batch),)
        return Samples(batch.slot[:0], batch.index[:0], self._nothing)

    def flush(self, state: State) -> Batch | None:
        none = np.zeros(0, np.int64)
        batch: Any = together(
            [chunk for each in state.waiting for chunk in each.chunks] or [Samples(none, none, self._nothing)]
        )
        first, _ = runs(batch.slot)
        gaps = np.flatnonzero(np.diff(batch.index) != 1) + 1
        cuts = np.unique(np.concatenate((first, gaps)))
        found = [Samples(batch.slot[:0], batch.index[:0], self._nothing)]
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            found.append(self._stretch(batch.take(slice(begin, end))))
        return together(found)  # type: ignore[no-any-return]

    def _stretch(self, batch: Samples) -> Samples:
        """The samples of one group without a gap, from the first that is at a beat of the new grid."""
        places = (batch.index[: self._down] * self._up) % self._down
        begin = int(np.argmin(places)) if not places.all() else len(batch)
        rest = batch.take(slice(begin, None))
        if not len(rest):
            return Samples(rest.slot, rest.index, self._nothing)
        try:
            value = self._function(rest.value)
        except ValueError as error:
            raise SignalError(f"{self._name}() of {len(rest)} samples without a gap: {error}") from error
        first = int(rest.index[0]) * self._up // self._down + self._shift
        return Samples(np.full(len(value), rest.slot[0]), first + np.arange(len(value)), value)
