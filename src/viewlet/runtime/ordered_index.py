"""An ordered index over the rows of a store, with the sums of every subtree: a treap in flat arrays.

It answers, in O(log n) each, questions that a hash index cannot: the sum of a payload over a range of keys, the least
and the greatest key, the first key at which a running sum crosses a bound. Node i + 1 is slot i of the store; node 0 is
none, and its first word is the root. A row of `tree` holds the left and right child, the parent, how many rows of the
subtree have a negative value in a watched field, and then the sums of the payload fields over the subtree.

`spec` describes the index: the words named below, the positions of the words of a row to order by, the number of fields
to add up, and `FIELD_WORDS` for each of them. Rows with equal words are ordered by slot. An index is built when a range
is long enough for a tree to pay, and dropped when it has not been used for a long time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viewlet.runtime.arithmetic import dd_add
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import NEXT, SIZE, mix
from viewlet.runtime.wide import bits_of, double_of, wide_add, wide_mul

LEFT, RIGHT, PARENT, NEGATIVES, SUMS = range(5)
"""Words of a node."""
ROOT = 0
"""The word of node 0 with the root."""
KEPT, IDLE, BY_PAYLOAD, UNSIGNED, ORDER_WORDS, POSITIONS = range(6)
"""Words of `spec`: whether the index exists, for how many changes it has not been used, whether the last words to order
by are a number of the payload, whether the last word is unsigned (the low word of a 128-bit number), how many words to
order by there are, their positions from here on."""
OFFSET, KIND, SUM_OFFSET, WATCHED = range(4)
"""Words of a field in `spec`: where its number is in a row, its kind, where its sum is in a node, whether negative
values are counted."""
FIELD_WORDS = 4
COUNT, WIDE, DOUBLE = range(3)
KINDS = {"count": COUNT, "wide": WIDE, "double": DOUBLE}
"""Kinds of numbers as compiled code knows them."""

SHORT = 48
"""Rows that are quicker to visit one by one than to keep in order."""

_SEED = np.uint64(0x452821E638D01377)
_SIGN = -(2**63)


def specification(
    positions: Sequence[int], by_payload: bool, unsigned: bool, fields: Sequence[tuple[int, str, int, bool]]
) -> npt.NDArray[np.int64]:
    """The spec of an index that is not kept yet; fields as (offset, kind, offset in the tree, watched)."""
    head = [0, 0, int(by_payload), int(unsigned), len(positions), *positions, len(fields)]
    tail = [number for at, kind, to, watched in fields for number in (at, KINDS[kind], to, int(watched))]
    return np.array([*head, *tail], np.int64)


@compiled
def precedes(pool: Any, spec: Any, slot: Any, other: Any) -> Any:
    """Whether a row comes before another."""
    n = spec[ORDER_WORDS]
    for i in range(n):
        word, against = pool[slot, spec[POSITIONS + i]], pool[other, spec[POSITIONS + i]]
        if word != against:
            if i == n - 1 and spec[UNSIGNED] != 0:
                return (word ^ _SIGN) < (against ^ _SIGN)
            return word < against
    return slot < other


@compiled
def add_up(pool: Any, tree: Any, spec: Any, node: Any) -> None:
    """The sums of a node from its row and its children."""
    left, right, slot = tree[node, LEFT], tree[node, RIGHT], node - 1
    at = POSITIONS + spec[ORDER_WORDS] + 1
    negative = tree[left, NEGATIVES] + tree[right, NEGATIVES]
    for _ in range(spec[at - 1]):
        offset, kind, to = spec[at + OFFSET], spec[at + KIND], spec[at + SUM_OFFSET]
        if kind == COUNT:
            tree[node, to] = pool[slot, offset] + tree[left, to] + tree[right, to]
        elif kind == WIDE:
            high, low = wide_add(tree[left, to], tree[left, to + 1], tree[right, to], tree[right, to + 1])
            high, low = wide_add(high, low, pool[slot, offset], pool[slot, offset + 1])
            tree[node, to] = high
            tree[node, to + 1] = low
        else:
            first, second = dd_add(
                double_of(tree[left, to]),
                double_of(tree[left, to + 1]),
                double_of(tree[right, to]),
                double_of(tree[right, to + 1]),
            )
            first, second = dd_add(first, second, double_of(pool[slot, offset]), double_of(pool[slot, offset + 1]))
            tree[node, to] = bits_of(first)
            tree[node, to + 1] = bits_of(second)
        if spec[at + WATCHED] != 0 and pool[slot, offset] < 0:
            negative += 1
        at += FIELD_WORDS
    tree[node, NEGATIVES] = negative


@compiled
def add_up_to_root(pool: Any, tree: Any, spec: Any, node: Any) -> None:
    """The sums of a node and of all above it."""
    if spec[POSITIONS + spec[ORDER_WORDS]] != 0:
        while node != 0:
            add_up(pool, tree, spec, node)
            node = tree[node, PARENT]


@compiled
def priority(node: Any) -> Any:
    """Where a node stands in the heap: a hash, so that the tree is as balanced as a random one."""
    return mix(_SEED, node)


@compiled
def replace_child(tree: Any, parent: Any, child: Any, by: Any) -> None:
    if parent == 0:
        tree[0, ROOT] = by
    elif tree[parent, LEFT] == child:
        tree[parent, LEFT] = by
    else:
        tree[parent, RIGHT] = by
    if by != 0:
        tree[by, PARENT] = parent


@compiled
def lift_node(pool: Any, tree: Any, spec: Any, node: Any) -> None:
    """Rotates a node above its parent, whose sums are then those of its smaller subtree."""
    parent = tree[node, PARENT]
    replace_child(tree, tree[parent, PARENT], parent, node)
    side = LEFT if tree[parent, LEFT] == node else RIGHT
    inner = tree[node, 1 - side]
    tree[parent, side] = inner
    if inner != 0:
        tree[inner, PARENT] = parent
    tree[node, 1 - side] = parent
    tree[parent, PARENT] = node
    add_up(pool, tree, spec, parent)


@compiled
def put(pool: Any, tree: Any, spec: Any, slot: Any) -> None:
    """Adds a row that is not in the tree."""
    node = slot + 1
    parent, at, side = 0, tree[0, ROOT], LEFT
    while at != 0:
        parent = at
        side = LEFT if precedes(pool, spec, slot, at - 1) else RIGHT
        at = tree[at, side]
    tree[node, LEFT] = 0
    tree[node, RIGHT] = 0
    tree[node, PARENT] = parent
    if parent == 0:
        tree[0, ROOT] = node
    else:
        tree[parent, side] = node
    rank = priority(node)
    while tree[node, PARENT] != 0 and rank < priority(tree[node, PARENT]):
        lift_node(pool, tree, spec, node)
    add_up_to_root(pool, tree, spec, node)


@compiled
def take(pool: Any, tree: Any, spec: Any, slot: Any) -> None:
    """Removes a row; the words it was ordered by may have changed already."""
    node = slot + 1
    while True:
        left, right = tree[node, LEFT], tree[node, RIGHT]
        if left == 0 or right == 0:
            break
        lift_node(pool, tree, spec, left if priority(left) < priority(right) else right)
    parent = tree[node, PARENT]
    replace_child(tree, parent, node, left + right)
    tree[node, LEFT] = 0
    tree[node, RIGHT] = 0
    tree[node, PARENT] = 0
    add_up_to_root(pool, tree, spec, parent)


@compiled
def holds(tree: Any, slot: Any) -> Any:
    """Whether a row is in the tree."""
    return tree[slot + 1, PARENT] != 0 or tree[0, ROOT] == slot + 1


@compiled
def arrange(pool: Any, tree: Any, spec: Any, slot: Any) -> None:
    """Puts a row that is new or has changed in its place."""
    if spec[KEPT] == 0:
        return
    spec[IDLE] += 1
    if spec[IDLE] > 65536 + 8 * tree.shape[0]:
        spec[KEPT] = 0
    elif not holds(tree, slot):
        put(pool, tree, spec, slot)
    elif spec[BY_PAYLOAD] != 0:
        take(pool, tree, spec, slot)
        put(pool, tree, spec, slot)
    else:
        add_up_to_root(pool, tree, spec, slot + 1)


@compiled
def withdraw(pool: Any, tree: Any, spec: Any, slot: Any) -> None:
    """Takes out a row that leaves the store."""
    if spec[KEPT] != 0 and holds(tree, slot):
        take(pool, tree, spec, slot)


@compiled
def ready(pool: Any, live: Any, meta: Any, tree: Any, spec: Any, length: Any) -> Any:
    """Whether a range of so many rows is worth the tree; builds it the first time."""
    if spec[KEPT] == 0:
        if length <= SHORT:
            return False
        spec[KEPT] = 1
        tree[0, ROOT] = 0
        for slot in range(meta[SIZE]):
            tree[slot + 1, PARENT] = 0
        for slot in range(meta[SIZE]):
            if live[slot]:
                put(pool, tree, spec, slot)
    spec[IDLE] = 0
    return True


@compiled
def ready_for_chain(pool: Any, live: Any, meta: Any, tree: Any, spec: Any, links: Any, head: Any) -> Any:
    """`ready` for the rows of a chain."""
    length = 0
    if spec[KEPT] == 0:
        while head >= 0 and length <= SHORT:
            length += 1
            head = np.int64(links[head, NEXT])
    return ready(pool, live, meta, tree, spec, length)


@compiled
def wide_span(high: Any, low: Any, tree: Any, node: Any, less: Any, to: Any) -> Any:
    """A 128-bit number plus the sum of one subtree less that of another."""
    high, low = wide_add(high, low, tree[node, to], tree[node, to + 1])
    less_high, less_low = wide_mul(tree[less, to], tree[less, to + 1], -1)
    return wide_add(high, low, less_high, less_low)


@compiled
def double_span(first: Any, second: Any, pool: Any, tree: Any, node: Any, offset: Any, to: Any, sign: Any) -> Any:
    """A double-double plus or minus a row and the subtree to its right: no difference of sums, which would round."""
    right, slot = tree[node, RIGHT], node - 1
    first, second = dd_add(first, second, sign * double_of(tree[right, to]), sign * double_of(tree[right, to + 1]))
    return dd_add(first, second, sign * double_of(pool[slot, offset]), sign * double_of(pool[slot, offset + 1]))


@compiled
def neighbour(tree: Any, node: Any, side: Any) -> Any:
    """The next node in order on one side, 0 at the end."""
    at = tree[node, side]
    if at != 0:
        while tree[at, 1 - side] != 0:
            at = tree[at, 1 - side]
        return at
    at = tree[node, PARENT]
    while at != 0 and tree[at, side] == node:
        node = at
        at = tree[at, PARENT]
    return at


@compiled
def against(pool: Any, node: Any, positions: Any, prefix: Any, n: Any) -> Any:
    """Whether the row of a node is before (-1), at (0) or past (1) a prefix of n words."""
    for i in range(n):
        word = pool[node - 1, positions[i]]
        if word != prefix[i]:
            return 1 if word > prefix[i] else -1
    return 0


@compiled
def has_number(pool: Any, node: Any, offset: Any, width: Any) -> Any:
    """Whether a number of the row of a node is not zero."""
    return pool[node - 1, offset] != 0 or (width == 2 and pool[node - 1, offset + 1] != 0)


@compiled
def end_of(pool: Any, tree: Any, positions: Any, prefix: Any, n: Any, offset: Any, width: Any, side: Any) -> Any:
    """The outermost node on one side with a prefix and a number that is not zero, or 0."""
    beyond = 1 if side == RIGHT else -1
    found, node = 0, tree[0, ROOT]
    while node != 0:
        if against(pool, node, positions, prefix, n) == beyond:
            node = tree[node, 1 - side]
        else:
            found = node
            node = tree[node, side]
    while found != 0 and against(pool, found, positions, prefix, n) == 0:
        if has_number(pool, found, offset, width):
            return found
        found = neighbour(tree, found, 1 - side)
    return 0


@entry
def build(pool: Any, live: Any, meta: Any, tree: Any, spec: Any) -> None:
    """Builds the tree over all rows, whatever their number."""
    ready(pool, live, meta, tree, spec, SHORT + 1)


@entry
def change(pool: Any, tree: Any, spec: Any, slot: Any, leaves: Any) -> None:
    """`arrange` or `withdraw`, called from Python."""
    if leaves:
        withdraw(pool, tree, spec, slot)
    else:
        arrange(pool, tree, spec, slot)
