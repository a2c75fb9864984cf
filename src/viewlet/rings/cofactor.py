"""The cofactor ring: count, sums and products of variables, which is all that linear regression needs of a join.

    lift("x")(3)   = 1 + 3 x + 9 x²               count 1, SUM(x) = 3, SUM(x*x) = 9
    lift("c")("b") = 1 + [c = "b"]                count 1, one row of category b

Definition 6.2 of "Incremental View Maintenance with Triple Lock Factorization Benefits" (M. Nikolic and D. Olteanu),
generalised twice. The degree is not only 2: sums of products of up to four variables are what polynomial regression
needs. And variables may be categorical: they are never expanded to one column per category; their sums are kept by the
categories that occur, and so are their products with each other and with the continuous ones.

An element has places only for the continuous variables that have been lifted on its way, each product once (the upper
triangle). Algebraically these are polynomials with divided powers, cut off above the degree, in which a categorical
variable occurs at most once; cutting off is taking a quotient, so all laws of a ring hold.

The sums of an element may be about `origins` instead of zero (`rings/origins.py`). Elements about different ones add
up and multiply all the same; in one view tree nearly all are about the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.errors import SchemaError
from viewlet.rings.double import Dyadic
from viewlet.rings.monomials import Variables, count_monomials, embedding, monomials, places, powers, product_of
from viewlet.rings.moves import Origins, moved, normal
from viewlet.rings.origins import distance, shared_origin
from viewlet.rings.ring import Field, Lift, bounded, largest

Categories = tuple[tuple[int, Any], ...]
"""Values of some categorical variables, by position: a row of the one-hot columns, without the zeros."""
Sums = npt.NDArray[Any]
HIGHEST_DEGREE = 4


@dataclass(slots=True, eq=False)
class Cofactor:
    """Sums of products, by the categories of those that have a categorical factor; () has those without.

    The block of k categories has the monomials of the continuous `variables` up to the degree of the ring less k.
    """

    variables: Variables
    blocks: dict[Categories, Sums]
    origins: Origins = ()
    """What the sums of each variable are about; () is zero for all."""

    @property
    def count(self) -> int:
        """How many rows were summed."""
        return int(self.blocks[()][0]) if () in self.blocks else 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cofactor):
            return NotImplemented
        if self.variables == other.variables and self.origins == other.origins:
            return self._entries() == other._entries()
        return self.entries() == other.entries()

    __hash__ = None  # type: ignore[assignment]

    def entries(self) -> dict[tuple[Categories, Variables], Any]:
        """The sums about zero that are not zero, by categories and monomial."""
        return self.about(())._entries()

    def about(self, origins: Origins) -> Cofactor:
        """The same element with its sums about other origins."""
        if origins == self.origins:
            return self
        size = len(self.variables)
        blocks = {
            at: moved(block, self.origins, origins, size, self._degree(block)) for at, block in self.blocks.items()
        }
        return Cofactor(self.variables, blocks, origins)

    def origin(self, variable: int) -> float:
        """What the sums of a variable, or of one that the element has not seen, are about."""
        return self.origins[self.variables.index(variable)] if self.origins and variable in self.variables else 0.0

    def _entries(self) -> dict[tuple[Categories, Variables], Any]:
        return {
            (categories, monomial): number
            for categories, block in self.blocks.items()
            for monomial, number in zip(monomials(self.variables, self._degree(block)), block.tolist(), strict=True)
            if number
        }

    def _degree(self, block: Sums) -> int:
        """The degree of the monomials of a block, of which its length tells."""
        size = len(self.variables)
        return next((n for n in range(HIGHEST_DEGREE) if count_monomials(size, n) >= len(block)), HIGHEST_DEGREE)


@dataclass(frozen=True)
class CofactorRing:
    """Sums over `continuous` and `categorical` variables and their products up to a degree.

    With `exact`, numbers are exact Python numbers: nothing is rounded, and deletes leave no residue, but arithmetic is
    slow. Otherwise they are doubles.
    """

    continuous: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    degree: int = 2
    exact: bool = False

    def __post_init__(self) -> None:
        if repeated := [name for name, times in Counter(self.variables).items() if times > 1]:
            raise SchemaError(f"a cofactor ring has variable {repeated[0]!r} more than once")
        if not 1 <= self.degree <= HIGHEST_DEGREE:
            raise SchemaError(f"the degree of a cofactor ring is between 1 and {HIGHEST_DEGREE}, not {self.degree}")

    @property
    def name(self) -> str:
        return f"cofactor of degree {self.degree}"

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return self.continuous + self.categorical

    @property
    def width(self) -> int:
        return 0 if self.categorical or self.exact else count_monomials(len(self.continuous), self.degree)

    @property
    def zero(self) -> Cofactor:
        return Cofactor((), {})

    @property
    def one(self) -> Cofactor:
        return Cofactor((), {(): self._numbers([1])})

    def add(self, left: Cofactor, right: Cofactor) -> Cofactor:
        return self.accumulate(self.own(left), right)

    def own(self, element: Cofactor) -> Cofactor:
        blocks = {at: block.copy() for at, block in element.blocks.items()}
        return Cofactor(element.variables, blocks, element.origins)

    def accumulate(self, total: Cofactor, element: Cofactor) -> Cofactor:
        if not total.blocks:
            return self.own(self._embed(element, tuple(sorted({*total.variables, *element.variables}))))
        if total.variables != element.variables:
            union = tuple(sorted({*total.variables, *element.variables}))
            total, element = self._embed(total, union), self._embed(element, union)
        if total.origins != element.origins:
            origins = normal([shared_origin(total.origin(i), element.origin(i)) for i in total.variables])
            total, element = self.own(total.about(origins)), element.about(origins)
        for at, block in element.blocks.items():
            if (known := total.blocks.get(at)) is None:
                total.blocks[at] = block.copy()
                continue
            known += block
            if not known.any():
                del total.blocks[at]
        return total

    def mul(self, left: Cofactor, right: Cofactor) -> Cofactor:
        for count, other in ((left, right), (right, left)):
            if not count.variables and len(count.blocks) == 1 and () in count.blocks:  # rows without values
                blocks = {at: block * count.blocks[()][0] for at, block in other.blocks.items()}
                return Cofactor(other.variables, blocks, other.origins)
        if (left.origins or right.origins) and not {*left.variables}.isdisjoint(right.variables):
            left, right = left.about(()), right.about(())
        rule = product_of(left.variables, right.variables, self.degree)
        blocks = {}
        for a, a_block in left.blocks.items():
            for b, b_block in right.blocks.items():
                if (at := self._together(a, b)) is None:
                    continue
                block = rule.apply(a_block, b_block, self._block_width(rule.variables, at))
                if (known := blocks.get(at)) is None:
                    blocks[at] = block
                else:
                    known += block
        if not left.origins and not right.origins:
            return Cofactor(rule.variables, blocks)
        return Cofactor(rule.variables, blocks, tuple(left.origin(i) or right.origin(i) for i in rule.variables))

    def neg(self, element: Cofactor) -> Cofactor:
        return Cofactor(element.variables, {at: -block for at, block in element.blocks.items()}, element.origins)

    def is_zero(self, element: Cofactor) -> bool:
        return not any(block.any() for block in element.blocks.values())

    def settle(self, total: Cofactor) -> Cofactor | None:
        """Counts are exact, so a category or a payload without rows is removed."""
        if self.exact:
            return None if self.is_zero(total) else total
        if not total.count:
            return None
        for at in [at for at, block in total.blocks.items() if not block[0]]:
            del total.blocks[at]
        return total

    def lift(self, variables: Sequence[str]) -> Lift[Cofactor]:
        return self.lift_about(variables, {})

    @property
    def centred(self) -> tuple[str, ...]:
        """The variables whose sums may be about origins."""
        return () if self.exact else self.continuous

    def lift_about(self, variables: Sequence[str], origins: Mapping[str, float]) -> Lift[Cofactor]:
        numbers = sorted(
            (self.continuous.index(name), i) for i, name in enumerate(variables) if name in self.continuous
        )
        kinds = sorted(
            (self.categorical.index(name), i) for i, name in enumerate(variables) if name in self.categorical
        )
        seen, sources = tuple(at for at, _ in numbers), [i for _, i in numbers]
        steps = powers(len(seen), self.degree)
        width = count_monomials(len(seen), self.degree)
        limit = largest(self.degree)
        about = [origins.get(variables[i], 0.0) for i in sources]
        own_origins, pairs = normal(about), list(zip(sources, about, strict=True))

        def lifted(values: Sequence[Any]) -> Cofactor:
            if self.exact:
                own = self._numbers([values[i] for i in sources])
            else:
                own = np.array([distance(values[i], bounded(values[i], limit), origin) for i, origin in pairs])
            sums: Sums = np.empty(width, dtype=own.dtype)
            sums[0] = 1
            for at, before, last in steps:
                sums[at] = sums[before] * own[last]
            if not kinds:
                return Cofactor(seen, {(): sums}, own_origins)
            present = [(at, values[i]) for at, i in kinds]
            chosen = [at for size in range(self.degree + 1) for at in combinations(present, size)]
            return Cofactor(seen, {at: sums[: self._block_width(seen, at)] for at in chosen}, own_origins)

        return lifted

    @property
    def layout(self) -> tuple[Field, ...]:
        if not self.width:
            return ()
        names = monomials(tuple(range(len(self.continuous))), self.degree)
        return tuple(Field(f"sum({'*'.join(self.continuous[i] for i in name) or '1'})", "float") for name in names)

    def to_flat(self, element: Cofactor) -> tuple[float, ...]:
        """All places of the ring, lower degrees first; those of variables not seen are zero."""
        whole = self._embed(element.about(()), tuple(range(len(self.continuous))))
        return tuple(whole.blocks[()].tolist()) if () in whole.blocks else (0.0,) * self.width

    def from_flat(self, numbers: Sequence[float]) -> Cofactor:
        return Cofactor(tuple(range(len(self.continuous))), {(): self._numbers(numbers)})

    def moment(self, element: Cofactor, factors: Iterable[str], categories: Mapping[str, Any] | None = None) -> Any:
        """SUM of a product of continuous variables over the rows of given categories.

        >>> ring = CofactorRing(("x", "y"), ("c",), degree=3)
        >>> row = ring.lift(("x", "y", "c"))((2, 5, "b"))
        >>> ring.moment(row, ("x", "x", "y")), ring.moment(row, ("y",), {"c": "b"}), ring.moment(row, (), {"c": "a"})
        (20.0, 5.0, 0.0)
        """
        at = tuple(sorted((self.categorical.index(name), value) for name, value in (categories or {}).items()))
        monomial = tuple(sorted(self.continuous.index(name) for name in factors))
        if len(at) + len(monomial) > self.degree:
            raise SchemaError(f"a product of {len(at) + len(monomial)} variables is beyond degree {self.degree}")
        element = element.about(())
        place = places(element.variables, self.degree).get(monomial)
        block = element.blocks.get(at)
        return (
            self._numbers([0]).tolist()[0] if block is None or place is None else block[place : place + 1].tolist()[0]
        )

    def _embed(self, element: Cofactor, variables: Variables) -> Cofactor:
        if element.variables == variables:
            return element
        blocks = {}
        for at, block in element.blocks.items():
            degree = self.degree - len(at)
            blocks[at] = wider = np.zeros(count_monomials(len(variables), degree), dtype=block.dtype)
            wider[embedding(element.variables, variables, degree)] = block
        return Cofactor(variables, blocks, normal([element.origin(i) for i in variables]))

    def _together(self, left: Categories, right: Categories) -> Categories | None:
        """The categories of a product; none where it is beyond the degree, or repeats a categorical variable."""
        if not left or not right:
            return left or right
        if len(left) + len(right) > self.degree or {at for at, _ in left} & {at for at, _ in right}:
            return None
        return tuple(sorted(left + right, key=lambda pair: pair[0]))

    def _block_width(self, variables: Variables, at: Categories) -> int:
        return count_monomials(len(variables), self.degree - len(at))

    def _numbers(self, values: Iterable[Any]) -> Sums:
        if not self.exact:
            return np.array([float(value) for value in values])
        numbers = [_exact(value) for value in values]
        found = np.empty(len(numbers), dtype=object)
        found[:] = numbers
        return found


def _exact(value: Any) -> Any:
    """A number that Python adds and multiplies without rounding."""
    if isinstance(value, int | Fraction | Dyadic):
        return value
    return Dyadic.of(value) if isinstance(value, float) else Fraction(value)
