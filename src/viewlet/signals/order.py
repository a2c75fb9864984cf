"""Compiled loops over the order of rows: whether they are sorted, and where the rows of a slot are."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import entry

Array = Any


@entry
def is_ordered(slot: Array, position: Array) -> bool:
    """Rows are in order of slot, then of position."""
    for row in range(1, slot.shape[0]):
        if slot[row] < slot[row - 1] or (slot[row] == slot[row - 1] and position[row] < position[row - 1]):
            return False
    return True


@entry
def slot_changes(slot: Array) -> int:
    """How often a row has another slot than the one before."""
    changes = 0
    for row in range(1, slot.shape[0]):
        changes += slot[row] != slot[row - 1]
    return changes


@entry
def run_starts(slot: Array, first: Array) -> None:
    """The rows with another slot than the one before; the first row, and how many rows there are."""
    run = 1
    first[0] = 0
    for row in range(1, slot.shape[0]):
        if slot[row] != slot[row - 1]:
            first[run] = row
            run += 1
    first[run] = slot.shape[0]


@entry
def slot_places(slot: Array, groups: int) -> Array:
    """Where the rows of each slot begin when rows are in order of their slots, and where the last ones end."""
    place = np.zeros(groups + 1, np.int64)
    for row in range(slot.shape[0]):
        place[slot[row] + 1] += 1
    for group in range(groups):
        place[group + 1] += place[group]
    return place


@entry
def scatter(
    slot: Array, place: Array, position: Array, value: Array, slots: Array, positions: Array, values: Array
) -> None:
    """Writes rows in order of their slots, those of a slot as they came (counting sort).

    Output arrays are made by NumPy, which asks for large pages; that halves the time of writing all over them.
    """
    width = value.shape[1]
    for group in range(place.shape[0] - 1):
        for at in range(place[group], place[group + 1]):
            slots[at] = group
    for row in range(slot.shape[0]):
        at = place[slot[row]]
        place[slot[row]] = at + 1
        positions[at] = position[row]
        values[at, 0] = value[row, 0]
        for c in range(1, width):
            values[at, c] = value[row, c]


@entry
def comes_in_order(slot: Array, start: Array, end: Array, last: Array) -> bool:
    """Each row starts where the one before of its group has ended, or later; `last[slot]` is where that is."""
    has_end = end.shape[0] == slot.shape[0]
    for row in range(slot.shape[0]):
        if start[row] < last[slot[row]]:
            return False
        last[slot[row]] = end[row] if has_end else start[row] + 1
    return True


@entry
def key_range(keys: Array) -> tuple[int, int]:
    """The least and the largest of some whole numbers."""
    least = largest = keys[0]
    for key in keys:
        least, largest = min(least, key), max(largest, key)
    return least, largest


@entry
def key_places(keys: Array, least: int, places: Array, is_there: Array) -> None:
    """How far each key is above the least one, and which distances occur."""
    for row in range(keys.shape[0]):
        places[row] = keys[row] - least
        is_there[places[row]] = True


@entry
def first_clash(slot: Array, start: Array, end: Array) -> int:
    """The first of sorted rows that ends after the next one of its group starts, or -1; without `end` a row lasts one
    tick."""
    has_end = end.shape[0] == slot.shape[0]
    for row in range(slot.shape[0] - 1):
        if slot[row] == slot[row + 1]:
            stop = end[row] if has_end else start[row] + 1
            if start[row + 1] < stop:
                return row
    return -1


@entry
def rows_since(slot: Array, start: Array, slots: Array, bounds: Array, first: Array, stop: Array) -> None:
    """The rows of each slot that start at its bound or later, among rows sorted by slot and start."""
    rows = slot.shape[0]
    for n in range(slots.shape[0]):
        low, high = 0, rows
        while low < high:
            middle = (low + high) // 2
            if slot[middle] < slots[n] or (slot[middle] == slots[n] and start[middle] < bounds[n]):
                low = middle + 1
            else:
                high = middle
        first[n] = low
        high = rows
        while low < high:
            middle = (low + high) // 2
            if slot[middle] <= slots[n]:
                low = middle + 1
            else:
                high = middle
        stop[n] = low
