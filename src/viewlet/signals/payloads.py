"""Values with an arithmetic of their own (Figure 7.2), such as quaternions, angles or intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.signals.errors import SignalError
from viewlet.signals.user_code import calling, numbers_of

Array = Any


class Payload:
    """The base class of arithmetics. A value has the components of the columns of a signal.

    Methods get arrays of values, with components along the last axis, and treat each value on its own.
    """

    def zero(self) -> Sequence[float]:
        """The components of the neutral element of `plus`."""
        raise SignalError(f"{type(self).__name__} has no method zero()")

    def plus(self, x: Array, y: Array) -> Array:
        """x + y."""
        raise SignalError(f"{type(self).__name__} has no method plus(x, y)")

    def minus(self, x: Array, y: Array) -> Array:
        """x - y; by `plus` and `scale`, unless there is a better way."""
        return self.plus(x, self.scale(y, -1.0))

    def scale(self, x: Array, factor: Array) -> Array:
        """x times a number, or times an array with a number for each value, along an axis of length 1."""
        raise SignalError(f"{type(self).__name__} has no method scale(x, factor)")

    def times(self, x: Array, y: Array) -> Array:
        """x * y."""
        raise SignalError(f"{type(self).__name__} has no method times(x, y)")


class Arithmetic:
    """A payload as operators use it: results are checked to be values."""

    def __init__(self, payload: Payload, width: int) -> None:
        self._payload, self._width = payload, width
        with calling(f"{type(payload).__name__}.zero()"):
            self.zero = np.asarray(payload.zero(), np.float64)
        if self.zero.shape != (width,):
            raise SignalError(
                f"{type(payload).__name__}.zero() has {self.zero.size} components, and a value of the signal {width}"
            )

    def plus(self, x: Array, y: Array) -> Array:
        return self._called("plus", x, x, y)

    def minus(self, x: Array, y: Array) -> Array:
        return self._called("minus", x, x, y)

    def scale(self, x: Array, factor: Array) -> Array:
        return self._called("scale", x, x, factor)

    def times(self, x: Array, y: Array) -> Array:
        return self._called("times", x, x, y)

    def _called(self, method: str, like: Array, *arguments: Array) -> Array:
        what = f"{type(self._payload).__name__}.{method}()"
        with calling(what):
            found = getattr(self._payload, method)(*arguments)
        value = numbers_of(found, False, what, "a value has real components")
        if value.shape != like.shape:
            raise SignalError(f"{what} gave an array of shape {value.shape} for values {like.shape}")
        return value
