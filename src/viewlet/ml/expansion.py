"""Products of columns that are moved, as sums of products of the columns themselves.

(x + d)(y + e) = xy + e x + d y + de        terms of fewer factors, and a constant
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np

from viewlet.ml.estimator import Floats
from viewlet.rings.cofactor_table import Column

Term = tuple[Column, ...]
"""The columns whose product has one weight; polynomials have terms of several columns."""
Origins = Mapping[Column, float]


class Expansion:
    """The `terms` of columns that are moved by `distances`; with a term, all products of fewer of its columns are."""

    def __init__(self, terms: Sequence[Term], distances: Origins) -> None:
        self._places = {term: place for place, term in enumerate(terms)}
        self._parts = [_expanded(term, distances) for term in terms]

    @property
    def basis(self) -> Floats | None:
        """The matrix that takes weights of moved terms to those of the terms; None if they are the same."""
        if all(parts.keys() <= {term, ()} for term, parts in zip(self._places, self._parts, strict=True)):
            return None
        found = np.zeros((len(self._parts), len(self._parts)))
        for place, parts in enumerate(self._parts):
            for part, factor in parts.items():
                if part:
                    found[self._places[part], place] = float(factor)
        return found

    def apply(self, weights: Floats) -> tuple[Floats, Fraction]:
        """The weights of the terms, rounded once, and a constant."""
        found, constant = [Fraction(0)] * len(self._parts), Fraction(0)
        for weight, parts in zip(weights.tolist(), self._parts, strict=True):
            for part, factor in parts.items():
                if part:
                    found[self._places[part]] += Fraction(weight) * factor
                else:
                    constant += Fraction(weight) * factor
        return np.array([float(weight) for weight in found]), constant


def _expanded(term: Term, distances: Origins) -> dict[Term, Fraction]:
    """A product of moved columns: the factor of each product of some of them; () is the constant."""
    moving = [i for i, column in enumerate(term) if distances.get(column)]
    found: dict[Term, Fraction] = {}
    for size in range(len(moving) + 1):
        for replaced in combinations(moving, size):
            part = tuple(column for i, column in enumerate(term) if i not in replaced)
            factor = prod((Fraction(distances[term[i]]) for i in replaced), start=Fraction(1))
            found[part] = found.get(part, Fraction(0)) + factor
    return found
