"""Symbolic sizes: polynomials over the names of dimensions, such as `n`, `n + 1` or the cost `2n² + 3n`.

A dimension of a matrix is a polynomial of degree one, a count of operations any polynomial. Two dimensions fit if they
are the same polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from viewlet.linalg.errors import ShapeError
from viewlet.visible import described

Monomial = tuple[str, ...]
"""The names of a product, sorted; a name that occurs twice is squared."""

LARGEST = 2**31 - 1
"""The most places of a dimension that is a number."""
POWERS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Size:
    """A polynomial with whole coefficients over the names of dimensions.

    >>> n = dim("n")
    >>> print(n * n * 2 + 3 * n + 1)
    2n² + 3n + 1
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Size | int) -> Size:
        total = dict(self.terms)
        for names, factor in size(other).terms:
            total[names] = total.get(names, 0) + factor
        return _normal(total)

    __radd__ = __add__

    def __sub__(self, other: Size | int) -> Size:
        return self + size(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        total: dict[Monomial, int] = {}
        for names, factor in self.terms:
            for more, times in size(other).terms:
                product = tuple(sorted(names + more))
                total[product] = total.get(product, 0) + factor * times
        return _normal(total)

    __rmul__ = __mul__

    @property
    def names(self) -> frozenset[str]:
        """The dimensions that occur in it."""
        return frozenset(name for names, _ in self.terms for name in names)

    def at(self, values: Mapping[str, int | float]) -> float:
        """Its value where every dimension has the given value."""
        total = 0.0
        for names, factor in self.terms:
            try:
                value = float(factor)
                for name in names:
                    value *= values[name]
            except OverflowError:
                value = math.inf
            total += value
        return total

    def whole(self, values: Mapping[str, int]) -> int:
        """Its value as a whole number; dimensions without a value are an error."""
        if missing := self.names - values.keys():
            raise ShapeError(f"the size of dimension {sorted(missing)[0]!r} is not known: give a matrix that has it")
        return int(self.at(values))

    def put(self, values: Mapping[str, Size]) -> Size:
        """Replaces names by other sizes."""
        total = size(0)
        for names, factor in self.terms:
            product = size(factor)
            for name in names:
                product = product * values.get(name, dim(name))
            total = total + product
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        return " + ".join(_text(names, factor) for names, factor in self.terms).replace("+ -", "- ")


def dim(name: str) -> Size:
    """A dimension that is known by its name until the program starts."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ShapeError(f"a dimension is named by an identifier, such as dim('n'), not by {described(name)}")
    return Size((((name,), 1),))


def size(value: Size | int) -> Size:
    """A size from a whole number or from a size."""
    if isinstance(value, Size):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ShapeError(f"a dimension is a whole number or dim('name'), not {described(value)}")
    return Size((((), value),)) if value else Size(())


def side(value: Size | int) -> Size:
    """A size that a matrix may have."""
    if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= LARGEST:
        raise ShapeError(f"a side of a matrix has from 0 to {LARGEST} places, not {_short(value)}")
    return size(value)


def _short(value: int) -> str:
    return str(value) if abs(value) < 10**20 else "a number of more than twenty digits"


def _normal(total: Mapping[Monomial, int]) -> Size:
    terms = [(names, factor) for names, factor in total.items() if factor]
    return Size(tuple(sorted(terms, key=lambda term: (-len(term[0]), term[0]))))


def _text(names: Monomial, factor: int) -> str:
    counts = [(name, len(list(group))) for name, group in groupby(names)]
    product = "·".join(name + (str(count).translate(POWERS) if count > 1 else "") for name, count in counts)
    if not product:
        return str(factor)
    return product if factor == 1 else f"-{product}" if factor == -1 else f"{factor}{product}"
