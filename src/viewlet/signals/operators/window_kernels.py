"""Compiled loops of windows: cutting samples into overlapping windows, adding windows up, sums that slide."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import compiled, entry
from viewlet.signals.state import NEVER

Array = Any


@compiled
def window_ends(
    size: int,
    hop: int,
    seen: int,
    more: int,
    at: int,
    index: int,
    slot: int,
    starts: Array,
    window_slot: Array,
    window_index: Array,
    windows: int,
) -> int:
    """The windows that end among `more` samples behind those that a group has `seen`; they lie at `at` in the line, and
    the first has an index. Returns how many windows there are so far."""
    end = size
    if seen >= size:
        end += ((seen - size) // hop + 1) * hop
    while end <= seen + more:
        starts[windows] = at + (end - seen) - size
        window_slot[windows] = slot
        window_index[windows] = index + (end - seen) - 1
        windows += 1
        end += hop
    return windows


@entry
def lay_out(
    size: int,
    hop: int,
    history: int,
    fills: bool,
    begin: int,
    end: int,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    held: Array,
    count: Array,
    last: Array,
    line: Array,
    starts: Array,
    window_slot: Array,
    window_index: Array,
) -> int:
    """Lays the samples of the groups `begin` to `end` in a line, each group behind its last `history` samples.

    A missing sample is a zero in the line if `fills`; otherwise, and after `size` of them, windows restart. Returns how
    many windows end in the batch; `starts` has where they begin in the line.
    """
    found = starts, window_slot, window_index
    at, windows = 0, 0
    for run in range(begin, end):
        slot = slots[run]
        kept = min(count[slot], history)
        line[at : at + kept] = held[slot, :kept]
        at += kept
        row = first[run]
        while row < first[run + 1]:
            gap = index[row] - last[slot] - 1
            if last[slot] == NEVER or (gap > 0 and (not fills or gap > size)):
                count[slot] = 0
            elif gap > 0:
                line[at : at + gap] = 0.0
                windows = window_ends(size, hop, count[slot], gap, at, index[row] - gap, slot, *found, windows)
                at += gap
                count[slot] += gap
            stop = row + 1
            while stop < first[run + 1] and index[stop] == index[stop - 1] + 1:
                stop += 1
            more = stop - row
            line[at : at + more] = x[row:stop]
            windows = window_ends(size, hop, count[slot], more, at, index[row], slot, *found, windows)
            at += more
            count[slot] += more
            last[slot] = index[stop - 1]
            row = stop
        kept = min(count[slot], history)
        held[slot, :kept] = line[at - kept : at]
    return windows


@entry
def slide_spectra(
    size: int,
    hop: int,
    turns: Array,
    line: Array,
    starts: Array,
    slots: Array,
    index: Array,
    is_fresh: Array,
    spectra: Array,
    spectrum: Array,
    last: Array,
) -> None:
    """The spectra of windows in a line, each from the one before; those that are fresh are there already.

    A sample that leaves and one that enters change every frequency, which then turns by one sample.
    """
    for n in range(slots.shape[0]):
        slot = slots[n]
        for c in range(line.shape[1]):
            if is_fresh[n]:
                spectrum[slot, c] = spectra[n, c]
                continue
            for at in range(starts[n] - hop, starts[n]):
                change = line[at + size, c] - line[at, c]
                for k in range(turns.shape[0]):
                    spectrum[slot, c, k] = (spectrum[slot, c, k] + change) * turns[k]
            spectra[n, c] = spectrum[slot, c]
        last[slot] = index[n]


@compiled
def put_out(
    slot: int,
    start: int,
    begin: int,
    end: int,
    is_dual: bool,
    weight: Array,
    slot_out: Array,
    index_out: Array,
    value_out: Array,
) -> None:
    """Completes the rows from `begin` to `end`, whose sums are in `value_out`; the first has index `start`."""
    for row in range(begin, end):
        slot_out[row] = slot
    for row in range(begin, end):
        index_out[row] = start + row - begin
    if is_dual:
        for row in range(begin, end):
            if weight[row] > 1e-10:
                value_out[row] /= weight[row]


@entry
def add_up(
    weights: Array,
    is_dual: bool,
    parts: int,
    slots: Array,
    index: Array,
    arrays: Array,
    total: Array,
    weight: Array,
    start: Array,
    base: int,
    slot_out: Array,
    index_out: Array,
    value_out: Array,
    weight_out: Array,
) -> int:
    """Adds arrays that end at some indexes to those before; what no later one can reach is put out.

    Numbers are real: `parts` of them, one or two, make a value. total[slot, component, place] has the sums of a group
    from index start[slot] on, NEVER if nothing is there. While arrays of one group follow, sums are in `value_out`,
    where they are put out from row `base` on; only the last ones go back to `total`. Returns the row behind them.
    """
    width, size = arrays.shape[1], arrays.shape[2] // parts
    n = 0
    while n < slots.shape[0]:
        slot, at, reach = slots[n], 0, 0
        origin = start[slot]
        if origin == NEVER:
            origin = index[n] - size + 1
        else:
            reach = size
            if width == 1:
                value_out[base : base + size].reshape(-1)[:] = total[slot, 0]
            else:
                turn(total[slot], value_out[base : base + size], parts, True)
            if is_dual:
                weight_out[base : base + size] = weight[slot]
        while n < slots.shape[0] and slots[n] == slot:
            at = index[n] - size + 1 - origin
            if at > reach:  # nothing overlaps behind a gap
                put_out(slot, origin, base, base + reach, is_dual, weight_out, slot_out, index_out, value_out)
                base, origin, at, reach = base + reach, origin + at, 0, 0
            add_array(arrays[n], weights, is_dual, parts, base + at, reach - at, value_out, weight_out)
            reach = at + size
            n += 1
        put_out(slot, origin, base, base + at, is_dual, weight_out, slot_out, index_out, value_out)
        base += at
        start[slot] = origin + at
        if width == 1:
            total[slot, 0] = value_out[base : base + size].reshape(-1)
        else:
            turn(total[slot], value_out[base : base + size], parts, False)
        if is_dual:
            weight[slot] = weight_out[base : base + size]
    return base


@compiled
def turn(sums: Array, rows: Array, parts: int, to_rows: bool) -> None:
    """Copies sums by component to rows, or back."""
    for i in range(rows.shape[0]):
        for c in range(sums.shape[0]):
            for part in range(parts):
                if to_rows:
                    rows[i, c * parts + part] = sums[c, i * parts + part]
                else:
                    sums[c, i * parts + part] = rows[i, c * parts + part]


@compiled
def add_array(
    array: Array, weights: Array, is_dual: bool, parts: int, row: int, held: int, value_out: Array, weight_out: Array
) -> None:
    """Adds an array to the sums from a row on, of which the first `held` are there."""
    width, size = array.shape[0], array.shape[1] // parts
    if width == 1 and not is_dual:
        sums, given = value_out[row : row + size].reshape(-1), array[0]
        for i in range(held * parts):
            sums[i] += given[i]
        for i in range(held * parts, size * parts):
            sums[i] = given[i]
        return
    for i in range(size):
        factor = weights[i] if is_dual else 1.0
        for c in range(width):
            for part in range(parts):
                before = value_out[row + i, c * parts + part] if i < held else 0.0
                value_out[row + i, c * parts + part] = before + factor * array[c, i * parts + part]
        if is_dual:
            weight_out[row + i] = (weight_out[row + i] if i < held else 0.0) + factor * factor


@compiled
def summand(value: Any) -> Any:
    """The value; NaN if it has overflowed, so that the sum says so until it has left the window."""
    return value if np.isfinite(value) else value * np.nan


@entry
def slide(
    operation: int,
    size: int,
    hop: int,
    least: int,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    held: Array,
    present: Array,
    total: Array,
    count: Array,
    last: Array,
    slot_out: Array,
    index_out: Array,
    value_out: Array,
) -> int:
    """Sums over the last `size` beats, at the beats that are multiples of `hop`.

    The sum of a group slides along. At every beat that is a multiple of `size` it is recomputed from its summands,
    wherever batches end, as it is while it overflows. Operations: 0 sum, 1 mean, 2 count.
    """
    width = x.shape[1]
    out = 0
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            at = index[row] if last[slot] == NEVER else last[slot] + 1
            while at <= index[row]:
                if count[slot] == 0 and at < index[row]:
                    at = index[row]
                place, overflows = at % size, False
                if present[slot, place]:
                    present[slot, place] = False
                    count[slot] -= 1
                    for c in range(width):
                        total[slot, c] -= held[slot, place, c]
                        overflows |= not np.isfinite(held[slot, place, c])
                if at == index[row]:
                    present[slot, place] = True
                    count[slot] += 1
                    for c in range(width):
                        held[slot, place, c] = x[row, c]
                        total[slot, c] += summand(x[row, c])
                for c in range(width):
                    overflows |= np.isinf(total[slot, c])
                if place == 0 or count[slot] == 0 or overflows:
                    for c in range(width):
                        total[slot, c] = 0.0
                    for i in range(1, size + 1):
                        other = (at + i) % size
                        if present[slot, other]:
                            for c in range(width):
                                total[slot, c] += summand(held[slot, other, c])
                if at % hop == 0 and count[slot] >= least:
                    slot_out[out] = slot
                    index_out[out] = at
                    for c in range(width):
                        if operation == 0:
                            value_out[out, c] = total[slot, c]
                        elif operation == 1:
                            value_out[out, c] = total[slot, c] / count[slot]
                        else:
                            value_out[out, c] = count[slot]
                    out += 1
                at += 1
            last[slot] = index[row]
    return out
