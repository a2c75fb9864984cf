"""Functions and classes of users: wrong in many ways, or right."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.signals import DigitalFilter, Interpolator, Payload, WindowOperator


def imaginary(x: Any) -> Any:
    return x * 1j


def text(x: Any) -> Any:
    return np.full(len(x), "one")


def fails_above_nine(x: Any) -> Any:
    if (np.asarray(x) > 9).any():
        raise RuntimeError("more than nine")
    return x


def ragged(x: Any) -> Any:
    return [[1.0], [1.0, 2.0]]


def fails_below_two(x: Any) -> Any:
    if (np.asarray(x) < 2).any():
        raise RuntimeError("less than two")
    return x


def takes_two(x: Any, y: Any) -> Any:
    return x + y


def line(time: Any, slope: Any, start: Any) -> Any:
    return slope * time + start


class NoMethod(WindowOperator):
    pass


class Spectrum(WindowOperator):
    def output_size(self, size: int) -> int:
        return size // 2 + 1

    def recompute(self, window: Any) -> Any:
        return np.fft.rfft(window)


class ComplexSpectrum(Spectrum):
    is_complex = True


class Short(WindowOperator):
    def recompute(self, window: Any) -> Any:
        return window[1:]


class NoSize(WindowOperator):
    def output_size(self, size: int) -> Any:
        return size / 2


class ImaginaryFilter(DigitalFilter):
    def compute(self, forward: Any, backward: Any) -> Any:
        return forward[0] * 1j


class WideFilter(DigitalFilter):
    def compute(self, forward: Any, backward: Any) -> Any:
        return forward.repeat(2)


class Recursion(DigitalFilter):
    feed_backward = 1

    def compute(self, forward: Any, backward: Any) -> Any:
        return np.log(forward[0]) + 0.5 * backward[0]


class NoFilter(DigitalFilter):
    feed_forward = -1


class ImaginaryPoints(Interpolator):
    def interpolate(self, t: float) -> Any:
        return 1j


class ImaginarySum(Payload):
    def zero(self) -> Any:
        return (0.0,)

    def plus(self, x: Any, y: Any) -> Any:
        return (x + y) * 1j

    def scale(self, x: Any, factor: Any) -> Any:
        return x * factor


def doubled(x: Any) -> Any:
    return 2 * x


def squared_and_one(x: Any) -> Any:
    return x.real * x.real + x.imag * x.imag + 1.0


def root(x: Any) -> Any:
    """No number below 0.7373."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(x.real - 0.7373)


def spiked(x: Any) -> Any:
    """Infinite above 1.2121, and no number below -1.2121."""
    return np.where(x.real > 1.2121, np.inf, np.where(x.real < -1.2121, np.nan, x))


def turned(x: Any) -> Any:
    return x * (0.6 + 0.8j)


def above(x: Any) -> Any:
    return (x if x.ndim == 1 else x[:, 0]).real > -0.3131


def spread(x: Any) -> Any:
    """Of every window, the least and the largest magnitude."""
    size = np.abs(x)
    return np.stack((size.min(axis=-1), size.max(axis=-1)), axis=-1)


class Smooth(DigitalFilter):
    feed_forward = 2
    feed_backward = 1

    def compute(self, forward: Any, backward: Any) -> Any:
        return 0.5 * forward[1] + 0.25 * forward[0] + 0.2 * backward[0]


class Ramp(WindowOperator):
    def recompute(self, window: Any) -> Any:
        return np.cumsum(window)
