"""Sums about other numbers: by the binomial theorem, in pairs of doubles, rounded once.

    Σ(x + d)² = Σx² + 2d Σx + d² n

It cannot bring back digits that are lost already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.rings.double import Dyadic
from viewlet.rings.monomials import Places, Variables, monomials, places

Floats = npt.NDArray[np.float64]
Origins = tuple[float, ...]
"""One for each variable of an element; () where all are zero."""
_SPLIT = 2.0**27 + 1
_RULES = 64


def normal(origins: Sequence[float]) -> Origins:
    return tuple(origins) if any(origins) else ()


def moved(sums: Any, before: Origins, after: Origins, variables: int, degree: int) -> Any:
    """Sums moved to other origins; the last axis has the monomials of all variables, up to the degree.

    Exact numbers stay exact.
    """
    if before == after or not degree:
        return sums
    none = (0.0,) * variables
    before, after = before or none, after or none
    if sums.dtype != object:
        return _move(before, after, degree).apply(sums)
    found = np.zeros_like(sums)
    for target, terms in enumerate(_terms(before, after, degree)):
        found[..., target] = sum(sums[..., source] * weight for source, weight in terms.items())
    return found


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


def _terms(before: Origins, after: Origins, degree: int) -> Iterator[dict[int, Dyadic]]:
    """For each monomial the places of those that its sum follows from, with their weights.

    Some factors x of a product of x + d are taken as they are, and for the others d.
    """
    distances = [Dyadic.of(a) + -Dyadic.of(b) for a, b in zip(before, after, strict=True)]
    names = tuple(range(len(distances)))
    at = places(names, degree)
    powers: dict[Variables, Dyadic] = {(): Dyadic(1)}
    weights: dict[tuple[int, Variables], Dyadic] = {}
    for monomial in monomials(names, degree):
        found: dict[int, tuple[int, Variables]] = {}
        moving = [i for i, name in enumerate(monomial) if distances[name]]
        for size in range(len(moving) + 1):
            for left_out in combinations(moving, size):
                taken = tuple(monomial[i] for i in left_out)
                if taken not in powers:
                    powers[taken] = powers[taken[:-1]] * distances[taken[-1]]
                source = at[tuple(name for i, name in enumerate(monomial) if i not in left_out)]
                ways = found[source][0] + 1 if source in found else 1
                found[source] = ways, taken
                if (ways, taken) not in weights:
                    weights[ways, taken] = powers[taken] * ways
        yield {source: weights[key] for source, key in found.items()}


@lru_cache(_RULES)
def _move(before: Origins, after: Origins, degree: int) -> _Move:
    terms, parts = list(_terms(before, after, degree)), dict[Dyadic, tuple[float, float]]()
    shape = len(terms), max(map(len, terms))
    source, high, low = np.zeros(shape, np.intp), np.zeros(shape), np.zeros(shape)
    for target, own in enumerate(terms):
        for rank, (place, weight) in enumerate(own.items()):
            if weight not in parts:
                parts[weight] = float(weight), float(weight + -Dyadic.of(float(weight)))
            source[target, rank] = place
            high[target, rank], low[target, rank] = parts[weight]
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
