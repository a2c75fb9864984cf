"""Operations on the flat store of a base table, a batch of rows at a time.

A batch is `width` columns of words (`viewlet.runtime.state`) in the order in which the store holds them, and an array
of multiplicities. With a primary key, the words of the key are the key of the store and the others its payload, and
each row is there once. Without one, whole rows are keys and the payload is a count. Words of the payload may stand for
strings (`viewlet.runtime.text_heap`).

Checks only read, and return the number of the first row that breaks a rule, or -1. They expect that a row which a batch
deletes occurs once in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.jit import compiled, entry
from viewlet.runtime.probe import ALIVE, FREE, SIZE, displace, mix, place, position_of, settle, take_slot
from viewlet.runtime.state import numbers
from viewlet.runtime.text_heap import LENGTH_BITS, same_text, text_length
from viewlet.runtime.vectors import expect

APPLIED, TOTAL, USED, FREED = range(4)
"""Words of the notes of a table: whether the batch under way is in, how many rows there are, repeats included, how many
bytes of strings are in use, and about how many of them no row has any longer."""

AHEAD = 12
"""How many rows before its turn the entry of a row is fetched from memory."""

_SEED = np.uint64(0x243F6A8885A308D3)
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@compiled
def _hash(rows: Any, row: Any, arity: Any) -> Any:
    """The hash of the key of a row, the same as that of its place in the store."""
    h = _SEED
    for j in range(arity):
        h = mix(h, numbers(rows, j)[row])
    return settle(h)


@compiled
def _find(pool: Any, index: Any, h: Any, rows: Any, row: Any, arity: Any) -> Any:
    """The slot with the key of a row, or -1."""
    mask = np.uint64(index.shape[0] - 1)
    i = h & mask
    while True:
        entry = index[i]
        if entry == _ZERO:
            return np.int64(-1)
        if entry >> _SHIFT == h:
            slot = np.int64(entry & _LOW) - 1
            same = True
            for j in range(arity):
                same = same and pool[slot, j] == numbers(rows, j)[row]
            if same:
                return slot
        i = (i + _ONE) & mask


@compiled
def _announce(index: Any, rows: Any, row: Any, count: Any, arity: Any) -> None:
    """Has the entry of a row that will be looked up soon, if there are as many, fetched from memory."""
    if row < count:
        expect(index, np.int64(_hash(rows, row, arity) & np.uint64(index.shape[0] - 1)))


@compiled
def _count(pool: Any, slot: Any, rows: Any, row: Any, width: Any, arity: Any, is_text: Any, heap: Any) -> Any:
    """How often a row is there, if its key is at a slot."""
    if slot < 0:
        return np.int64(0)
    if pool.shape[1] > width:
        return pool[slot, width]
    for j in range(arity, width):
        if pool[slot, j] != numbers(rows, j)[row] and not (
            is_text[j] and same_text(heap, pool[slot, j], numbers(rows, j)[row])
        ):
            return np.int64(0)
    return np.int64(1)


@compiled
def _remove(pool: Any, index: Any, meta: Any, live: Any, h: Any, slot: Any) -> None:
    displace(index, position_of(index, h, slot))
    live[slot] = 0
    pool[slot, 0] = meta[FREE]
    meta[FREE] = slot
    meta[ALIVE] -= 1


@entry
def first_absent(
    pool: Any, index: Any, rows: Any, weights: Any, width: Any, arity: Any, is_text: Any, heap: Any
) -> Any:
    """The first row that would be there less often than never."""
    for row in range(weights.shape[0]):
        _announce(index, rows, row + AHEAD, weights.shape[0], arity)
        if weights[row] < 0:
            slot = _find(pool, index, _hash(rows, row, arity), rows, row, arity)
            if _count(pool, slot, rows, row, width, arity, is_text, heap) + weights[row] < 0:
                return row
    return -1


@entry
def keys_increase(rows: Any, count: Any, arity: Any) -> Any:
    """Whether every key of a batch is larger than the one before it, so that none occurs twice."""
    for row in range(1, count):
        j = 0
        while j < arity and numbers(rows, j)[row] == numbers(rows, j)[row - 1]:
            j += 1
        if j == arity or numbers(rows, j)[row] < numbers(rows, j)[row - 1]:
            return False
    return True


@entry
def first_present(pool: Any, index: Any, rows: Any, weights: Any, arity: Any) -> Any:
    """The first row that is inserted although its key would be there twice, in a batch whose keys are all different."""
    for row in range(weights.shape[0]):
        _announce(index, rows, row + AHEAD, weights.shape[0], arity)
        if weights[row] > 0 and (
            weights[row] > 1 or _find(pool, index, _hash(rows, row, arity), rows, row, arity) >= 0
        ):
            return row
    return -1


@entry
def first_duplicate(
    pool: Any, index: Any, rows: Any, weights: Any, arity: Any, table: Any, groups: Any, sums: Any
) -> Any:
    """Like `first_present` for any batch; `table` is an empty index for it.

    `sums` gets the number of rows with each key, by the number of the first row that has it.
    """
    mask = np.uint64(table.shape[0] - 1)
    for row in range(weights.shape[0]):
        _announce(index, rows, row + AHEAD, weights.shape[0], arity)
        _announce(table, rows, row + AHEAD, weights.shape[0], arity)
        h = _hash(rows, row, arity)
        i = h & mask
        group = np.int64(-1)
        while group < 0:
            entry = table[i]
            if entry == _ZERO:
                table[i] = (h << _SHIFT) | np.uint64(row + 1)
                group = np.int64(row)
                sums[row] = 1 if _find(pool, index, h, rows, row, arity) >= 0 else 0
            elif entry >> _SHIFT == h:
                other = np.int64(entry & _LOW) - 1
                same = True
                for j in range(arity):
                    same = same and numbers(rows, j)[other] == numbers(rows, j)[row]
                if same:
                    group = other
            i = (i + _ONE) & mask
        groups[row] = group
        sums[group] += weights[row]
    for row in range(weights.shape[0]):
        if weights[row] > 0 and sums[groups[row]] > 1:
            return row
    return -1


@entry
def add_rows(
    pool: Any, index: Any, meta: Any, live: Any, rows: Any, weights: Any, sign: Any, width: Any, arity: Any,
    is_text: Any, texts_end: Any, notes: Any,
) -> None:  # fmt: skip
    """Adds a batch that has been checked, times a sign, to a store with room for it; keeps the notes."""
    total = 0
    if pool.shape[1] > width:
        for row in range(weights.shape[0]):
            _announce(index, rows, row + AHEAD, weights.shape[0], arity)
            weight = sign * weights[row]
            h = _hash(rows, row, arity)
            slot = _find(pool, index, h, rows, row, arity)
            if slot < 0:
                slot = take_slot(pool, meta, live)
                for j in range(width):
                    pool[slot, j] = numbers(rows, j)[row]
                place(index, h, slot)
            pool[slot, width] += weight
            if pool[slot, width] == 0:
                _remove(pool, index, meta, live, h, slot)
            total += weight
    else:
        for row in range(weights.shape[0]):  # deletes first: the key of a new row may be that of an old one
            if sign * weights[row] < 0:
                h = _hash(rows, row, arity)
                slot = _find(pool, index, h, rows, row, arity)
                for j in range(arity, width):
                    if is_text[j]:  # those of the table, and those of the batch
                        notes[FREED] += 2 * text_length(pool[slot, j])
                _remove(pool, index, meta, live, h, slot)
                total -= 1
        for row in range(weights.shape[0]):
            _announce(index, rows, row + AHEAD, weights.shape[0], arity)
            if sign * weights[row] > 0:
                slot = take_slot(pool, meta, live)
                for j in range(width):
                    pool[slot, j] = numbers(rows, j)[row]
                place(index, _hash(rows, row, arity), slot)
                total += 1
    notes[TOTAL] += total
    notes[USED] = max(notes[USED], texts_end)
    notes[APPLIED] = 1 if sign > 0 else 0


@entry
def find_keys(pool: Any, index: Any, rows: Any, arity: Any, slots: Any) -> None:
    """The slots of keys, -1 for those that are not there."""
    for row in range(slots.shape[0]):
        slots[row] = _find(pool, index, _hash(rows, row, arity), rows, row, arity)


@entry
def collect_texts(pool: Any, live: Any, meta: Any, places: Any, heap: Any, room: Any, notes: Any) -> None:
    """Puts the strings that rows have behind each other; `places` are those of their words in a row."""
    used = np.int64(0)
    for slot in range(meta[SIZE]):
        if live[slot]:
            for place in places:
                word = pool[slot, place]
                if word != NULL:
                    at, length = word >> LENGTH_BITS, text_length(word)
                    for i in range(length):
                        room[used + i] = heap[at + i]
                    pool[slot, place] = (used << LENGTH_BITS) | length
                    used += length
    for i in range(used):
        heap[i] = room[i]
    notes[USED], notes[FREED] = used, 0
