"""Operators that need all samples of a group at once, such as zero-phase filters: over finished tables only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
        case "detrend", (str(kind),):
            return lambda x: signal.detrend(x, axis=0, type=kind)
        case _:
            raise SignalError(f"there is no operator {node.operation!r}")


class WholeSequence:
    """Collects the samples, and computes each stretch without a gap at the end."""

    fields: tuple[Field, ...] = ()

    def __init__(self, node: Whole) -> None:
        self._function, self._name = whole_function(node), node.operation
        form = form_of(node)
        self._nothing = np.zeros((0, form.width), np.complex128 if form.is_complex else np.float64)

    def run(self, state: State, *inputs: Any) -> Batch:
        (batch,) = inputs
        state.waiting = (*state.waiting, batch)
        return Samples(batch.slot[:0], batch.index[:0], self._nothing)

    def flush(self, state: State) -> Batch | None:
        batch: Any = together(state.waiting)
        first, _ = runs(batch.slot)
        gaps = np.flatnonzero(np.diff(batch.index) != 1) + 1
        cuts = np.unique(np.concatenate((first, gaps)))
        value = np.empty_like(batch.value)
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            try:
                value[begin:end] = self._function(batch.value[begin:end])
            except ValueError as error:
                raise SignalError(f"{self._name}() of {end - begin} samples without a gap: {error}") from error
        return Samples(batch.slot, batch.index, value)
