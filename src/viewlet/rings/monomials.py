"""Monomials of bounded degree in a fixed order, and how sums of them multiply.

    over x, y up to degree 2:    1, x, y, x², xy, y²

A monomial is a sorted tuple of variables, repeated as often as their power: (0, 0, 1) is x²y. The order is by degree
first, so that the monomials of a lower degree are the beginning of those of a higher one; each appears once, which for
degree 2 is the upper triangle of a matrix.

The sums over a product of two relations follow from the sums over each: the sum of (x + y)-monomials splits by how much
of it each side contributes, with binomial coefficients where both sides have the same variable. A `Product` is that
rule for given variables on both sides, as arrays of places; it is worked out once and used for every payload.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from math import comb, prod
from typing import Any

import numpy as np
import numpy.typing as npt

Variables = tuple[int, ...]
"""Positions of variables in the ring, ascending."""
Places = npt.NDArray[np.intp]


@cache
def monomials(variables: Variables, degree: int) -> tuple[Variables, ...]:
    """All monomials over the variables up to the degree, lower degrees first."""
    return tuple(found for power in range(degree + 1) for found in combinations_with_replacement(variables, power))


def count_monomials(variables: int, degree: int) -> int:
    """How many there are.

    >>> count_monomials(43, 2), count_monomials(27, 2)
    (990, 406)
    """
    return comb(variables + degree, degree)


@cache
def places(variables: Variables, degree: int) -> dict[Variables, int]:
    """Where each monomial stands."""
    return {monomial: place for place, monomial in enumerate(monomials(variables, degree))}


@dataclass(frozen=True, slots=True)
class Product:
    """out[target] += coefficient * a[left] * b[right]; without a target, the places of out in order, each once."""

    variables: Variables
    left: Places
    right: Places
    target: Places | None
    coefficient: npt.NDArray[np.int64] | None

    def apply(self, left: npt.NDArray[Any], right: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
        """The first `width` places of the product: fewer of them where less than the full degree is wanted."""
        if self.target is None:
            found: npt.NDArray[Any] = left[self.left[:width]] * right[self.right[:width]]
            return found
        assert self.coefficient is not None
        kept = self.target < width
        terms = left[self.left[kept]] * right[self.right[kept]] * self.coefficient[kept].astype(left.dtype)
        out = np.zeros(width, dtype=left.dtype)
        np.add.at(out, self.target[kept], terms)
        return out


@cache
def product_of(left: Variables, right: Variables, degree: int) -> Product:
    """The rule for sums over `left` times sums over `right`."""
    union = tuple(sorted({*left, *right}))
    if len(union) == len(left) + len(right):
        return _disjoint(left, right, union, degree)
    target_places = places(union, degree)
    terms = [
        (i, j, target_places[tuple(sorted(a + b))], _ways(a, b))
        for i, a in enumerate(monomials(left, degree))
        for j, b in enumerate(monomials(right, degree))
        if len(a) + len(b) <= degree
    ]
    i, j, target, ways = (list(column) for column in zip(*terms, strict=True))
    return Product(union, _array(i), _array(j), _array(target), np.array(ways, dtype=np.int64))


def _disjoint(left: Variables, right: Variables, union: Variables, degree: int) -> Product:
    """Without common variables, every monomial of the product comes from exactly one pair."""
    left_places, right_places, own = places(left, degree), places(right, degree), set(left)
    wanted = monomials(union, degree)
    return Product(
        union,
        _array([left_places[tuple(x for x in monomial if x in own)] for monomial in wanted]),
        _array([right_places[tuple(x for x in monomial if x not in own)] for monomial in wanted]),
        None,
        None,
    )


def _ways(left: Variables, right: Variables) -> int:
    """In how many ways the product of two monomials splits into them."""
    powers, whole = Counter(left), Counter(left + right)
    return prod(comb(whole[variable], power) for variable, power in powers.items())


@cache
def embedding(inner: Variables, outer: Variables, degree: int) -> Places:
    """The places of the monomials over `inner` among those over `outer`, a superset."""
    at = places(outer, degree)
    return _array([at[monomial] for monomial in monomials(inner, degree)])


@cache
def powers(variables: int, degree: int) -> tuple[tuple[slice, Places, Places], ...]:
    """How to make the monomials of single values: per degree, its places, and each as a lower one times a variable."""
    names = tuple(range(variables))
    at, steps = places(names, degree), []
    for power in range(1, degree + 1):
        own = list(combinations_with_replacement(names, power))
        start = count_monomials(variables, power - 1)
        before = _array([at[monomial[:-1]] for monomial in own])
        steps.append((slice(start, start + len(own)), before, _array([monomial[-1] for monomial in own])))
    return tuple(steps)


def _array(numbers: list[int]) -> Places:
    return np.array(numbers, dtype=np.intp)
