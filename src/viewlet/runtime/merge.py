"""Adding scratch stores to stores, row by row, with rollback: the same code for all payloads.

A payload has integers first, then doubles; a row whose integers are all zero is removed. Stores are described by
numbers, one row for each.

The log has, for each row that was changed, the number of its store and its words before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.control import LOGGED, LOGGING
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import (
    ALIVE,
    FREE,
    HEADS,
    INDEX,
    LINKS,
    LIVE,
    META,
    META_WORDS,
    ROOM,
    SIZE,
    SLICE_ARRAYS,
    SLICES,
    clear,
    hash_row,
    leave,
    link,
    part_of,
    take_slot,
)
from viewlet.runtime.state import chains, flags, floats, hashes, numbers, words
from viewlet.runtime.vectors import add_scaled, expect

FIRST, DOUBLES, WIDTH, ARITY, INTEGERS = range(5)
"""Words of the description of a store: where its arrays and its doubles begin in the state, the width of a row, the
words of its key, the integers of its payload."""

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
AHEAD = 32
"""Rows whose places are fetched together."""
_SPARSE = 16
"""Entries of an index for each row of which it is quicker to make all of them zero than to look for the row's own."""


@compiled
def enter_row(state: Any, first: Any, width: Any, arity: Any, other: Any, row: Any) -> Any:
    """The slot of the key of a row of another pool, made if it is new; there must be room."""
    if arity == 0:
        return np.int64(0)
    pool, index = words(state, first, width), hashes(state, first + INDEX)
    h = hash_row(other, row, arity)
    mask = np.uint64(index.shape[0] - 1)
    i = h & mask
    while True:
        entry = index[i]
        if entry == _ZERO:
            break
        if entry >> _SHIFT == h:
            slot = np.int64(entry & _LOW) - 1
            same = True
            for j in range(arity):
                same = same and pool[slot, j] == other[row, j]
            if same:
                return slot
        i = (i + _ONE) & mask
    slot = take_slot(pool, numbers(state, first + META), flags(state, first + LIVE))
    for j in range(arity):
        pool[slot, j] = other[row, j]
    index[i] = (h << _SHIFT) | np.uint64(slot + 1)
    link_row(state, first, pool, arity, slot)
    return slot


@compiled
def link_row(state: Any, first: Any, pool: Any, arity: Any, slot: Any) -> None:
    """Puts a new row into the slices of its store."""
    meta = numbers(state, first + META)
    at = META_WORDS + 2 * meta[SLICES]
    for j in range(meta[SLICES]):
        heads, links = first + HEADS + SLICE_ARRAYS * j, first + LINKS + SLICE_ARRAYS * j
        link(pool, hashes(state, heads), chains(state, links), meta, j, at, slot)
        at += arity + 1


@compiled
def expect_rows(state: Any, first: Any, width: Any, arity: Any, other: Any, begin: Any, end: Any) -> None:
    """Has the places fetched where the keys of some rows of another pool are, for they are far apart."""
    expect_in(words(state, first, width), hashes(state, first + INDEX), arity, other, begin, end)


@compiled
def expect_slices(state: Any, first: Any, arity: Any, other: Any, begin: Any, end: Any) -> None:
    """Has the places fetched where the slices of a store have the keys of some rows of another pool."""
    meta = numbers(state, first + META)
    at = META_WORDS + 2 * meta[SLICES]
    for j in range(meta[SLICES]):
        heads = hashes(state, first + HEADS + SLICE_ARRAYS * j)
        mask = np.uint64(heads.shape[0] - 1)
        for d in range(begin, end):
            expect(heads, np.int64(part_of(other, d, meta, at) & mask))
        at += arity + 1


@compiled
def expect_in(pool: Any, index: Any, arity: Any, other: Any, begin: Any, end: Any) -> None:
    """Like `expect_rows`, for a pool and its index."""
    mask = np.uint64(index.shape[0] - 1)
    for d in range(begin, end):
        expect(index, np.int64(hash_row(other, d, arity) & mask))
    for d in range(begin, end):
        entry = index[hash_row(other, d, arity) & mask]
        if entry != _ZERO:
            expect(pool, np.int64(entry & _LOW) - 1)


@compiled
def is_gone(pool: Any, slot: Any, arity: Any, integers: Any) -> Any:
    """All integers of a payload are zero."""
    sizes = np.int64(0)
    for j in range(arity, arity + integers):
        sizes |= pool[slot, j]
    return sizes == 0


@compiled
def note(pool: Any, slot: Any, width: Any, number: Any, log: Any, control: Any) -> None:
    """Logs a row as it is."""
    at = control[LOGGED]
    log[at] = number
    for j in range(width):
        log[at + 1 + j] = pool[slot, j]
    control[LOGGED] = at + 1 + width


@compiled
def remove(state: Any, pool: Any, first: Any, width: Any, arity: Any, slot: Any) -> None:
    """Takes a row out; the only row of a store without keys is made zero."""
    if arity:
        leave(state, first, width, arity, slot)
    else:
        for j in range(width):
            pool[0, j] = 0


@entry
def merge(pairs: Any, stores: Any, moved: Any, log: Any, state: Any, control: Any) -> Any:
    """For each pair of numbers adds one store to the other and empties it; with -1 it only empties it.

    `moved` gets the rows of the first pair that came (slot + 1) or went (minus that), where it has room; returns how
    many.
    """
    movements = 0
    for k in range(pairs.shape[0]):
        origin, number = pairs[k, 0], pairs[k, 1]
        width, arity, integers = stores[origin, WIDTH], stores[origin, ARITY], stores[origin, INTEGERS]
        source, first = words(state, stores[origin, FIRST], width), stores[origin, FIRST]
        rows = 1 if arity == 0 else numbers(state, first + META)[SIZE]
        if number >= 0:
            goal = stores[number, FIRST]
            pool = words(state, goal, width)
            ours, theirs = floats(state, stores[number, DOUBLES], width), floats(state, stores[origin, DOUBLES], width)
            start = arity + integers
            for d in range(rows):
                if arity and d % AHEAD == 0:
                    expect_rows(state, goal, width, arity, source, d, min(d + AHEAD, rows))
                s = enter_row(state, goal, width, arity, source, d)
                if control[LOGGING]:
                    note(pool, s, width, number, log, control)
                was = k == 0 and moved.shape[0] > 0 and not is_gone(pool, s, arity, integers)
                for j in range(arity, start):
                    pool[s, j] += source[d, j]
                add_scaled(ours, s, start, theirs, d, start, width - start, 1.0)
                gone = is_gone(pool, s, arity, integers)
                if k == 0 and moved.shape[0] > 0 and was == gone:
                    moved[movements] = -d - 1 if gone else d + 1
                    movements += 1
                if gone:
                    remove(state, pool, goal, width, arity, s)
        if k == 0 and moved.shape[0] > 0:
            continue  # who follows the movements still reads its rows
        empty(state, first, width, arity)
    return movements


@compiled
def empty(state: Any, first: Any, width: Any, arity: Any) -> None:
    """Empties a store without slices."""
    pool = words(state, first, width)
    if arity == 0:
        for j in range(width):
            pool[0, j] = 0
        return
    index, meta, live = hashes(state, first + INDEX), numbers(state, first + META), flags(state, first + LIVE)
    if meta[SIZE] * _SPARSE < index.shape[0]:
        clear(pool, index, meta, live, arity)
        return
    index[:] = _ZERO
    live[: meta[SIZE]] = 0
    meta[SIZE] = 0
    meta[FREE] = -1
    meta[ALIVE] = 0
    meta[ROOM] = pool.shape[0]


@entry
def empty_store(number: Any, stores: Any, state: Any) -> None:
    """Empties a store without slices."""
    empty(state, stores[number, FIRST], stores[number, WIDTH], stores[number, ARITY])


@entry
def count_moved(
    origin: Any,
    count: Any,
    change: Any,
    positions: Any,
    moved: Any,
    key: Any,
    stores: Any,
    log: Any,
    state: Any,
    control: Any,
) -> None:
    """Counts rows that came and went by a part of their keys; where a count reaches or leaves 0, `change` is told."""
    arity, width = stores[count, ARITY], stores[count, WIDTH]
    source = words(state, stores[origin, FIRST], stores[origin, WIDTH])
    pool, changed = words(state, stores[count, FIRST], width), words(state, stores[change, FIRST], width)
    for i in range(moved.shape[0]):
        sign = 1 if moved[i] > 0 else -1
        row = abs(moved[i]) - 1
        for j in range(arity):
            key[0, j] = source[row, positions[j]]
        s = enter_row(state, stores[count, FIRST], width, arity, key, 0)
        if control[LOGGING]:
            note(pool, s, width, count, log, control)
        before = pool[s, arity]
        pool[s, arity] = before + sign
        if before == 0 or before + sign == 0:
            r = enter_row(state, stores[change, FIRST], width, arity, key, 0)
            changed[r, arity] += sign
        if before + sign == 0:
            remove(state, pool, stores[count, FIRST], width, arity, s)


@entry
def take_back(places: Any, stores: Any, log: Any, state: Any) -> None:
    """Makes logged rows what they were, the last first."""
    for i in range(len(places) - 1, -1, -1):
        at = places[i]
        number = log[at]
        first, width, arity = stores[number, FIRST], stores[number, WIDTH], stores[number, ARITY]
        pool = words(state, first, width)
        before = log[at + 1 : at + 1 + width].reshape(1, width)
        s = enter_row(state, first, width, arity, before, 0)
        for j in range(width):
            pool[s, j] = before[0, j]
        if is_gone(pool, s, arity, stores[number, INTEGERS]):
            remove(state, pool, first, width, arity, s)
