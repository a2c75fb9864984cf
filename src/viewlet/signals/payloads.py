"""Values with an arithmetic of their own (Figure 7.2), such as quaternions, angles or intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.signals.errors import SignalError

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
        self.zero = np.asarray(payload.zero(), np.float64)
        if self.zero.shape != (width,):
            raise SignalError(
                f"{type(payload).__name__}.zero() has {self.zero.size} components, and a value of the signal {width}"
            )

    def plus(self, x: Array, y: Array) -> Array:
        return self._checked("plus", self._payload.plus(x, y), x)

    def minus(self, x: Array, y: Array) -> Array:
        return self._checked("minus", self._payload.minus(x, y), x)

    def scale(self, x: Array, factor: Array) -> Array:
        return self._checked("scale", self._payload.scale(x, factor), x)

    def times(self, x: Array, y: Array) -> Array:
        return self._checked("times", self._payload.times(x, y), x)

    def _checked(self, method: str, found: Any, x: Array) -> Array:
        value = np.asarray(found, np.float64)
        if value.shape != x.shape:
            name = type(self._payload).__name__
            raise SignalError(f"{name}.{method}() gave an array of shape {value.shape} for values {x.shape}")
        return value
