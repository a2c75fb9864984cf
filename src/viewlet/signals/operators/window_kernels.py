"""Compiled loops of windows: cutting samples into overlapping windows, adding windows up, sums that slide."""

from __future__ import annotations

from typing import Any

from viewlet.runtime.jit import entry
from viewlet.signals.state import NEVER

Array = Any


@entry
def lay_out(
    size: int,
    hop: int,
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
    """Lays the samples of the groups `begin` to `end` in a line, each group behind its last size - 1 samples.

    A missing sample is a zero in the line if `fills`; otherwise, and after `size` of them, windows begin anew. Returns
    how many windows end in the batch; `starts` has where they begin in the line.
    """
    width = x.shape[1]
    at, windows = 0, 0
    for run in range(begin, end):
        slot = slots[run]
        kept = min(count[slot], size - 1)
        for i in range(kept):
            for c in range(width):
                line[at + i, c] = held[slot, i, c]
        at += kept
        for row in range(first[run], first[run + 1]):
            gap = index[row] - last[slot] - 1
            if last[slot] == NEVER or (gap > 0 and (not fills or gap > size)):
                count[slot] = 0
                gap = 0
            for step in range(gap + 1):
                for c in range(width):
                    if step == gap:
                        line[at, c] = x[row, c]
                    else:
                        line[at, c] = 0.0
                at += 1
                count[slot] += 1
                past = count[slot] - size
                if past >= 0 and past % hop == 0:
                    starts[windows] = at - size
                    window_slot[windows] = slot
                    window_index[windows] = index[row] - gap + step
                    windows += 1
            last[slot] = index[row]
        kept = min(count[slot], size - 1)
        for i in range(kept):
            for c in range(width):
                held[slot, i, c] = line[at - kept + i, c]
    return windows


@entry
def add_up(
    weights: Array,
    is_dual: bool,
    slots: Array,
    index: Array,
    arrays: Array,
    total: Array,
    weight: Array,
    start: Array,
    slot_out: Array,
    index_out: Array,
    value_out: Array,
) -> int:
    """Adds arrays that end at some indexes to those before; what no later one can reach is put out.

    total[slot, component, place] begins at index start[slot], NEVER if nothing is there.
    """
    size, width = arrays.shape[2], arrays.shape[1]
    out = 0
    for n in range(slots.shape[0]):
        slot, begin = slots[n], index[n] - size + 1
        if start[slot] != NEVER:
            moved = min(begin - start[slot], size)
            for i in range(moved):
                slot_out[out] = slot
                index_out[out] = start[slot] + i
                for c in range(width):
                    value_out[out, c] = total[slot, c, i]
                    if is_dual and weight[slot, i] > 1e-10:
                        value_out[out, c] /= weight[slot, i]
                out += 1
            for i in range(size):
                for c in range(width):
                    total[slot, c, i] = total[slot, c, i + moved] if i + moved < size else 0.0
                weight[slot, i] = weight[slot, i + moved] if i + moved < size else 0.0
        start[slot] = begin
        for i in range(size):
            for c in range(width):
                if is_dual:
                    total[slot, c, i] += weights[i] * arrays[n, c, i]
                else:
                    total[slot, c, i] += arrays[n, c, i]
            if is_dual:
                weight[slot, i] += weights[i] * weights[i]
    return out


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

    The sum of a group slides along, and is computed anew from what it is of at every beat that is a multiple of `size`,
    wherever batches end. Operations: 0 sum, 1 mean, 2 count.
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
                place = at % size
                if present[slot, place]:
                    present[slot, place] = False
                    count[slot] -= 1
                    for c in range(width):
                        total[slot, c] -= held[slot, place, c]
                if at == index[row]:
                    present[slot, place] = True
                    count[slot] += 1
                    for c in range(width):
                        held[slot, place, c] = x[row, c]
                        total[slot, c] += x[row, c]
                if place == 0 or count[slot] == 0:
                    for c in range(width):
                        total[slot, c] = 0.0
                    for i in range(1, size + 1):
                        other = (at + i) % size
                        if present[slot, other]:
                            for c in range(width):
                                total[slot, c] += held[slot, other, c]
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
