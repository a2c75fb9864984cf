"""When Woodbury's formula would lose too many digits of an inverse W, whose matrix changes by L R'.

    W L (I + R' W L)⁻¹ R' W

The capacitance matrix I + R' W L is close to singular if digits of I cancel. What it has then may also be noise: W has
rounding errors of about ε ‖W‖, which the product makes as large as ε ‖R‖ ‖W‖ ‖L‖. An entry that was set to 1e12 and is
taken back is such a change: entries of W that had become tiny, with errors that had not, decide what comes back. Where
the change is no larger than the matrix itself, an inverse that is recomputed has such errors too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.linalg.associate import Sizes
from viewlet.linalg.backends.contract import Backend
from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    Named,
    Product,
    Recurrence,
    Scale,
    Stack,
    Sum,
    Transpose,
    Zero,
)
from viewlet.linalg.values import Array, Units

SUSPECT = 1e-4
"""The part of the noise that is tolerated from which on the norm of the inverse is looked at again."""
INHERENT = 16.0
"""Noise of so many times the error that a fresh inverse has, ε ‖W‖ ‖W⁻¹‖, is tolerated too."""


class IllConditioned(Exception):  # noqa: N818
    """Woodbury's formula would lose too many digits: the condition number of the capacitance matrix."""

    def __init__(self, condition: float) -> None:
        super().__init__(condition)
        self.condition = condition


@dataclass(slots=True)
class _Seen:
    """The largest norm of an inverse, and the smallest one of its matrix, since it was evaluated."""

    inverse: float = 0.0
    system: float = math.inf


class Guards:
    """Checks capacitance matrices before Woodbury's formula divides by them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._worst = 1.0 / math.sqrt(float(np.finfo(backend.dtype).eps))
        self._seen: dict[Matrix, _Seen] = {}

    def forget(self, inverse: Matrix) -> None:
        """An inverse was evaluated again."""
        self._seen.pop(inverse, None)

    def check(self, capacitance: Array) -> float:
        """Raises `IllConditioned`, or returns the smallest singular value."""
        largest, smallest = self._backend.strengths(capacitance)
        condition = max(1.0, largest) / smallest if smallest > 0 else math.inf
        if not condition <= self._worst:
            raise IllConditioned(condition)
        return smallest

    def check_noise(
        self,
        smallest: float,
        inverse: Matrix,
        stored: Mapping[Matrix, Array],
        factors: tuple[Any, Any],
        system: Callable[[], float],
    ) -> None:
        """The same for digits that are noise.

        `smallest` is the smallest singular value of the capacitance matrix, `factors` are L and R, and `system` is the
        norm of the matrix whose inverse it is, which is asked for where that decides.
        """
        seen = self._seen.setdefault(inverse, _Seen())
        size = self._length(factors[0]) * self._length(factors[1]) / smallest
        if not seen.inverse or size * seen.inverse > SUSPECT * self._worst:
            seen.inverse = max(seen.inverse, self._backend.norm(stored[inverse]))
        if not size * seen.inverse <= self._worst:
            seen.system = min(seen.system, system())
            if not size <= INHERENT * seen.system:
                raise IllConditioned(size * seen.inverse)

    def _length(self, factor: Any) -> float:
        return math.sqrt(len(factor.places)) if isinstance(factor, Units) else self._backend.norm(factor)


def norm_of(node: Expression, sizes: Sizes, norm: Callable[[Matrix], float]) -> float:
    """At most so large is the Frobenius norm of an expression over matrices whose norms are known."""
    match node:
        case Matrix():
            return norm(node)
        case Identity():
            return math.sqrt(node.size.at(sizes))
        case Scale():
            return abs(node.factor) * norm_of(node.body, sizes, norm)
        case Sum():
            return sum(norm_of(term, sizes, norm) for term in node.terms)
        case Product():
            return norm_of(node.left, sizes, norm) * norm_of(node.right, sizes, norm)
        case Transpose() | Named():
            return norm_of(node.body, sizes, norm)
        case Stack():
            return math.hypot(*(norm_of(block, sizes, norm) for block in node.blocks))
        case Zero():
            return 0.0
        case Inverse() | Recurrence():
            return math.inf
