"""Pipelines of array operators over the windows of a signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewlet.signals import nodes
from viewlet.signals.api import Signal
from viewlet.signals.coefficients import checked_choice, length, positive, taps_of
from viewlet.signals.notation import Function, name_of
from viewlet.signals.query import Query


@dataclass(frozen=True, slots=True, repr=False)
class Windows(Query):
    """Windows of a signal under array operators: at every hop, one array. As a view, its values are lists."""

    def _then(self, operation: str, *arguments: Any) -> Windows:
        assert isinstance(self.node, nodes.Window)
        return Windows(replace(self.node, stages=(*self.node.stages, nodes.Stage(operation, arguments))))

    def _end(self, operation: str, *arguments: Any) -> Signal:
        assert isinstance(self.node, nodes.Window)
        return Signal(replace(self.node, finish=nodes.Stage(operation, arguments)))

    @property
    def size(self) -> int:
        """The length of the arrays."""
        assert self.form.size is not None
        return self.form.size

    def rfft(self) -> Windows:
        """The spectrum of real values: `scipy.fft.rfft`."""
        return self._then("rfft")

    def sliding_rfft(self) -> Windows:
        """The spectrum as `rfft` gives it, updated from one window to the next: fast for small hops.

        Every 256th window of the grid is transformed from its samples, so that rounding errors do not add up.
        """
        return self._then("sliding_rfft")

    def irfft(self, size: int | None = None) -> Windows:
        """Real values of a spectrum: `scipy.fft.irfft`, to as many as the window has if that fits."""
        assert isinstance(self.node, nodes.Window)
        if size is None:
            size = self.node.size if self.node.size // 2 + 1 == self.size else 2 * (self.size - 1)
        return self._then("irfft", length(size, "irfft()"))

    def fft(self) -> Windows:
        """The spectrum: `scipy.fft.fft`."""
        return self._then("fft")

    def ifft(self) -> Windows:
        """The values of a spectrum: `scipy.fft.ifft`."""
        return self._then("ifft")

    def select(self, function: Function, size: int | None = None, *, is_complex: bool | None = None) -> Windows:
        """A function of windows, which are along the last axis of the array that it gets.

        It has to treat windows independently of each other, for it gets several at once.
        """
        return self._then(
            "select", name_of(function, "select()"), None if size is None else length(size, "select()"), is_complex
        )

    def apply(self, operator: Function) -> Windows:
        """An array operator of the user's: a subclass of `WindowOperator` that can be imported."""
        return self._then("user", name_of(operator, "apply()"))

    def top_k(self, count: int) -> Windows:
        """The `count` values with the largest magnitudes, zeros for the others."""
        return self._then("top_k", positive(count, "top_k()"))

    def magnitude(self) -> Windows:
        """The magnitude of every value."""
        return self._then("magnitude")

    def power_spectrum(self) -> Windows:
        """The square of the magnitude of every value."""
        return self._then("power_spectrum")

    def detrend(self, kind: str = "linear") -> Windows:
        """Each window without its linear trend, or with `"constant"` without its mean: `scipy.signal.detrend`."""
        checked_choice(kind, ("linear", "constant"), "detrend()")
        return self._then("detrend", kind)

    def product(self, values: Sequence[complex]) -> Windows:
        """Each window times some values, one by one."""
        return self._then("product", taps_of(values, "product()"))

    def autocorrelate(self) -> Windows:
        """`numpy.correlate(x, x, "full")` of each window: 2n - 1 values."""
        return self._then("autocorrelate")

    def cross_correlate(self) -> Windows:
        """`numpy.correlate(y, x, "full")` of the first component x of each window with every component y.

        `a.join(b).window(n).cross_correlate()` correlates two signals.
        """
        return self._then("cross_correlate")

    def correlate(self, values: Sequence[complex]) -> Windows:
        """`numpy.correlate(x, values, "full")` of each window."""
        return self._then("correlate", taps_of(values, "correlate()"))

    def overlap_add(self, norm: str | None = None) -> Signal:
        """A signal again: each array ends at its hop, and what overlaps is added up.

        With `norm="dual"`, arrays are weighted with the window once more, and sums divided by the sums of its squares:
        a pipeline that changes nothing gives back the signal.
        """
        checked_choice(norm, (None, "dual"), "norm")
        return self._end("overlap_add", *(() if norm is None else (norm,)))

    def last(self) -> Signal:
        """The last value of each array."""
        return self._end("last")

    def sum(self) -> Signal:
        """The sum of each array."""
        return self._end("sum")

    def mean(self) -> Signal:
        """The mean of each array."""
        return self._end("mean")

    def power(self) -> Signal:
        """The mean of squares of each array."""
        return self._end("power")

    def energy(self) -> Signal:
        """The sum of squares of each array."""
        return self._end("energy")

    def min(self) -> Signal:
        """The least value of each array."""
        return self._end("min")

    def max(self) -> Signal:
        """The largest value of each array."""
        return self._end("max")
