"""The ordered index against sorted lists: order, sums of subtrees, negatives, under inserts, changes and deletes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from viewlet.runtime.flat import FlatStore, Layout, Ordered
from viewlet.runtime.ordered_index import LEFT, NEGATIVES, RIGHT, SUMS, build, change
from viewlet.runtime.wide import from_words, to_words

SLOTS = 40
LAYOUT = Layout(
    "v", 2, ("count", "sum"), ("count", "wide"), (), (Ordered((0, 1), watched=frozenset({"sum"})), Ordered((), "sum"))
)

steps = st.lists(
    st.tuples(st.integers(0, SLOTS - 1), st.booleans(), st.integers(-3, 3), st.integers(-(2**70), 2**70)), max_size=120
)


def in_order(tree: np.ndarray, node: int) -> list[int]:
    if not node:
        return []
    return [*in_order(tree, int(tree[node, LEFT])), node - 1, *in_order(tree, int(tree[node, RIGHT]))]


@given(steps)
def test_a_tree_is_sorted_and_knows_its_sums(steps: list[tuple[int, bool, int, int]]) -> None:
    store = FlatStore(LAYOUT)
    store.reserve(SLOTS)
    for tree, spec in zip(store.tree, store.spec, strict=True):
        build(store.pool, store.live, store.meta, tree, spec)
    here: dict[int, tuple[int, int]] = {}
    for slot, stays, key, number in steps:
        if stays:
            if slot not in here:
                store.pool[slot, :2] = slot % 5, key
            here[slot] = (int(store.pool[slot, 1]), number)
            store.pool[slot, 2] = 1
            store.pool[slot, 3:5] = to_words(number)
        elif here.pop(slot, None) is None:
            continue
        for tree, spec in zip(store.tree, store.spec, strict=True):
            change(store.pool, tree, spec, slot, not stays)
    by_key, by_sum = (in_order(tree, int(tree[0, 0])) for tree in store.tree)
    assert by_key == sorted(here, key=lambda slot: (slot % 5, here[slot][0], slot))
    assert by_sum == sorted(here, key=lambda slot: (here[slot][1], slot))
    root = store.tree[0][int(store.tree[0][0, 0])]
    assert root[NEGATIVES] == sum(number < 0 for _, number in here.values())
    assert root[SUMS] == len(here)
    assert from_words(root[SUMS + 1], root[SUMS + 2]) == sum(number for _, number in here.values())
