"""A cofactor element as the count, the vector of sums and the symmetric matrix that models are fitted from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.double import Dyadic
from viewlet.rings.monomials import monomials
from viewlet.rings.moves import normal

Column = str | tuple[str, Any]
"""A continuous variable, or a categorical one with one of its categories."""


@dataclass(frozen=True, slots=True, eq=False)
class CofactorTable:
    """Columns are the continuous variables and one for each category that occurs: the one-hot matrix M, as MᵀM."""

    variables: tuple[Column, ...]
    count: int
    sums: npt.NDArray[np.float64]
    matrix: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    """MᵀM of the columns less their means, where it does not come from the rounded sums above."""
    squares: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    """The sums of squares that the diagonal of `spread` is computed from, where they are rounded."""
    origins: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    """Numbers near the values of the columns; zeros if there are none."""
    shifts: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    """The means of the columns less their origins."""

    @property
    def centred(self) -> npt.NDArray[np.float64]:
        """MᵀM of the columns less their means; over rounded sums it loses digits where means are large."""
        if self.spread is not None:
            return self.spread
        return _centred(self.count, self.sums, self.matrix)

    @property
    def subtracted(self) -> npt.NDArray[np.float64]:
        """The size of the numbers whose difference the diagonal of `centred` is."""
        if self.squares is not None:
            return self.squares
        return np.diagonal(self.matrix if self.spread is None else self.spread).copy()

    def means(self, origins: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
        """The means of the columns less the given origins."""
        if self.origins is None or self.shifts is None:
            return self.sums / self.count - (0.0 if origins is None else origins)
        return (self.origins if origins is None else self.origins - origins) + self.shifts


@dataclass(frozen=True, slots=True, eq=False)
class CofactorMoments(CofactorTable):
    """A cofactor table with its ring element, for the sums of products of more than two variables."""

    ring: CofactorRing
    element: Cofactor
    held: Mapping[Column, Any]
    """How the ring holds each category that is shown."""
    about_zero: Cofactor
    """The element with its sums about zero."""

    def less(self, origins: Mapping[str, float]) -> Cofactor:
        """The element of the same rows with some variables less the given origins."""
        names = self.ring.continuous
        moved = self.element.about(normal([origins.get(names[i], 0.0) for i in self.element.variables]))
        return Cofactor(moved.variables, moved.blocks)

    @property
    def degree(self) -> int:
        """Of how many variables products are summed."""
        return self.ring.degree

    def moment(self, factors: Iterable[str], categories: Mapping[str, Any] | None = None) -> float:
        """SUM of a product of continuous variables, over the rows of given categories."""
        return self.moment_of(self.about_zero, factors, categories)

    def moment_of(
        self, element: Cofactor, factors: Iterable[str], categories: Mapping[str, Any] | None = None
    ) -> float:
        """The same of an element that `less` returned."""
        held = {name: self.held.get((name, value), value) for name, value in (categories or {}).items()}
        return float(self.ring.moment(element, tuple(factors), held))


def cofactor_moments(
    ring: CofactorRing, element: Cofactor, shown: Mapping[str, Callable[[Any], Any]]
) -> CofactorMoments:
    """The table of an element together with a copy of it; `shown` says how the categories of a variable are shown."""
    element = ring.own(element)
    about_zero = element.about(())
    table = _table(ring, element, about_zero)
    columns = tuple(
        column if isinstance(column, str) else (column[0], shown[column[0]](column[1])) for column in table.variables
    )
    held = {new: old[1] for new, old in zip(columns, table.variables, strict=True) if not isinstance(old, str)}
    return CofactorMoments(
        columns,
        table.count,
        table.sums,
        table.matrix,
        ring,
        element,
        held,
        about_zero,
        spread=table.spread,
        squares=table.squares,
        origins=table.origins,
        shifts=table.shifts,
    )


def cofactor_table(ring: CofactorRing, element: Cofactor) -> CofactorTable:
    """The sums and products of an element over all variables of its ring (of degree 2 or more).

    >>> ring = CofactorRing(("x",), ("c",))
    >>> table = cofactor_table(ring, ring.lift(("x", "c"))((3, "b")))
    >>> table.variables, table.sums.tolist(), table.matrix.tolist()
    (('x', ('c', 'b')), [3.0, 1.0], [[9.0, 3.0], [3.0, 1.0]])
    """
    return _table(ring, element, element.about(()))


def _table(ring: CofactorRing, element: Cofactor, about_zero: Cofactor) -> CofactorTable:
    kinds = sorted((at[0] for at in element.blocks if len(at) == 1), key=lambda kind: (kind[0], _sortable(kind[1])))
    place: dict[Any, int] = {i: i for i in range(len(ring.continuous))}
    place |= {kind: len(ring.continuous) + i for i, kind in enumerate(kinds)}
    names: tuple[Column, ...] = (*ring.continuous, *((ring.categorical[at], value) for at, value in kinds))
    count = element.count
    sums, matrix = _sums_and_products(about_zero, place)
    if ring.exact and count:
        spread, means = _exact_spread(ring, element, place)
        origins = np.array([float(mean) if i in element.variables else 0.0 for i, mean in enumerate(means)])
        shifts = np.array([float(mean - Fraction(origin)) for mean, origin in zip(means, origins, strict=True)])
        return CofactorTable(names, count, sums, matrix, spread=spread, origins=origins, shifts=shifts)
    if not element.origins or not count:
        return CofactorTable(names, count, sums, matrix)
    origins = np.array([element.origin(i) for i in range(len(ring.continuous))] + [0.0] * len(kinds))
    near, products = _sums_and_products(element, place)
    return CofactorTable(
        names,
        count,
        sums,
        matrix,
        spread=_centred(count, near, products),
        squares=np.diagonal(products).copy(),
        origins=origins,
        shifts=near / count,
    )


def _sums_and_products(
    element: Cofactor, place: Mapping[Any, int]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    sums, matrix = np.zeros(len(place)), np.zeros((len(place), len(place)))
    for columns, number in _moments(element, place):
        if len(columns) == 1:
            sums[columns[0]] = float(number)
            if columns[0] not in element.variables:  # a column of zeros and ones is its own square
                matrix[columns[0], columns[0]] = float(number)
        elif len(columns) == 2:
            matrix[columns[0], columns[1]] = matrix[columns[1], columns[0]] = float(number)
    return sums, matrix


def _moments(element: Cofactor, place: Mapping[Any, int]) -> Iterator[tuple[list[int], Any]]:
    """The sums of products of up to two columns, with the columns."""
    for at, block in element.blocks.items():
        names = monomials(element.variables, 2 - len(at)) if len(at) <= 2 else ()
        for monomial, number in zip(names, block, strict=False):
            yield [place[factor] for factor in (*monomial, *at)], number


def _centred(count: int, sums: npt.NDArray[np.float64], products: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    means = sums / count
    found: npt.NDArray[np.float64] = products - count * np.outer(means, means)
    return found


def _exact_spread(
    ring: CofactorRing, element: Cofactor, place: Mapping[Any, int]
) -> tuple[npt.NDArray[np.float64], list[Fraction]]:
    """Products of columns less their means, and the means, from exact sums."""
    exact = {
        tuple(sorted(columns)): number.fraction if isinstance(number, Dyadic) else Fraction(number)
        for columns, number in _moments(element, place)
    }
    means = [exact.get((i,), Fraction(0)) / element.count for i in range(len(place))]
    return _spread(element.count, exact, len(place), len(ring.continuous)), means


def _spread(
    count: int, exact: Mapping[tuple[int, ...], Fraction], width: int, continuous: int
) -> npt.NDArray[np.float64]:
    """Products of columns less their means, from exact sums."""
    found, none = np.zeros((width, width)), Fraction(0)
    for i in range(width):
        for j in range(i, width):
            product = exact.get((i,) if i == j >= continuous else (i, j), none)
            found[i, j] = found[j, i] = float(product - exact.get((i,), none) * exact.get((j,), none) / count)
    return found


def _sortable(value: Any) -> tuple[str, Any]:
    """Categories in order; those of different types next to each other rather than compared."""
    return (type(value).__name__, value if isinstance(value, int | float | str) else repr(value))
