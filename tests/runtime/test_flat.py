"""Flat stores against a dictionary: whatever enters and leaves, every index finds exactly the rows that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewlet.runtime.flat import FlatStore, Layout
from viewlet.runtime.jit import entry
from viewlet.runtime.probe import ROOM, enter, find, find_head, leave
from viewlet.runtime.state import bundle, chains, hashes, words

PAIRS = Layout("pairs", 2, ("count",), ("count",), ((1,), (0,)))
"""Keys (a, b) with a slice by b and one by a."""


@entry
def put(state: Any, a: Any, b: Any) -> Any:
    slot = enter(state, 0, 3, (a, b))
    if slot >= 0:
        words(state, 0, 3)[slot, 2] = 1
    return slot


@entry
def take(state: Any, a: Any, b: Any) -> Any:
    slot = find(words(state, 0, 3), hashes(state, 1), (a, b))
    if slot >= 0:
        leave(state, 0, 3, 2, slot)
    return slot


@entry
def partners(state: Any, b: Any, found: Any) -> Any:
    """All a with (a, b) in the store, by the first slice."""
    pool, links, n = words(state, 0, 3), chains(state, 5), 0
    slot = find_head(pool, hashes(state, 4), (1,), (b,))
    while slot >= 0:
        found[n] = pool[slot, 0]
        n += 1
        slot = np.int64(links[slot, 0])
    return n


@entry
def fill(state: Any, first: Any, last: Any) -> Any:
    """Enters rows of five words as long as there is room; the first that was not entered."""
    for i in range(first, last):
        if enter(state, 0, 5, (i, i // 2)) < 0:
            return i
    return last


def state_of(store: FlatStore) -> Any:
    return bundle([store.array(part) for part in store.layout.parts])


def add(store: FlatStore, a: int, b: int) -> None:
    store.reserve(1)
    assert put(state_of(store), a, b) >= 0


def with_partner(store: FlatStore, b: int) -> list[int]:
    found = np.zeros(max(1, len(store)), np.int64)
    return sorted(found[: partners(state_of(store), b, found)].tolist())


CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 3)), max_size=150)


@given(CHANGES)
@settings(deadline=None)
def test_a_store_agrees_with_a_set(changes: list[tuple[bool, int, int]]) -> None:
    store, model = FlatStore(PAIRS), set[tuple[int, int]]()
    for is_insert, a, b in changes:
        if is_insert:
            add(store, a, b)
            model.add((a, b))
        else:
            assert (take(state_of(store), a, b) >= 0) == ((a, b) in model)
            model.discard((a, b))
    assert {key for key, _ in store.items()} == model
    assert len(store) == len(model)
    for b in range(4):
        assert with_partner(store, b) == sorted(a for a, other in model if other == b)
    assert np.count_nonzero(store.heads[0]) == len({b for _, b in model})
    assert np.count_nonzero(store.heads[1]) == len({a for a, _ in model})


def test_rows_of_one_chain_may_be_replaced_by_rows_of_many() -> None:
    """Removing rows of one chain frees slots but no place for heads; entering others must not overfill those."""
    store = FlatStore(PAIRS)
    for a in range(3_000):
        add(store, a, 0)
    for a in range(3_000):
        take(state_of(store), a, 0)
        add(store, a, a + 1)
        assert np.count_nonzero(store.heads[0]) <= store.heads[0].shape[0] * 3 // 4 + 1
    assert all(with_partner(store, a + 1) == [a] for a in range(3_000))


def test_without_room_nothing_is_entered() -> None:
    store = FlatStore(PAIRS)
    while store.meta[ROOM] > 0:
        assert put(state_of(store), len(store), 0) >= 0
    before = len(store)
    assert put(state_of(store), -1, 0) == -1
    assert len(store) == before
    assert [key for key, _ in store.items()] == [(a, 0) for a in range(before)]


@pytest.mark.parametrize("rows", [1, 63, 5_000])
def test_room_is_there_when_reserved(rows: int) -> None:
    store = FlatStore(PAIRS)
    store.reserve(rows)
    state = state_of(store)
    assert all(put(state, i, i) >= 0 for i in range(rows))
    assert len(store) == rows


def test_a_cleared_store_is_as_new() -> None:
    store = FlatStore(PAIRS)
    for a in range(100):
        add(store, a, a % 3)
    store.clear()
    assert len(store) == 0
    assert with_partner(store, 1) == []
    add(store, 5, 1)
    assert with_partner(store, 1) == [5]


def test_bytes_stay_near_what_keys_and_payloads_take() -> None:
    """Averaged over sizes, for rows of five words with one slice that has a chain for every second row."""
    layout = Layout("sums", 2, ("count", "sum"), ("count", "wide"), ((1,),))
    ratios = []
    for rows in np.geomspace(1_000, 16_000, 9).astype(int).tolist():
        store, entered = FlatStore(layout), 0
        while entered < rows:
            store.reserve(1)
            entered = fill(state_of(store), entered, rows)
        assert len(store) == rows
        ratios.append(store.nbytes() / store.packed_bytes())
    assert sum(ratios) / len(ratios) < 2.5
