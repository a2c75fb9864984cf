"""Factorisable updates: changes given as products, and found to be products (section 5 of the paper).

    {a1..an} x {b1..bm}  ->  {a1..an}[A] ⊗ {b1..bm}[B]      n + m values instead of n * m

A change of a whole row of a matrix, or of every pair of two lists, is a product of factors over disjoint variables. It
travels up the tree as one: at each view a factor meets only the views that share variables with it, and what is summed
away is summed where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as cartesian
from typing import Generic, TypeVar

from viewlet.errors import SchemaError
from viewlet.rings.ring import Ring
from viewlet.viewtree.ring_relation import Row, summing, without_zeros

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Factor(Generic[T]):
    schema: tuple[str, ...]
    entries: Mapping[Row, T]


@dataclass(frozen=True, slots=True)
class ProductUpdate(Generic[T]):
    """A change as a product of factors over disjoint variables."""

    factors: tuple[Factor[T], ...]

    def __post_init__(self) -> None:
        names = [name for factor in self.factors for name in factor.schema]
        if len(names) != len(set(names)):
            raise SchemaError("the factors of an update must not share variables; join them first")

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for factor in self.factors for name in factor.schema)

    @property
    def size(self) -> int:
        """How many values it takes."""
        return sum(len(factor.entries) for factor in self.factors)

    def renamed(self, names: Mapping[str, str]) -> ProductUpdate[T]:
        """The same product over other variables."""
        return ProductUpdate(
            tuple(Factor(tuple(names[name] for name in factor.schema), factor.entries) for factor in self.factors)
        )


def product_update(*factors: tuple[Sequence[str], Mapping[Row, T]]) -> ProductUpdate[T]:
    """The product of some relations, each given by its variables and its entries."""
    return ProductUpdate(tuple(Factor(tuple(schema), dict(entries)) for schema, entries in factors))


def expand(updates: Iterable[ProductUpdate[T]], schema: Sequence[str], ring: Ring[T]) -> dict[Row, T]:
    """The union of some products, multiplied out, over the given order of their variables."""
    found: dict[Row, T] = {}
    sum_into = summing(ring)
    for update in updates:
        names = [name for factor in update.factors for name in factor.schema]
        places = [names.index(name) for name in schema]
        for parts in cartesian(*(factor.entries.items() for factor in update.factors)):
            row = tuple(value for part, _ in parts for value in part)
            payload = ring.one if not parts else parts[0][1]
            for _, other in parts[1:]:
                payload = ring.mul(payload, other)
            sum_into(found, tuple(row[i] for i in places), payload)
    return without_zeros(ring, found)


def decompose(schema: Sequence[str], entries: Mapping[Row, T], ring: Ring[T]) -> list[ProductUpdate[T]]:
    """A union of products that makes up the entries, with as few values as splitting off one variable at a time finds.

    Values of a variable that go together with the same rest (and payloads) share it as one factor.
    """
    return [ProductUpdate(factors) for factors in _decomposed(tuple(schema), dict(entries), ring)]


def _decomposed(schema: tuple[str, ...], entries: dict[Row, T], ring: Ring[T]) -> list[tuple[Factor[T], ...]]:
    whole: list[tuple[Factor[T], ...]] = [(Factor(schema, entries),)]
    if len(schema) < 2 or not entries:
        return whole
    splits = (_split(schema, entries, i) for i in range(len(schema)))
    best = min(splits, key=lambda parts: sum(len(values) + len(rest) for values, rest, _ in parts))
    if sum(len(values) + len(rest) for values, rest, _ in best) >= len(entries):
        return whole
    found: list[tuple[Factor[T], ...]] = []
    for values, rest, at in best:
        own = Factor((schema[at],), {(value,): ring.one for value in values})
        below = _decomposed(schema[:at] + schema[at + 1 :], rest, ring)
        found += [(own, *factors) for factors in below]
    return found


def _split(schema: tuple[str, ...], entries: dict[Row, T], at: int) -> list[tuple[list[object], dict[Row, T], int]]:
    """The values of one variable, grouped by the relation of the others that goes with them."""
    rest_of: dict[object, dict[Row, T]] = {}
    for row, payload in entries.items():
        rest_of.setdefault(row[at], {})[row[:at] + row[at + 1 :]] = payload
    groups: list[tuple[list[object], dict[Row, T], int]] = []
    by_rows: dict[frozenset[Row], list[int]] = {}
    for value, rest in rest_of.items():
        alike = by_rows.setdefault(frozenset(rest), [])
        same = next((i for i in alike if groups[i][1] == rest), None)
        if same is None:
            alike.append(len(groups))
            groups.append(([value], rest, at))
        else:
            groups[same][0].append(value)
    return groups
