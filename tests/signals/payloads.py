"""Arithmetics of the user's, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.signals import Payload


class Cubes(Payload):
    """A number stands for its cube: whatever is linear is what numbers give, between cubes and cube roots."""

    def zero(self) -> tuple[float, ...]:
        return (0.0,)

    def plus(self, x: Any, y: Any) -> Any:
        return np.cbrt(x**3 + y**3)

    def scale(self, x: Any, factor: Any) -> Any:
        return np.cbrt(factor * x**3)

    def times(self, x: Any, y: Any) -> Any:
        return x * y


class Quaternion(Payload):
    """Four components, with Hamilton's product."""

    def zero(self) -> tuple[float, ...]:
        return (0.0, 0.0, 0.0, 0.0)

    def plus(self, x: Any, y: Any) -> Any:
        return x + y

    def minus(self, x: Any, y: Any) -> Any:
        return x - y

    def scale(self, x: Any, factor: Any) -> Any:
        return factor * x

    def times(self, x: Any, y: Any) -> Any:
        a, b, c, d = np.moveaxis(x, -1, 0)
        e, f, g, h = np.moveaxis(y, -1, 0)
        product = (
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        )
        return np.stack(product, axis=-1)


class Wrong(Cubes):
    """A sum that is no value."""

    def plus(self, x: Any, y: Any) -> Any:
        return (x + y)[..., 0]
