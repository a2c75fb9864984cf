"""Sums about origins: the same elements as sums about zero, computed in fractions, and never less accurate."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewlet.rings import Dyadic
from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.origins import choose_origin, serves, shared_origin
from viewlet.rings.ring import total

NEAR = st.floats(-10, 10).map(lambda x: round(x, 3))
ROWS = st.lists(st.tuples(NEAR, NEAR, st.sampled_from("ab")), min_size=1, max_size=8)
ORIGINS = st.sampled_from([0.0, 20.0, -1e3, 1e8, 7e12])
ROUNDING = 2.0**-50


def moments(rows: list[tuple[Any, ...]], degree: int) -> dict[tuple[Any, ...], tuple[Fraction, Fraction]]:
    """Each sum of products over all rows, and that of their sizes."""
    found = {}
    for size in range(degree + 1):
        for names in combinations_with_replacement("xy", size):
            products = [prod((Fraction(row["xy".index(name)]) for name in names), start=Fraction(1)) for row in rows]
            found[names] = sum(products, Fraction(0)), sum(map(abs, products), Fraction(0))
    return found


@given(ROWS, ORIGINS, ORIGINS, st.sampled_from([2, 3, 4]))
def test_sums_about_an_origin_tell_those_about_zero(
    rows: list[tuple[Any, ...]], x: float, y: float, degree: int
) -> None:
    ring = CofactorRing(("x", "y"), ("c",), degree)
    rows = [(x + a, y + b, c) for a, b, c in rows]
    element = total(ring, map(ring.lift_about(("x", "y", "c"), {"x": x, "y": y}), rows))
    for part, chosen in (({}, rows), *(({"c": c}, [row for row in rows if row[2] == c]) for c in "ab")):
        for names, (value, size) in moments(chosen, degree - len(part)).items():
            error = abs(Fraction(ring.moment(element, names, part)) - value)
            assert error <= Fraction(ROUNDING) * size


@given(ROWS, ROWS, ORIGINS, ORIGINS)
def test_elements_about_different_origins_add_up(
    left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], one: float, other: float
) -> None:
    ring, names = CofactorRing(("x", "y"), ("c",), degree=3), ("x", "y", "c")
    parts = [
        total(ring, map(ring.lift_about(names, {"x": origin, "y": -origin}), rows))
        for rows, origin in ((left, one), (right, other))
    ]
    found = ring.add(*parts)
    assert found.origin(0) == shared_origin(one, other) == -found.origin(1)
    for monomial, (value, size) in moments(left + right, 3).items():
        bound = Fraction(ROUNDING) * (size + 2 * len(left + right) * (10 + Fraction(max(one, other, key=abs))) ** 3)
        assert abs(Fraction(ring.moment(found, monomial)) - value) <= abs(bound)


@given(ROWS, ORIGINS)
def test_exact_sums_stay_exact(rows: list[tuple[Any, ...]], origin: float) -> None:
    ring = CofactorRing(("x", "y"), ("c",), degree=4, exact=True)
    element = total(ring, map(ring.lift(("x", "y", "c")), rows))
    moved = element.about((origin, -origin) if origin else ())
    assert moved == element
    assert ring.mul(ring.one, moved) == element
    if origin:
        less = ring.lift(("x", "y", "c"))
        far = Dyadic.of(origin)
        rows = [(Dyadic.of(x) + -far, Dyadic.of(y) + far, c) for x, y, c in rows]
        assert Cofactor(moved.variables, moved.blocks) == total(ring, map(less, rows))


@pytest.mark.parametrize(
    ("low", "high", "origin"),
    [(7e12 + 5, 7e12 + 7, 7e12 + 6), (7, 7, 7.0), (-5.0, -5.0, -5.0), (0, 9, 0.0), (-1, 2, 0.0), (5, 9, 0.0),
     (10**18 + 1, 10**18 + 3, 1e18), (0.0, 7e12, 0.0), (float("inf"), float("inf"), 0.0)],
)  # fmt: skip
def test_values_far_from_zero_have_an_origin(low: float, high: float, origin: float) -> None:
    assert choose_origin(low, high) == origin
    assert serves(origin, low, high)


@given(ORIGINS.filter(bool), st.floats(allow_nan=False, allow_infinity=False))
def test_values_that_an_origin_serves_are_no_nearer_to_zero(origin: float, value: float) -> None:
    if serves(origin, value, value):
        assert Fraction(value) - Fraction(origin) == Fraction(value - origin)
        assert abs(value - origin) <= abs(value)
