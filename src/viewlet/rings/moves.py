"""Sums about other numbers: by the binomial theorem, in pairs of doubles, rounded once.

    Σ(x + d)² = Σx² + 2d Σx + d² n

This is the product with the lift of the distance d. It cannot bring back digits that are lost already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.rings.double import Dyadic
from viewlet.rings.monomials import Places, Product, count_monomials, monomials, product_of

Floats = npt.NDArray[np.float64]
Origins = tuple[float, ...]
"""One for each variable of an element; () where all are zero."""
_SPLIT = 2.0**27 + 1
_RULES = 256


def normal(origins: Sequence[float]) -> Origins:
    return tuple(origins) if any(origins) else ()


def moved(sums: Any, before: Origins, after: Origins, variables: int, degree: int) -> Any:
    """Sums about other origins; the last axis has the monomials of so many variables up to a degree.

    Exact numbers stay exact.
    """
    if before == after or not degree:
        return sums
    none = (0.0,) * variables
    if sums.dtype != object:
        return _move(before or none, after or none, degree).apply(sums)
    rule, powers = _lift(before or none, after or none, degree)
    return rule.apply(sums, np.array(powers, object), sums.shape[-1])


@dataclass(frozen=True, slots=True)
class _Move:
    """out[i] = Σ over j of sums[source[i, j]] * (high[i, j] + low[i, j])."""

    source: Places
    high: Floats
    low: Floats

    def apply(self, sums: Floats) -> Floats:
        total, rest = np.zeros_like(sums), np.zeros_like(sums)
        for source, high, low in zip(self.source.T, self.high.T, self.low.T, strict=True):
            number = sums[..., source]
            product, error = _two_product(number, high)
            total, lost = _two_sum(total, product)
            rest += error + lost + number * low
        return total + rest


def _lift(before: Origins, after: Origins, degree: int) -> tuple[Product, list[Dyadic]]:
    """The lift of the distances, and how it is multiplied by."""
    distances = [Dyadic.of(a) + -Dyadic.of(b) for a, b in zip(before, after, strict=True)]
    names = tuple(range(len(distances)))
    moving = tuple(i for i in names if distances[i])
    powers = [prod((distances[i] for i in monomial), start=Dyadic(1)) for monomial in monomials(moving, degree)]
    return product_of(names, moving, degree), powers


@lru_cache(_RULES)
def _move(before: Origins, after: Origins, degree: int) -> _Move:
    rule, powers = _lift(before, after, degree)
    assert rule.target is not None
    assert rule.coefficient is not None
    order = np.argsort(rule.target, kind="stable")
    targets = rule.target[order]
    rank = np.arange(len(targets)) - np.searchsorted(targets, targets)
    shape = count_monomials(len(before), degree), int(rank.max()) + 1
    source, high, low = np.zeros(shape, np.intp), np.zeros(shape), np.zeros(shape)
    weights = [int(rule.coefficient[i]) * powers[rule.right[i]].fraction for i in order]
    source[targets, rank] = rule.left[order]
    high[targets, rank] = [float(weight) for weight in weights]
    low[targets, rank] = [float(weight - Fraction(float(weight))) for weight in weights]
    return _Move(source, high, low)


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum of two doubles, and what rounding left of it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The product of two doubles, and what rounding left of it (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(number: Floats) -> tuple[Floats, Floats]:
    scaled = number * _SPLIT
    high = scaled - (scaled - number)
    return high, number - high
