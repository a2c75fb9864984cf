"""An interpolation and functions of users, found by their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.signals import DigitalFilter, Interpolator, WindowOperator


class Nearest(Interpolator):
    """The value of the nearer of two points."""

    def interpolate(self, t: float) -> float:
        return self.values[0] if t - self.times[0] < self.times[1] - t else self.values[1]


def square(x: Any) -> Any:
    return x * x


def is_large(x: Any) -> Any:
    return np.abs(x) > 1.0


def norm(rows: Any) -> Any:
    return np.hypot(rows[:, 0], rows[:, 1])


def sine(t: Any, period: Any, phase: Any) -> Any:
    """The function of section 7.3.2; what the chapter calls Freq is a period."""
    return np.sin(2 * np.pi * t / period + phase)


def drop_small(spectrum: Any) -> Any:
    """Zeros for what is below the mean magnitude of its window."""
    size = np.abs(spectrum)
    return np.where(size < size.mean(axis=-1, keepdims=True), 0, spectrum)


def same(x: Any) -> Any:
    return x


class Median3(DigitalFilter):
    """The median of three samples."""

    feed_forward = 3
    missing_is_zero = False

    def compute(self, forward: Any, backward: Any) -> float:
        return float(np.median(forward))


class Leaky(DigitalFilter):
    """y[n] = x[n] + y[n-1] / 2."""

    feed_backward = 1

    def compute(self, forward: Any, backward: Any) -> float:
        return float(forward[-1] + 0.5 * backward[-1])


class Halves(WindowOperator):
    """The sums of neighbours."""

    def output_size(self, size: int) -> int:
        return size // 2

    def recompute(self, window: Any) -> Any:
        return window[::2] + window[1::2]


class MovingSum(DigitalFilter):
    """The sum of four samples, by what enters and what leaves."""

    feed_forward = 4
    missing_is_zero = False
    memory = 1

    def on_init(self, forward: Any, backward: Any, memory: Any) -> float:
        memory[0] = forward.sum()
        return float(memory[0])

    def on_hop(self, old: float, new: float, forward: Any, backward: Any, memory: Any) -> float:
        memory[0] += new - old
        return float(memory[0])


class Histogram(WindowOperator):
    """How many values are in each of four ranges, by what leaves and what enters."""

    edges = (-1.0, 0.0, 1.0)
    updates = 0

    def output_size(self, size: int) -> int:
        return len(self.edges) + 1

    def recompute(self, window: Any) -> Any:
        return np.bincount(np.searchsorted(self.edges, window), minlength=4).astype(float)

    def update(self, output: Any, old: Any, new: Any, window: Any) -> Any:
        Histogram.updates += 1
        assert len(old) == len(new)
        return output + self.recompute(new) - self.recompute(old)


def ramp(t: Any, slope: Any, start: Any) -> Any:
    return slope * t + start
