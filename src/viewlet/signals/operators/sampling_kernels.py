"""Compiled loops of interpolation: the beats between the points of each group.

Both kernels take the rows of each group (`first`, `slots`), where the points are among the beats (`index`, `part`), and
what is known of the two points before those of the batch (`known_...[slot]`, the later one first). `kind` is a place in
`interpolation.KINDS`.
"""

from __future__ import annotations

from typing import Any

from viewlet.runtime.jit import entry

Array = Any
CONSTANT, LAST, ZERO, QUADRATIC = 0, 1, 2, 4
"""Kinds by number; 3 is linear."""


@entry
def count_beats(
    kind: int,
    gap: float,
    first: Array,
    slots: Array,
    index: Array,
    part: Array,
    solid: Array,
    known: Array,
    known_index: Array,
    known_part: Array,
    beats: Array,
) -> float:
    """How many beats between the previous point and each point are interpolated; returns how many samples there are,
    with the points that are at beats, as a float: there may be very many. `gap` is in periods."""
    total = 0.0
    for run in range(slots.shape[0]):
        slot = slots[run]
        count = known[slot]
        before, before_part = known_index[slot, 0], known_part[slot, 0]
        older, older_part = known_index[slot, 1], known_part[slot, 1]
        for row in range(first[run], first[run + 1]):
            room = index[row] - before - (1 if part[row] == 0 else 0)
            if count == 0:
                room = 0
            elif not solid[row]:
                if kind == LAST:
                    room = min(room, int(gap + before_part))
                elif kind == QUADRATIC:
                    if count < 2 or (index[row] - older) + (part[row] - older_part) > gap:
                        room = 0
                elif (index[row] - before) + (part[row] - before_part) > gap:
                    room = 0
            beats[row] = max(room, 0)
            total += float(beats[row]) + (1.0 if part[row] == 0 else 0.0)
            older, older_part = before, before_part
            before, before_part = index[row], part[row]
            count = min(count + 1, 2)
    return total


@entry
def fill_beats(
    kind: int,
    fill: Array,
    first: Array,
    slots: Array,
    index: Array,
    part: Array,
    solid: Array,
    value: Array,
    known: Array,
    known_index: Array,
    known_part: Array,
    known_value: Array,
    beats: Array,
    slot_out: Array,
    index_out: Array,
    value_out: Array,
) -> None:
    """The samples that `count_beats` counted; the points become what is known. `fill` is the value of `constant`."""
    width, out = value.shape[1], 0
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            before, before_part = known_index[slot, 0], known_part[slot, 0]
            length = (index[row] - before) + (part[row] - before_part)
            back = (before - known_index[slot, 1]) + (before_part - known_part[slot, 1])
            stop = out + beats[row]
            for k in range(beats[row]):
                slot_out[out + k], index_out[out + k] = slot, before + 1 + k
            for c in range(width if beats[row] else 0):
                start, end = known_value[slot, 0, c], value[row, c]
                slope = (end - start) / length
                if solid[row] or kind in (LAST, ZERO):
                    for at in range(out, stop):
                        value_out[at, c] = start
                elif kind == CONSTANT:
                    for at in range(out, stop):
                        value_out[at, c] = fill[c]
                elif kind == QUADRATIC:
                    bend = (slope - (start - known_value[slot, 1, c]) / back) / (length + back)
                    for at in range(out, stop):
                        since = (at - out + 1) - before_part
                        value_out[at, c] = start + since * slope + since * (since - length) * bend
                else:
                    for at in range(out, stop):
                        value_out[at, c] = start + ((at - out + 1) - before_part) * slope
            out = stop
            if part[row] == 0:
                slot_out[out], index_out[out] = slot, index[row]
                for c in range(width):
                    value_out[out, c] = value[row, c]
                out += 1
            known[slot] = min(known[slot] + 1, 2)
            known_index[slot, 1], known_part[slot, 1] = before, before_part
            known_index[slot, 0], known_part[slot, 0] = index[row], part[row]
            for c in range(width):
                known_value[slot, 1, c] = known_value[slot, 0, c]
                known_value[slot, 0, c] = value[row, c]
