"""The parts of a relation in flat arrays, for Numba: tuples, and the values of either variable with their chains.

A relation has three stores (`runtime/flat.py`). `TUPLES` has a row for each tuple, whatever part it is in: the two
values, its kind, the next and previous tuple of its first value and those of its second, and its numbers. `FIRSTS` and
`SECONDS` have a row for each value of a variable: whether it is heavy, and for each kind the first tuple of a chain and
its length. A tuple moves to another part by changing chains; nothing is hashed again. Links are slots plus one, so that
0, which new rows are full of, is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.control import FAILURE, NEEDED_ROWS, NEEDED_STORE, OVERFLOW
from viewlet.runtime.jit import compiled
from viewlet.runtime.probe import INDEX, LIVE, META, ROOM, find, hash_key, leave, place, take_slot
from viewlet.runtime.state import flags, hashes, numbers, words

STORES = 13
TUPLES, FIRSTS, SECONDS, STORES_OF_RELATION = 0, 1, 2, 3
VIEWS, GROUPS = 9, 12
"""Numbers of stores: relation i has `STORES_OF_RELATION` from 3 * i on, then come the views and the groups."""
WIDTH, KEYS, FIRST_KEY, BEGINS = 0, 1, 2, 5
"""Words of `shape`: numbers of a payload, of keys, the keys, and from `BEGINS` on where the stores begin in the state.
"""
WORDS_OF = BEGINS + STORES
"""From here on, words of a row of each store; then whether each view has witnesses."""
WITNESSES = WORDS_OF + STORES
COPIES = WITNESSES + 3
"""Of how many relations one part, one view and one update are those of all: 3 where a table is joined with itself."""
SHAPE_WORDS = COPIES + 1

KIND, ROW_LINKS, COLUMN_LINKS, NUMBERS = 2, 3, 5, 7
"""Words of a tuple, after its values: its kind, links to the next and previous one in its row and in its column."""
TUPLE_FIELDS = ("kind", "row_next", "row_previous", "column_next", "column_previous")
STATUS, CHAINS, LENGTHS, VALUE_WORDS = 1, 2, 5, 8
"""Words of a value: whether it is heavy (1), links to the first tuple of each kind, and how many there are."""
VALUE_FIELDS = ("status", *(f"{word}_{kind}" for word in ("chain", "length") for kind in ("heavy", "light", "sparse")))
HEAVY, LIGHT, SPARSE = 0, 1, 2
"""Kinds of tuples (`partition.Kind`)."""
LIMIT = 4.6e18
"""Numbers up to here can be added without leaving a word."""


@compiled
def product(left: Any, right: Any, control: Any) -> Any:
    """left * right; notes if that leaves its range."""
    if abs(float(left) * float(right)) > LIMIT:
        control[FAILURE] = OVERFLOW
    return left * right


@compiled
def added(total: Any, number: Any, control: Any) -> Any:
    """total + number; notes if that leaves its range."""
    total = total + number
    if abs(float(total)) > LIMIT:
        control[FAILURE] = OVERFLOW
    return total


@compiled
def rows_of(state: Any, shape: Any, store: Any) -> Any:
    """The rows of a store."""
    return words(state, shape[BEGINS + store], shape[WORDS_OF + store])


@compiled
def index_of(state: Any, shape: Any, store: Any) -> Any:
    """The index of a store by whole keys."""
    return hashes(state, shape[BEGINS + store] + INDEX)


@compiled
def has_room(state: Any, shape: Any, store: Any, rows: Any, control: Any) -> Any:
    """Whether so many rows can be added to a store; notes how many are missing."""
    if numbers(state, shape[BEGINS + store] + META)[ROOM] >= rows:
        return True
    control[NEEDED_STORE] = store
    control[NEEDED_ROWS] = rows
    return False


@compiled
def value_slot(state: Any, shape: Any, store: Any, value: Any) -> Any:
    """The row of a value, or -1."""
    return find(rows_of(state, shape, store), index_of(state, shape, store), (value,))


@compiled
def tuple_slot(state: Any, shape: Any, relation: Any, x: Any, y: Any) -> Any:
    """The row of a tuple, or -1."""
    store = STORES_OF_RELATION * relation
    return find(rows_of(state, shape, store), index_of(state, shape, store), (x, y))


@compiled
def count_of(values: Any, value: Any, kinds: Any) -> Any:
    """How many tuples of some kinds, a set of bits, a value has; -1 is a value that is not there."""
    total = np.int64(0)
    if value >= 0:
        for kind in range(3):
            if (kinds >> kind) & 1:
                total += values[value, LENGTHS + kind]
    return total


@compiled
def push(tuples: Any, values: Any, value: Any, links: Any, slot: Any) -> None:
    """Puts a tuple into the chain of a value and of its kind."""
    chain = CHAINS + tuples[slot, KIND]
    follower = values[value, chain]
    tuples[slot, links] = follower
    tuples[slot, links + 1] = 0
    if follower != 0:
        tuples[follower - 1, links + 1] = slot + 1
    values[value, chain] = slot + 1
    values[value, LENGTHS + tuples[slot, KIND]] += 1


@compiled
def pull(tuples: Any, values: Any, value: Any, links: Any, slot: Any) -> None:
    """Takes a tuple out of its chain."""
    follower, leader = tuples[slot, links], tuples[slot, links + 1]
    if follower != 0:
        tuples[follower - 1, links + 1] = leader
    if leader != 0:
        tuples[leader - 1, links] = follower
    else:
        values[value, CHAINS + tuples[slot, KIND]] = follower
    values[value, LENGTHS + tuples[slot, KIND]] -= 1


@compiled
def push_second(tuples: Any, seconds: Any, second: Any, slot: Any) -> None:
    """`push` for a second value: its first tuple that is not heavy tells whether the value is."""
    if tuples[slot, KIND] != HEAVY and seconds[second, LENGTHS + LIGHT] + seconds[second, LENGTHS + SPARSE] == 0:
        seconds[second, STATUS] = tuples[slot, KIND] == LIGHT
    push(tuples, seconds, second, COLUMN_LINKS, slot)


@compiled
def light_kind(seconds: Any, second: Any, threshold: Any) -> Any:
    """The kind of a tuple with a light first value: that of its second value, strictly if none tells it yet."""
    if second >= 0 and seconds[second, LENGTHS + LIGHT] + seconds[second, LENGTHS + SPARSE] > 0:
        return LIGHT if seconds[second, STATUS] else SPARSE
    return LIGHT if count_of(seconds, second, 7) >= threshold else SPARSE


@compiled
def settle_row(state: Any, shape: Any, store: Any, arity: Any, at: Any, slot: Any, term: Any, control: Any) -> None:
    """Adds a payload to the numbers of a row of a view or of the groups, which leaves if that makes it zero."""
    rows = rows_of(state, shape, store)
    gone = True
    for j in range(shape[WIDTH]):
        total = added(rows[slot, at + j], term[j], control)
        rows[slot, at + j] = total
        gone = gone and total == 0
    if gone:
        leave(state, shape[BEGINS + store], shape[WORDS_OF + store], arity, slot)


@compiled
def leave_value(state: Any, shape: Any, store: Any, slot: Any) -> None:
    """Forgets a value that has no tuples any more."""
    if count_of(rows_of(state, shape, store), slot, 7) == 0:
        leave(state, shape[BEGINS + store], VALUE_WORDS, np.int64(1), slot)


@compiled
def new_row(state: Any, shape: Any, store: Any, key: Any) -> Any:
    """A row for a key that is not in a store without slices; there is room for it."""
    rows, begin = rows_of(state, shape, store), shape[BEGINS + store]
    slot = take_slot(rows, numbers(state, begin + META), flags(state, begin + LIVE))
    for j in range(len(key)):
        rows[slot, j] = key[j]
    place(hashes(state, begin + INDEX), hash_key(key), slot)
    return slot


@compiled
def add_tuple(
    state: Any,
    shape: Any,
    relation: Any,
    x: Any,
    y: Any,
    slot: Any,
    first: Any,
    second: Any,
    kind: Any,
    term: Any,
    control: Any,
) -> Any:
    """Adds a payload to a tuple, which comes with `kind` if it is new and leaves if that makes it zero.

    `slot`, `first` and `second` are the rows of the tuple and of its values, or -1. Says whether degrees have changed.
    """
    store = STORES_OF_RELATION * relation
    tuples = rows_of(state, shape, store)
    firsts, seconds = rows_of(state, shape, store + FIRSTS), rows_of(state, shape, store + SECONDS)
    is_new = slot < 0
    if is_new:
        slot = new_row(state, shape, store, (x, y))
        tuples[slot, KIND] = kind
        if first < 0:
            first = new_row(state, shape, store + FIRSTS, (x,))
            firsts[first, STATUS] = kind == HEAVY
        if second < 0:
            second = new_row(state, shape, store + SECONDS, (y,))
        push(tuples, firsts, first, ROW_LINKS, slot)
        push_second(tuples, seconds, second, slot)
    gone = True
    for j in range(shape[WIDTH]):
        total = added(tuples[slot, NUMBERS + j], term[j], control)
        tuples[slot, NUMBERS + j] = total
        gone = gone and total == 0
    if gone:
        pull(tuples, firsts, first, ROW_LINKS, slot)
        pull(tuples, seconds, second, COLUMN_LINKS, slot)
        leave(state, shape[BEGINS + store], shape[WORDS_OF + store], np.int64(2), slot)
        leave_value(state, shape, store + FIRSTS, first)
        leave_value(state, shape, store + SECONDS, second)
    return is_new or gone


@compiled
def set_kind(state: Any, shape: Any, relation: Any, slot: Any, first: Any, second: Any, kind: Any) -> None:
    """Makes a tuple one of another kind, in the chains of both its values."""
    store = STORES_OF_RELATION * relation
    tuples = rows_of(state, shape, store)
    firsts, seconds = rows_of(state, shape, store + FIRSTS), rows_of(state, shape, store + SECONDS)
    pull(tuples, firsts, first, ROW_LINKS, slot)
    pull(tuples, seconds, second, COLUMN_LINKS, slot)
    tuples[slot, KIND] = kind
    push(tuples, firsts, first, ROW_LINKS, slot)
    push_second(tuples, seconds, second, slot)
