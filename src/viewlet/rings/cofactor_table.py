"""A cofactor element as the count, the vector of sums and the symmetric matrix that models are fitted from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.double import Dyadic
from viewlet.rings.monomials import monomials

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
    """MᵀM of the columns less their means, where it was computed before anything was rounded."""

    @property
    def centred(self) -> npt.NDArray[np.float64]:
        """MᵀM of the columns less their means; over rounded sums it loses digits where means are large."""
        if self.spread is not None:
            return self.spread
        means = self.sums / self.count
        return self.matrix - self.count * np.outer(means, means)

    @property
    def subtracted(self) -> npt.NDArray[np.float64]:
        """The size of the numbers whose difference the diagonal of `centred` is."""
        return np.diagonal(self.matrix if self.spread is None else self.spread).copy()


@dataclass(frozen=True, slots=True, eq=False)
class CofactorMoments(CofactorTable):
    """A cofactor table with its ring element, for the sums of products of more than two variables."""

    ring: CofactorRing
    element: Cofactor
    held: Mapping[Column, Any]
    """How the ring holds each category that is shown."""

    @property
    def degree(self) -> int:
        """Of how many variables products are summed."""
        return self.ring.degree

    def moment(self, factors: Iterable[str], categories: Mapping[str, Any] | None = None) -> float:
        """SUM of a product of continuous variables, over the rows of given categories."""
        held = {name: self.held.get((name, value), value) for name, value in (categories or {}).items()}
        return float(self.ring.moment(self.element, tuple(factors), held))


def cofactor_moments(
    ring: CofactorRing, element: Cofactor, shown: Mapping[str, Callable[[Any], Any]]
) -> CofactorMoments:
    """The table of an element together with a copy of it; `shown` says how the categories of a variable are shown."""
    table = cofactor_table(ring, element)
    columns = tuple(
        column if isinstance(column, str) else (column[0], shown[column[0]](column[1])) for column in table.variables
    )
    held = {new: old[1] for new, old in zip(columns, table.variables, strict=True) if not isinstance(old, str)}
    return CofactorMoments(
        columns, table.count, table.sums, table.matrix, ring, ring.own(element), held, spread=table.spread
    )


def cofactor_table(ring: CofactorRing, element: Cofactor) -> CofactorTable:
    """The sums and products of an element over all variables of its ring (of degree 2 or more).

    >>> ring = CofactorRing(("x",), ("c",))
    >>> table = cofactor_table(ring, ring.lift(("x", "c"))((3, "b")))
    >>> table.variables, table.sums.tolist(), table.matrix.tolist()
    (('x', ('c', 'b')), [3.0, 1.0], [[9.0, 3.0], [3.0, 1.0]])
    """
    kinds = sorted((at[0] for at in element.blocks if len(at) == 1), key=lambda kind: (kind[0], _sortable(kind[1])))
    place: dict[Any, int] = {i: i for i in range(len(ring.continuous))}
    place |= {kind: len(ring.continuous) + i for i, kind in enumerate(kinds)}
    sums, matrix = np.zeros(len(place)), np.zeros((len(place), len(place)))
    exact: dict[tuple[int, ...], Fraction] = {}
    for at, block in element.blocks.items():
        for monomial, number in zip(
            monomials(element.variables, 2 - len(at)) if len(at) <= 2 else (), block, strict=False
        ):
            columns = [place[factor] for factor in (*monomial, *at)]
            if ring.exact:
                exact[tuple(sorted(columns))] = number.fraction if isinstance(number, Dyadic) else Fraction(number)
            if len(columns) == 1:
                sums[columns[0]] = float(number)
                if at:  # a column of zeros and ones is its own square
                    matrix[columns[0], columns[0]] = float(number)
            elif len(columns) == 2:
                matrix[columns[0], columns[1]] = matrix[columns[1], columns[0]] = float(number)
    names = tuple((ring.categorical[at], value) for at, value in kinds)
    spread = _spread(element.count, exact, len(place), len(ring.continuous)) if ring.exact and element.count else None
    return CofactorTable((*ring.continuous, *names), element.count, sums, matrix, spread=spread)


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
