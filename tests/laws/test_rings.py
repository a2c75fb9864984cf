"""The axioms of a ring, for every ring payloads are made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewlet.rings import DOUBLE_RING, INTEGER_RING, Dyadic, ProductRing, Ring

INTEGERS = st.integers(-(10**20), 10**20)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(Dyadic.of)
RINGS: list[tuple[Ring[Any], st.SearchStrategy]] = [
    (INTEGER_RING, INTEGERS),
    (DOUBLE_RING, DOUBLES),
    (ProductRing((INTEGER_RING, DOUBLE_RING, INTEGER_RING)), st.tuples(INTEGERS, DOUBLES, INTEGERS)),
    (ProductRing(()), st.just(())),
]


@pytest.mark.parametrize(("ring", "elements"), RINGS, ids=[ring.name or "empty" for ring, _ in RINGS])
@given(data=st.data())
def test_axioms(ring: Ring[Any], elements: st.SearchStrategy, data: st.DataObject) -> None:
    a, b, c = (data.draw(elements) for _ in range(3))
    zero, one, add, mul, neg = ring.zero, ring.one, ring.add, ring.mul, ring.neg
    assert add(a, add(b, c)) == add(add(a, b), c)
    assert add(a, b) == add(b, a)
    assert add(a, zero) == a
    assert ring.is_zero(add(a, neg(a)))
    assert mul(a, mul(b, c)) == mul(mul(a, b), c)
    assert mul(a, b) == mul(b, a)
    assert mul(a, one) == a
    assert ring.is_zero(mul(a, zero))
    assert mul(a, add(b, c)) == add(mul(a, b), mul(a, c))
    assert ring.is_zero(a) == (a == zero)


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
