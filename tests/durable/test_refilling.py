"""A store filled from the packed rows of another one is the same store, and continues as such."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.test_flat import CHANGES, PAIRS, add, state_of, take, with_partner
from viewlet.runtime.flat import FlatStore, Layout


@given(CHANGES, CHANGES)
@settings(deadline=None, max_examples=60)
def test_a_refilled_store_goes_on(before: list[tuple[bool, int, int]], after: list[tuple[bool, int, int]]) -> None:
    original = FlatStore(PAIRS)
    play(original, before)
    copy = FlatStore(PAIRS)
    play(copy, after)  # what is there is replaced
    copy.fill(original.packed())
    for changes in ([], after):
        play(original, changes)
        play(copy, changes)
        assert sorted(copy.items()) == sorted(original.items())
        assert [with_partner(copy, b) for b in range(4)] == [with_partner(original, b) for b in range(4)]


def play(store: FlatStore, changes: list[tuple[bool, int, int]]) -> None:
    for is_insert, a, b in changes:
        add(store, a, b) if is_insert else take(state_of(store), a, b)


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=2))
@settings(deadline=None, max_examples=10)
def test_a_store_of_one_row(numbers: list[int]) -> None:
    layout = Layout("total", 0, ("count", "sum"), ("count", "double"))
    store = FlatStore(layout)
    store.pool[0, :2] = numbers
    copy = FlatStore(layout)
    copy.fill(store.packed())
    assert np.array_equal(copy.pool, store.pool)
    assert len(copy) == 1


def test_a_refilled_store_takes_no_more_room() -> None:
    store = FlatStore(PAIRS)
    for a in range(5_000):
        add(store, a, a % 10)
    copy = FlatStore(PAIRS)
    copy.fill(store.packed())
    assert copy.nbytes() <= store.nbytes()
