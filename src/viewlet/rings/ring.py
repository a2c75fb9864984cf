"""The protocol of a ring, and why each part of it is there."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Ring(Protocol[T]):
    """(D, +, *, 0, 1) with additive inverses.

    + is associative and commutative (batches may be merged and reordered), every element has an inverse (deletes undo
    inserts), * is associative and distributes over + (the delta rule of a product), 1 is neutral for * (a row without
    values), 0 annihilates (rows that do not join vanish). The rings here also have a commutative *, which lets the
    compiler reorder joins.
    """

    @property
    def name(self) -> str: ...

    @property
    def width(self) -> int:
        """How many numeric fields one element takes in a flat array."""
        ...

    @property
    def zero(self) -> T: ...

    @property
    def one(self) -> T: ...

    def add(self, left: T, right: T) -> T: ...

    def mul(self, left: T, right: T) -> T: ...

    def neg(self, element: T) -> T: ...

    def is_zero(self, element: T) -> bool: ...
