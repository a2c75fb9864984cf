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
