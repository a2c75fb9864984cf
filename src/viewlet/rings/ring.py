"""The protocol of a ring, and why each part of it is needed.

`Ring` is all a payload needs to be maintained. The other protocols are optional, and each buys one thing: lifts by
name, payloads that grow in place, payloads that forget rounding, and a form in flat arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from viewlet.errors import DataError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Lift = Callable[[Any], T]
"""Takes a value of a variable to the payload it contributes when the variable is summed away."""


class Ring(Protocol[T]):
    """(D, +, *, 0, 1) with additive inverses.

    + is associative and commutative (batches may be merged and reordered), every element has an inverse (deletes undo
    inserts), * is associative and distributes over + (the delta rule of a product), 1 is neutral for * (a row without
    values), 0 annihilates (rows that do not join vanish). The rings here also have a commutative *, which lets the
    compiler reorder joins.

    Minimum and maximum have no place here: they are semirings. Once min(3, 5) has become 3, taking the 3 away again
    cannot tell that there was a 5. Views of extremes keep the values in an ordered index instead.
    """

    @property
    def name(self) -> str: ...

    @property
    def width(self) -> int:
        """How many numeric fields one element takes in a flat array; 0 where elements have no fixed size."""
        ...

    @property
    def zero(self) -> T: ...

    @property
    def one(self) -> T: ...

    def add(self, left: T, right: T) -> T: ...

    def mul(self, left: T, right: T) -> T: ...

    def neg(self, element: T) -> T: ...

    def is_zero(self, element: T) -> bool: ...


@runtime_checkable
class LiftingRing(Protocol[T_co]):
    """A ring that defines the lift of each variable: the payload of its values."""

    def lift(self, variables: Sequence[str]) -> Lift[T_co]:
        """The product of the lifts of several variables, as one function of the tuple of their values.

        Variables that the ring does not know contribute 1. Several at once, because a view may sum away a whole chain
        of variables, and their product is often simpler to make than to multiply out. A ring where the lift of several
        is not the product of single lifts has an attribute `joint` that is true.
        """
        ...


@runtime_checkable
class CentringRing(Protocol[T_co]):
    """A ring of sums that may be about other numbers than zero (`rings/origins.py`)."""

    @property
    def centred(self) -> Sequence[str]:
        """The variables whose sums may be."""
        ...

    def lift_about(self, variables: Sequence[str], origins: Mapping[str, float]) -> Lift[T_co]:
        """The lift of some variables, whose elements have sums about the given origins, and about zero otherwise."""
        ...


@runtime_checkable
class GrowingRing(Protocol[T]):
    """A ring whose elements are large: totals grow in place instead of being copied by every addition."""

    def own(self, element: T) -> T:
        """A copy that `accumulate` may change."""
        ...

    def accumulate(self, total: T, element: T) -> T:
        """`total + element`; `total` came from `own` or from here, and is not to be used afterwards."""
        ...


@runtime_checkable
class SettlingRing(Protocol[T]):
    """A ring of rounded numbers with exact counts: where no rows are left, what remains is rounding."""

    def settle(self, total: T) -> T | None:
        """A stored payload without what belongs to no row; None where it belongs to none at all.

        Only for totals over relations whose multiplicities are not negative: a change may count zero rows and still
        mean something.
        """
        ...


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a payload in a flat array."""

    name: str
    kind: Literal["integer", "float"]


@runtime_checkable
class FlatRing(Protocol[T]):
    """A ring whose elements are records of `width` numbers: the form of compiled engines and of files."""

    @property
    def layout(self) -> tuple[Field, ...]:
        """The fields in order; empty where `width` is 0."""
        ...

    def to_flat(self, element: T) -> tuple[Any, ...]: ...

    def from_flat(self, numbers: Sequence[Any]) -> T: ...


def largest(factors: int) -> float:
    """The largest value of which products of so many stay far below the largest double, however many are added up.

    >>> largest(1), largest(2)
    (8.452712498170644e+270, 2.9073548971824276e+135)
    """
    return 2.0 ** (900 // max(factors, 1))


def bounded(value: Any, limit: float) -> float:
    """A value as a double; larger ones would make sums infinite, and those stay so after the value is deleted."""
    number = float(value)
    if not abs(number) <= limit:
        raise DataError(f"{number!r} is too large: products of it are summed as doubles, up to {limit:.1e}")
    return number


def times(ring: Ring[T], count: int, element: T | None = None) -> T:
    """`count` copies of an element (of 1 by default), added up by doubling.

    >>> from viewlet.rings import INTEGER_RING
    >>> times(INTEGER_RING, -5, 7)
    -35
    """
    doubled = ring.one if element is None else element
    if count < 0:
        doubled, count = ring.neg(doubled), -count
    if count == 1:
        return doubled
    total = ring.zero
    while count:
        if count & 1:
            total = ring.add(total, doubled)
        count >>= 1
        if count:
            doubled = ring.add(doubled, doubled)
    return total


def total(ring: Ring[T], elements: Iterable[T]) -> T:
    """The sum of many elements."""
    found = ring.zero
    if isinstance(ring, GrowingRing):
        found = ring.own(found)
        for element in elements:
            found = ring.accumulate(found, element)
        return found
    for element in elements:
        found = ring.add(found, element)
    return found


def product(ring: Ring[T], elements: Iterable[T]) -> T:
    """The product of some elements."""
    found: T | None = None
    for element in elements:
        found = element if found is None else ring.mul(found, element)
    return ring.one if found is None else found
