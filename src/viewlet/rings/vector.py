"""Vectors of doubles, added and multiplied place by place: many sums over one join in one payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.rings.ring import Field, Lift, bounded, largest

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class VectorRing:
    """Place i of the sum is the product of the variables that `factors[i]` names; () counts rows.

    >>> ring = VectorRing(((), ("x",), ("x", "y")))
    >>> ring.lift(("x", "y"))((3, 5)).tolist()
    [1.0, 3.0, 15.0]
    """

    factors: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        return f"vector of {self.width}"

    @property
    def width(self) -> int:
        return len(self.factors)

    @cached_property
    def zero(self) -> Vector:
        return np.zeros(self.width)

    @cached_property
    def one(self) -> Vector:
        return np.ones(self.width)

    def add(self, left: Vector, right: Vector) -> Vector:
        return left + right

    def mul(self, left: Vector, right: Vector) -> Vector:
        return left * right

    def neg(self, element: Vector) -> Vector:
        return -element

    def is_zero(self, element: Vector) -> bool:
        return not element.any()

    def lift(self, variables: Sequence[str]) -> Lift[Vector]:
        places = [[i for i, names in enumerate(self.factors) if variable in names] for variable in variables]
        limit = largest(max(map(len, self.factors), default=1))

        def lifted(values: Sequence[Any]) -> Vector:
            element = np.ones(self.width)
            for at, value in zip(places, values, strict=True):
                if at:
                    element[at] *= bounded(value, limit)
            return element

        return lifted

    @property
    def layout(self) -> tuple[Field, ...]:
        return tuple(Field(f"sum({'*'.join(names) or '1'})", "float") for names in self.factors)

    def to_flat(self, element: Vector) -> tuple[float, ...]:
        return tuple(element.tolist())

    def from_flat(self, numbers: Sequence[float]) -> Vector:
        return np.array(numbers, dtype=np.float64)
