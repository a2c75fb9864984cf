"""Adding rows to a store of any layout: one compiled function for all programs.

A row is laid out as in the store: the words of the key, then those of every number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.arithmetic import SMALL, dd_add, large_sum
from viewlet.runtime.control import BELOW, FAILURE, FULL, OVERFLOW
from viewlet.runtime.flat import Layout
from viewlet.runtime.jit import entry
from viewlet.runtime.merge import AHEAD, enter_row, expect_in, expect_rows, expect_slices
from viewlet.runtime.ordered_index import COUNT, KINDS, WIDE, arrange, withdraw
from viewlet.runtime.probe import (
    HEADS,
    INDEX,
    META,
    ROOM,
    SLICE_ARRAYS,
    SLICES,
    find_row,
    leave,
)
from viewlet.runtime.state import hashes, numbers, words
from viewlet.runtime.wide import LIMIT_HIGH, double_of, wide_add


def kinds_of(layout: Layout) -> Any:
    """The kinds of a row's numbers, as `add_rows` takes them."""
    return np.array([KINDS[kind] for kind in layout.kinds], np.int64)


def trees_of(layout: Layout) -> Any:
    """The widths of a store's ordered indexes, as `add_rows` takes them."""
    return np.array([layout.tree_width(j) for j in range(len(layout.ordered))], np.int64)


@entry
def add_rows(
    state: Any,
    first: Any,
    arity: Any,
    kinds: Any,
    transient: Any,
    trees: Any,
    pool: Any,
    reals: Any,
    rows: Any,
    real_rows: Any,
    control: Any,
) -> None:
    """Adds rows to the store whose arrays begin at `first`; `reals` and `real_rows` are the same words as doubles.

    A row leaves when all its exact numbers are zero; if it has none, or the store is transient, when all are. `trees`
    are the widths of the ordered indexes, which come after the slices.
    """
    width, small = np.int64(pool.shape[1]), double_of(SMALL + control[BELOW])
    for row in range(rows.shape[0]):
        if arity > 0 and row % AHEAD == 0:
            expect_rows(state, first, width, arity, rows, row, min(row + AHEAD, rows.shape[0]))
            expect_slices(state, first, arity, rows, row, min(row + AHEAD, rows.shape[0]))
        some = False
        for j in range(arity, width):
            some = some or rows[row, j] != 0
        if not some:
            continue
        slot = 0
        if arity > 0:
            if numbers(state, first + META)[ROOM] <= 0:
                slot = find_row(pool, hashes(state, first + INDEX), rows, row, arity)
            else:
                slot = enter_row(state, first, width, arity, rows, row)
            if slot < 0:
                control[FULL] = 1
                return
        at = arity
        has_exact = exact_left = double_left = False
        for f in range(kinds.shape[0]):
            if kinds[f] == COUNT:
                pool[slot, at] += rows[row, at]
                has_exact = True
                exact_left = exact_left or pool[slot, at] != 0
                at += 1
            elif kinds[f] == WIDE:
                high, low = wide_add(pool[slot, at], pool[slot, at + 1], rows[row, at], rows[row, at + 1])
                pool[slot, at] = high
                pool[slot, at + 1] = low
                if high > LIMIT_HIGH or high < -LIMIT_HIGH:
                    control[FAILURE] = OVERFLOW
                has_exact = True
                exact_left = exact_left or high != 0 or low != 0
                at += 2
            else:
                high, low = reals[slot, at], reals[slot, at + 1]
                one, two = dd_add(high, low, real_rows[row, at], real_rows[row, at + 1])
                if not (abs(real_rows[row, at]) <= small):
                    one, two = large_sum(high, low, real_rows[row, at], one, two, control)
                reals[slot, at] = one
                reals[slot, at + 1] = two
                double_left = double_left or one != 0.0 or two != 0.0
                at += 2
        if arity > 0:
            stays = exact_left or (double_left and (transient or not has_exact))
            at = first + HEADS + SLICE_ARRAYS * numbers(state, first + META)[SLICES]
            for j in range(trees.shape[0]):
                tree, spec = words(state, at + 2 * j, trees[j]), numbers(state, at + 2 * j + 1)
                if stays:
                    arrange(pool, tree, spec, slot)
                else:
                    withdraw(pool, tree, spec, slot)
            if not stays:
                leave(state, first, width, arity, slot)


@entry
def slots_at(pool: Any, index: Any, keys: Any, found: Any) -> None:
    """The slots of some keys, -1 where there is no row."""
    for row in range(keys.shape[0]):
        if row % AHEAD == 0:
            expect_in(pool, index, np.int64(keys.shape[1]), keys, row, min(row + AHEAD, keys.shape[0]))
        found[row] = find_row(pool, index, keys, row, np.int64(keys.shape[1]))
