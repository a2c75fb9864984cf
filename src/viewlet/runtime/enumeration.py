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
from viewlet.runtime.probe import find_known
from viewlet.runtime.state import chains, flags, hashes, numbers, words

FIRST, WIDTH, KEYS, VALUES, SLICE, LAST, COUNTED, REFS = range(8)
PIECE = 8
SCAN, LOOK_UP = -1, -2
"""Instead of the number of a slice: all rows of the store, or the one with the key."""


@compiled
def next_alive(state: Any, first: Any, slot: Any) -> Any:
    """The next row of a store, or -1."""
    live, size = flags(state, first + 3), numbers(state, first + 2)[0]
    while slot < size:
        if live[slot]:
            return slot
        slot += 1
    return -1


@compiled
def first_row(state: Any, spec: Any, refs: Any, p: Any, known: Any) -> Any:
    """The first row of a piece for the known values, or -1."""
    first, width, keys = spec[p, 0], spec[p, 1], spec[p, 2]
    if spec[p, 4] == -1:
        return next_alive(state, first, np.int64(0))
    if keys == 0:
        return np.int64(0)
    pool = words(state, first, width)
    if spec[p, 4] == -2:
        return find_known(pool, hashes(state, first + 1), known, refs, spec[p, 7], keys)
    return find_known(pool, hashes(state, first + 4 + 2 * spec[p, 4]), known, refs, spec[p, 7], keys)


@compiled
def next_row(state: Any, spec: Any, p: Any, slot: Any) -> Any:
    """The row of a piece after another, or -1."""
    if spec[p, 4] == -1:
        return next_alive(state, spec[p, 0], slot + 1)
    if spec[p, 4] == -2:
        return np.int64(-1)
    return np.int64(chains(state, spec[p, 0] + 5 + 2 * spec[p, 4])[slot, 0])


@compiled
def times_of(state: Any, spec: Any, refs: Any, p: Any, slot: Any, known: Any) -> Any:
    """The multiplicity that a row of a piece contributes: its own if it is last, else that of what only counts."""
    keys, values = spec[p, 2], spec[p, 3]
    if spec[p, 5]:
        return words(state, spec[p, 0], spec[p, 1])[slot, keys + values]
    found, at = np.int64(1), spec[p, 7] + keys + values
    for _ in range(spec[p, 6]):
        first, width, arity = refs[at], refs[at + 1], refs[at + 2]
        pool, there = words(state, first, width), np.int64(0)
        if arity:
            there = find_known(pool, hashes(state, first + 1), known, refs, at + 3, arity)
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
        pool, at, keys = words(state, spec[p, 0], spec[p, 1]), spec[p, 7], spec[p, 2]
        for j in range(spec[p, 3]):
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
