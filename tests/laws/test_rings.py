"""The axioms of a ring, for every ring payloads are made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.ring_elements import RING_ELEMENTS, is_sane, name_of, same
from viewlet.rings import DOUBLE_RING, INTEGER_RING, Dyadic, FlatRing, GrowingRing, ProductRing, Ring, times

INTEGERS = st.integers(-(10**20), 10**20)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(Dyadic.of)
RINGS: list[tuple[Ring[Any], st.SearchStrategy]] = [
    (INTEGER_RING, INTEGERS),
    (DOUBLE_RING, DOUBLES),
    (ProductRing((INTEGER_RING, DOUBLE_RING, INTEGER_RING)), st.tuples(INTEGERS, DOUBLES, INTEGERS)),
    (ProductRing(()), st.just(())),
    *RING_ELEMENTS,
]
HALF = settings(max_examples=settings.default.max_examples // 2)
FEW = settings(max_examples=settings.default.max_examples // 6)
"""Many rings, each with large elements."""

every_ring = pytest.mark.parametrize(("ring", "elements"), RINGS, ids=[name_of(ring) for ring, _ in RINGS])


@every_ring
@HALF
@given(data=st.data())
def test_axioms(ring: Ring[Any], elements: st.SearchStrategy, data: st.DataObject) -> None:
    a, b, c = (data.draw(elements) for _ in range(3))
    zero, one, add, mul, neg = ring.zero, ring.one, ring.add, ring.mul, ring.neg
    assert same(add(a, add(b, c)), add(add(a, b), c))
    assert same(add(a, b), add(b, a))
    assert same(add(a, zero), a)
    assert ring.is_zero(add(a, neg(a)))
    assert same(mul(a, mul(b, c)), mul(mul(a, b), c))
    assert same(mul(a, b), mul(b, a))
    assert same(mul(a, one), a)
    assert ring.is_zero(mul(a, zero))
    assert same(mul(a, add(b, c)), add(mul(a, b), mul(a, c)))
    assert ring.is_zero(a) == same(a, zero)
    assert is_sane(add(a, b))
    assert is_sane(mul(a, b))


@every_ring
@FEW
@given(data=st.data(), count=st.integers(-9, 9))
def test_multiples_are_repeated_sums(
    ring: Ring[Any], elements: st.SearchStrategy, data: st.DataObject, count: int
) -> None:
    a = data.draw(elements)
    total = ring.zero
    for _ in range(abs(count)):
        total = ring.add(total, a if count > 0 else ring.neg(a))
    assert same(times(ring, count, a), total)


@every_ring
@FEW
@given(data=st.data())
def test_totals_grow_in_place_without_touching_what_is_added(
    ring: Ring[Any], elements: st.SearchStrategy, data: st.DataObject
) -> None:
    if not isinstance(ring, GrowingRing):
        return
    parts = data.draw(st.lists(elements, min_size=1, max_size=4))
    copies = [ring.own(part) for part in parts]
    total, expected = ring.own(parts[0]), parts[0]
    for part in parts[1:]:
        total, expected = ring.accumulate(total, part), ring.add(expected, part)
    assert same(total, expected)
    assert all(same(part, copy) for part, copy in zip(parts, copies, strict=True))


@every_ring
@FEW
@given(data=st.data())
def test_the_flat_form_holds_the_whole_element(
    ring: Ring[Any], elements: st.SearchStrategy, data: st.DataObject
) -> None:
    if not isinstance(ring, FlatRing) or not ring.layout or "double" in ring.name:
        return
    a, b = data.draw(elements), data.draw(elements)
    flat = ring.to_flat(a)
    assert len(flat) == len(ring.layout) == ring.width
    assert same(ring.from_flat(flat), a)
    both = [x + y for x, y in zip(flat, ring.to_flat(b), strict=True)]
    assert same(ring.from_flat(both), ring.add(a, b)), "addition is by field"


@given(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100))
def test_a_sum_of_two_doubles_fits_into_a_pair(left: float, right: float) -> None:
    total = Dyadic.of(left) + Dyadic.of(right)
    assert DOUBLE_RING.from_flat(DOUBLE_RING.to_flat(total)) == total


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=20), st.randoms())
def test_what_was_added_can_be_taken_away_in_any_order(numbers: list[float], random: Any) -> None:
    total = DOUBLE_RING.zero
    for number in numbers:
        total = total + Dyadic.of(number)
    for number in random.sample(numbers, len(numbers)):
        total = total + -Dyadic.of(number)
    assert DOUBLE_RING.is_zero(total)
    assert float(total) == 0.0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_the_ring(number: float) -> None:
    assert float(Dyadic.of(number)) == number
