"""Enumeration of the rows of a factorised result, in blocks of any size.

The pieces are visited in a fixed order. Given the values of the pieces before it, a piece contributes the rows of a
chain, one row, or all rows of its store. The enumeration takes one row, continues with the next piece, and returns for
the next row. Every piece has rows for each choice of the pieces before it, so the enumeration never backtracks without
having produced a row.

`spec` has one row for each piece. `refs` has its details: the positions of its key among the known values, the
positions of its own values, and for each store that only counts, its arrays, its width and the positions of its key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import HEADS, INDEX, LINKS, LIVE, META, NEXT, SIZE, SLICE_ARRAYS, find_known
from viewlet.runtime.state import chains, flags, hashes, numbers, words

FIRST, WIDTH, KEYS, VALUES, SLICE, LAST, COUNTED, REFS = range(8)
"""Words of a row of `spec`: where the arrays of the store begin and the width of its rows, words of the key, values of
its own, the number of the slice, whether nothing is below it, how many stores only count, where its details begin."""
SCAN, LOOK_UP = -1, -2
"""Instead of the number of a slice: all rows of the store, or the one with the key."""


@compiled
def next_alive(state: Any, first: Any, slot: Any) -> Any:
    """The next row of a store, or -1."""
    live, size = flags(state, first + LIVE), numbers(state, first + META)[SIZE]
    while slot < size:
        if live[slot]:
            return slot
        slot += 1
    return -1


@compiled
def first_row(state: Any, spec: Any, refs: Any, p: Any, known: Any) -> Any:
    """The first row of a piece for the known values, or -1."""
    first, width, keys = spec[p, FIRST], spec[p, WIDTH], spec[p, KEYS]
    if spec[p, SLICE] == SCAN:
        return next_alive(state, first, np.int64(0))
    if keys == 0:
        return np.int64(0)
    pool = words(state, first, width)
    if spec[p, SLICE] == LOOK_UP:
        return find_known(pool, hashes(state, first + INDEX), known, refs, spec[p, REFS], keys)
    heads = hashes(state, first + HEADS + SLICE_ARRAYS * spec[p, SLICE])
    return find_known(pool, heads, known, refs, spec[p, REFS], keys)


@compiled
def next_row(state: Any, spec: Any, p: Any, slot: Any) -> Any:
    """The row of a piece after another, or -1."""
    if spec[p, SLICE] == SCAN:
        return next_alive(state, spec[p, FIRST], slot + 1)
    if spec[p, SLICE] == LOOK_UP:
        return np.int64(-1)
    return np.int64(chains(state, spec[p, FIRST] + LINKS + SLICE_ARRAYS * spec[p, SLICE])[slot, NEXT])


@compiled
def times_of(state: Any, spec: Any, refs: Any, p: Any, slot: Any, known: Any) -> Any:
    """The multiplicity that a row of a piece contributes: its own if it is last, else that of what only counts."""
    keys, values = spec[p, KEYS], spec[p, VALUES]
    if spec[p, LAST]:
        return words(state, spec[p, FIRST], spec[p, WIDTH])[slot, keys + values]
    found, at = np.int64(1), spec[p, REFS] + keys + values
    for _ in range(spec[p, COUNTED]):
        first, width, arity = refs[at], refs[at + 1], refs[at + 2]
        pool, there = words(state, first, width), np.int64(0)
        if arity:
            there = find_known(pool, hashes(state, first + INDEX), known, refs, at + 3, arity)
        found *= pool[there, arity] if there >= 0 else 0
        at += 3 + arity
    return found


@entry
def read_rows(spec: Any, refs: Any, cursor: Any, weights: Any, known: Any, rows: Any, times: Any, state: Any) -> Any:
    """Continues from the cursor until the rows or the buffer are exhausted; returns the number of rows found.

    The cursor has the row of each piece, and after them whether the walk has begun.
    """
    pieces, found = spec.shape[0], 0
    entering = cursor[pieces] == 0
    p = 0 if entering else pieces - 1
    cursor[pieces] = 1
    while p >= 0:
        slot = first_row(state, spec, refs, p, known) if entering else next_row(state, spec, p, cursor[p])
        entering = False
        if slot < 0:
            p -= 1
            continue
        cursor[p] = slot
        pool, at, keys = words(state, spec[p, FIRST], spec[p, WIDTH]), spec[p, REFS], spec[p, KEYS]
        for j in range(spec[p, VALUES]):
            known[refs[at + keys + j]] = pool[slot, keys + j]
        own = times_of(state, spec, refs, p, slot, known)
        if own == 0:
            continue
        weights[p + 1] = weights[p] * own
        if p < pieces - 1:
            p += 1
            entering = True
            continue
        for j in range(rows.shape[1]):
            rows[found, j] = known[j]
        times[found] = weights[p + 1]
        found += 1
        if found == rows.shape[0]:
            break
    return found
