"""The compiled loops of joins: pairs of samples of two signals with equal slot and index.

Samples are three columns: slot, index, value. Those that waited (`old`) come before new ones of their group. Samples of
one signal at most wait for another in a group, because a sample waits only for a signal that is behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import compiled, entry

Array = Any
BOTH, ADD, SUBTRACT = 0, 1, 2
"""What is written of two values: both side by side, or what is added up."""
FARTHEST = np.iinfo(np.int64).max


@compiled
def slot_at(slot: Array, row: int) -> int:
    """The slot of a row; behind the last row, one that is behind all others."""
    return int(slot[row]) if row < slot.shape[0] else FARTHEST


@compiled
def end_of(slot: Array, row: int, wanted: int) -> int:
    """The end of the rows of a slot that begin at a row, if they do."""
    while row < slot.shape[0] and slot[row] == wanted:
        row += 1
    return row


@compiled
def pair(
    index: Array,
    value: Array,
    i: int,
    end: int,
    other_index: Array,
    other_value: Array,
    j: int,
    other_end: int,
    operation: int,
    index_out: Array,
    value_out: Array,
    count: int,
) -> tuple[int, int, int]:
    """Pairs the rows of one group until one signal has no more; returns the next rows of both, and the pairs so far."""
    width = value.shape[1]
    while i < end and j < other_end:
        if index[i] < other_index[j]:
            i += 1
        elif index[i] > other_index[j]:
            j += 1
        else:
            index_out[count] = index[i]
            if operation == ADD:
                for c in range(width):
                    value_out[count, c] = value[i, c] + other_value[j, c]
            elif operation == SUBTRACT:
                for c in range(width):
                    value_out[count, c] = value[i, c] - other_value[j, c]
            else:
                for c in range(width):
                    value_out[count, c] = value[i, c]
                for c in range(other_value.shape[1]):
                    value_out[count, width + c] = other_value[j, c]
            i, j, count = i + 1, j + 1, count + 1
    return i, j, count


@compiled
def keep(
    slot: int,
    index: Array,
    value: Array,
    begin: int,
    end: int,
    reached: int,
    slot_out: Array,
    index_out: Array,
    value_out: Array,
    count: int,
) -> int:
    """Copies the rows that the other signal has not reached; returns how many there are so far."""
    for row in range(begin, end):
        if index[row] > reached:
            slot_out[count], index_out[count] = slot, index[row]
            for c in range(value.shape[1]):
                value_out[count, c] = value[row, c]
            count += 1
    return count


@entry
def last_values(
    slot: Array,
    index: Array,
    new_slot: Array,
    new_index: Array,
    new_reach: Array,
    new_value: Array,
    reach: Array,
    value: Array,
    value_out: Array,
    is_there: Array,
) -> None:
    """Writes the last value at or before each sample, where it reaches it; of each slot, `reach` and `value` have the
    last one so far. A new value is seen from its index on. Samples and new values are sorted."""
    row = 0
    for n in range(slot.shape[0]):
        at = slot[n]
        while row < new_slot.shape[0] and (new_slot[row] < at or (new_slot[row] == at and new_index[row] <= index[n])):
            reach[new_slot[row]] = new_reach[row]
            for c in range(value.shape[1]):
                value[new_slot[row], c] = new_value[row, c]
            row += 1
        is_there[n] = index[n] <= reach[at]
        for c in range(value.shape[1]):
            value_out[n, c] = value[at, c]


@entry
def match_samples(
    left_old: tuple[Array, Array, Array],
    left_new: tuple[Array, Array, Array],
    right_old: tuple[Array, Array, Array],
    right_new: tuple[Array, Array, Array],
    left_reached: Array,
    right_reached: Array,
    operation: int,
    pairs: tuple[Array, Array, Array],
    left_waits: tuple[Array, Array, Array],
    right_waits: tuple[Array, Array, Array],
) -> tuple[int, int, int]:
    """Writes the pairs (slot, index, and what `operation` says of the values), and the samples that may still meet
    another: those after the last index of the other signal (`reached`, by slot). Returns how many there are of each."""
    a, ai, av = left_old
    b, bi, bv = left_new
    c, ci, cv = right_old
    d, di, dv = right_new
    slots, index, value = pairs
    ws, wi, wv = left_waits
    xs, xi, xv = right_waits
    count = left_count = right_count = 0
    i = j = k = m = 0
    while True:
        slot = min(min(slot_at(a, i), slot_at(b, j)), min(slot_at(c, k), slot_at(d, m)))
        if slot == FARTHEST:
            return count, left_count, right_count
        begin = count
        i_end, j_end, k_end, m_end = end_of(a, i, slot), end_of(b, j, slot), end_of(c, k, slot), end_of(d, m, slot)
        i, m, count = pair(ai, av, i, i_end, di, dv, m, m_end, operation, index, value, count)
        j, k, count = pair(bi, bv, j, j_end, ci, cv, k, k_end, operation, index, value, count)
        j, m, count = pair(bi, bv, j, j_end, di, dv, m, m_end, operation, index, value, count)
        for row in range(begin, count):
            slots[row] = slot
        left_count = keep(slot, ai, av, i, i_end, right_reached[slot], ws, wi, wv, left_count)
        left_count = keep(slot, bi, bv, j, j_end, right_reached[slot], ws, wi, wv, left_count)
        right_count = keep(slot, ci, cv, k, k_end, left_reached[slot], xs, xi, xv, right_count)
        right_count = keep(slot, di, dv, m, m_end, left_reached[slot], xs, xi, xv, right_count)
        i, j, k, m = i_end, j_end, k_end, m_end
