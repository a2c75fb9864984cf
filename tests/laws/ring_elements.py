"""Random elements of the rings of view trees, and how to compare them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from viewlet.rings import FLOAT_RING, DecimalRing, IntegerRing, ProductRing, Ring
from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.factorised import Choices, FactorisedRing
from viewlet.rings.relational import Listing, RelationalRing
from viewlet.rings.ring import total
from viewlet.rings.vector import VectorRing

SMALL = st.integers(-6, 6)
"""Small enough for doubles to be exact, so that laws are tested and not rounding."""
CONTINUOUS = ("x", "y", "z")
CATEGORICAL = ("c", "d")
CATEGORIES = st.sampled_from(["a", "b", 3])


@st.composite
def cofactors(draw: st.DrawFn, ring: CofactorRing) -> Cofactor:
    """Sums of lifts of any subset of the variables, times small numbers: variables come and go."""

    def lifted() -> Cofactor:
        chosen = draw(st.lists(st.sampled_from(ring.variables), unique=True, max_size=3))
        values = [draw(SMALL) if name in ring.continuous else draw(CATEGORIES) for name in chosen]
        element = ring.lift(chosen)(values)
        return ring.neg(element) if draw(st.booleans()) else element

    return total(ring, [lifted() for _ in range(draw(st.integers(0, 3)))])


@st.composite
def listings(draw: st.DrawFn, ring: RelationalRing) -> Listing:
    """Rows of any schema, not only of one."""

    def row() -> Listing:
        schema = draw(st.lists(st.sampled_from(sorted(ring.free)), unique=True, max_size=2))
        element = ring.lift(schema)([draw(st.integers(0, 2)) for _ in schema])
        return ring.neg(element) if draw(st.booleans()) else element

    return total(ring, [row() for _ in range(draw(st.integers(0, 4)))])


@st.composite
def choices(draw: st.DrawFn, ring: FactorisedRing) -> Choices:
    def choice() -> Choices:
        variables = draw(st.lists(st.sampled_from(sorted(ring.levels)), unique=True, max_size=1))
        element = ring.lift(variables)([draw(st.integers(0, 3)) for _ in variables])
        return ring.neg(element) if draw(st.booleans()) else element

    return total(ring, [choice() for _ in range(draw(st.integers(0, 4)))])


def _cofactor_rings() -> list[tuple[Ring[Any], st.SearchStrategy]]:
    rings = [CofactorRing(CONTINUOUS, CATEGORICAL, degree) for degree in (1, 2, 3, 4)]
    exact = CofactorRing(CONTINUOUS, CATEGORICAL, exact=True)
    return [(ring, cofactors(ring)) for ring in [CofactorRing(CONTINUOUS), *rings, exact]]


_VECTORS = VectorRing(((), ("x",), ("x", "y")))
_RELATIONAL = RelationalRing(frozenset("ABC"))
_FACTORISED = FactorisedRing({"A": 0, "B": 1, "C": 2})

RING_ELEMENTS: list[tuple[Ring[Any], st.SearchStrategy]] = [
    (DecimalRing(), st.decimals(allow_nan=False, allow_infinity=False, places=6)),
    (FLOAT_RING, SMALL.map(float)),
    (_VECTORS, st.lists(SMALL, min_size=3, max_size=3).map(lambda numbers: np.array(numbers, dtype=float))),
    *_cofactor_rings(),
    (_RELATIONAL, listings(_RELATIONAL)),
    (_FACTORISED, choices(_FACTORISED)),
    (ProductRing((IntegerRing(), _RELATIONAL)), st.tuples(SMALL, listings(_RELATIONAL))),
]


def same(left: Any, right: Any) -> bool:
    """Equality that also knows arrays."""
    return bool(np.array_equal(left, right)) if isinstance(left, np.ndarray) else bool(left == right)


def name_of(ring: Ring[Any]) -> str:
    if isinstance(ring, CofactorRing):
        return f"{ring.name}{' categorical' if ring.categorical else ''}{' exact' if ring.exact else ''}"
    return ring.name or "empty"


def is_sane(element: Any) -> bool:
    """No zeros are kept where a payload is a map, and totals are what they say."""
    if isinstance(element, Listing):
        return all(block and all(block.values()) for block in element.blocks.values())
    if isinstance(element, Choices):
        sums = {level: sum(block.values()) for level, block in element.blocks.items()}
        return sums == element.totals and all(block and all(block.values()) for block in element.blocks.values())
    return not isinstance(element, Decimal) or element.is_finite()
