"""Digital filters and array operators of the user's (Figures 7.6 and 7.7)."""

from __future__ import annotations

from typing import Any

from viewlet.signals.errors import SignalError

Array = Any


class DigitalFilter:
    """The base class of digital filters: an output from a window of inputs and a window of outputs.

    `compute` runs when the window of inputs is full, and then for every sample. `backward` has the outputs before,
    zeros where there were none. After a missing sample that is not taken for a zero, the windows fill up again.

    A filter that can be updated has `on_init` and `on_hop` in place of `compute`: `memory` numbers of each group are
    theirs to change. `on_init` runs for a window that has just filled up, `on_hop` for every sample after.
    """

    feed_forward = 1
    """How many inputs `compute` sees, the newest last."""
    feed_backward = 0
    """How many outputs it sees, the newest last."""
    missing_is_zero = True
    memory = 0
    """How many numbers `on_init` and `on_hop` keep for each group."""

    def on_init(self, forward: Array, backward: Array, memory: Array) -> float:
        """The output for the first full window of inputs."""
        return self.compute(forward, backward)

    def on_hop(self, old: float, new: float, forward: Array, backward: Array, memory: Array) -> float:
        """The output for a window of inputs that `old` has left and `new` has entered."""
        return self.compute(forward, backward)

    def compute(self, forward: Array, backward: Array) -> float:
        """The output for the newest input."""
        raise SignalError(f"{type(self).__name__} has no method compute(forward, backward)")


class WindowOperator:
    """The base class of array operators: an array from an array.

    One that has `update` too is updated from one window to the next where windows overlap and it is the first of a
    pipeline, without weights; every 256th window of the grid is recomputed, so that rounding errors do not add up.
    """

    is_complex: bool | None = None
    """Whether outputs are complex; None if they are where inputs are."""

    def output_size(self, size: int) -> int:
        """The length of the output for inputs of some length."""
        return size

    def recompute(self, window: Array) -> Array:
        """The output for a window."""
        raise SignalError(f"{type(self).__name__} has no method recompute(window)")

    def update(self, output: Array, old: Array, new: Array, window: Array) -> Array:
        """The output for a window that the samples `old` have left and `new` have entered, from the one before, which
        may be changed in place."""
        raise SignalError(f"{type(self).__name__} has no method update(output, old, new, window)")
