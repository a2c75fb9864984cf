"""Payloads of a triangle query whose groups are by other columns than those of the join: relations over these columns.

    R(a, b) with the label x and the number 3:  {x -> 3}     S(b, c) with 2:  {() -> 2}     their product:  {x -> 6}

There is such a relation for every number. Without other columns a payload is the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from viewlet.adaptive.plan import AdaptivePlan, Numbers
from viewlet.rings import ProductRing
from viewlet.rings.relational import Listing, RelationalRing
from viewlet.rings.ring import Ring
from viewlet.types import Row


class Payloads:
    """How the numbers of rows become payloads of the reference form, and what payloads of groups stand for."""

    def __init__(self, plan: AdaptivePlan) -> None:
        self._plan = plan
        self._names = [f"{place:03}" for place in range(len(plan.query.carried))]
        self._width = plan.query.width
        self.ring: Ring[Any] = plan.ring
        if self._names:
            self.ring = ProductRing((RelationalRing(frozenset(self._names)),) * self._width)

    def names_of(self, relation: int) -> tuple[str, ...]:
        """The columns that tuples of a relation carry."""
        return tuple(
            name for name, owner in zip(self._names, self._plan.query.carried, strict=True) if owner == relation
        )

    def payload(self, schema: tuple[str, ...], carried: Row, numbers: Numbers) -> Any:
        """Numbers with what their tuple, or their group, carries."""
        if not self._names:
            return self._plan.payload(numbers)
        return tuple([Listing({schema: {carried: number}} if number else {}) for number in numbers])

    def group(self, rows: Mapping[Row, Numbers]) -> Any:
        """The payload of a group with these rows."""
        total = self.ring.zero
        for carried, numbers in rows.items():
            total = self.ring.add(total, self.payload(tuple(self._names), carried, numbers))
        return total

    def rows(self, payload: Any, names: Iterable[str] | None = None) -> dict[Row, Numbers]:
        """What a payload stands for: numbers by the values that are carried, in the order of their columns."""
        if not self._names:
            return {(): self._plan.numbers(payload)}
        found: dict[Row, list[int]] = {}
        order = list(self._names if names is None else names)
        for place, listing in enumerate(payload):
            for row, number in listing.rows(order):
                found.setdefault(row, [0] * self._width)[place] = number
        return {row: tuple(numbers) for row, numbers in found.items()}
