"""Compiled loops over the samples of all groups of a batch.

Every kernel takes the rows of each group (`first`, `slots`: see `batches.runs`), the indexes and values of the samples,
and arrays of state with a row for each slot, which it changes. A sample is computed by the same operations in the same
order wherever batches end. `last` has the index of the last sample of each group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import compiled, entry
from viewlet.signals.state import NEVER

Array = Any
BLOCK = 512
"""Outputs of a convolution that are computed together, so that they stay in the cache."""


@compiled
def is_lost(row: Array) -> bool:
    """A value is no finite number any more: what is fed back would never be one again, and the filter restarts."""
    lost = False
    for c in range(row.shape[0]):
        lost |= not np.isfinite(row[c])
    return lost


@entry
def sos_filter(
    sections: Array,
    steady: Array,
    starts_steady: bool,
    longest_gap: int,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    memory: Array,
    last: Array,
    y: Array,
) -> None:
    """Second-order sections in transposed direct form II; memory[slot, section, delay, component]."""
    width = x.shape[1]
    zero = np.zeros(1, x.dtype)[0]
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            gap = index[row] - last[slot] - 1
            is_new = last[slot] == NEVER or gap > longest_gap
            if is_new:
                for c in range(width):
                    for s in range(sections.shape[0]):
                        for d in range(2):
                            memory[slot, s, d, c] = steady[s, d] * x[row, c] if starts_steady else zero
                gap = 0
            for c in range(width):
                for step in range(gap + 1):
                    value = x[row, c] if step == gap else zero
                    for s in range(sections.shape[0]):
                        given = value
                        value = sections[s, 0] * given + memory[slot, s, 0, c]
                        memory[slot, s, 0, c] = sections[s, 1] * given - sections[s, 4] * value + memory[slot, s, 1, c]
                        memory[slot, s, 1, c] = sections[s, 2] * given - sections[s, 5] * value
                    y[row, c] = value
            last[slot] = NEVER if is_lost(y[row]) else index[row]


@entry
def iir_filter(
    b: Array,
    a: Array,
    steady: Array,
    starts_steady: bool,
    silent: int,
    longest_gap: int,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    memory: Array,
    last: Array,
    seen: Array,
    y: Array,
    kept: Array,
) -> None:
    """A filter in transposed direct form II; memory[slot, delay, component].

    The first `silent` samples of a sequence give no output, and are fed back as zeros.
    """
    width, order = x.shape[1], b.shape[0] - 1
    zero = np.zeros(1, x.dtype)[0]
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            gap = index[row] - last[slot] - 1
            if last[slot] == NEVER or gap > longest_gap:
                for c in range(width):
                    for d in range(order):
                        memory[slot, d, c] = steady[d] * x[row, c] if starts_steady else zero
                seen[slot] = 0
                gap = 0
            for step in range(gap + 1):
                speaks = seen[slot] >= silent
                seen[slot] += 1
                for c in range(width):
                    given = x[row, c] if step == gap else zero
                    value = b[0] * given
                    if order > 0:
                        value += memory[slot, 0, c]
                    back = value if speaks else zero
                    for d in range(order - 1):
                        memory[slot, d, c] = memory[slot, d + 1, c] + b[d + 1] * given - a[d + 1] * back
                    if order > 0:
                        memory[slot, order - 1, c] = b[order] * given - a[order] * back
                    y[row, c] = value
                kept[row] = speaks
            last[slot] = NEVER if is_lost(y[row]) else index[row]


@compiled
def convolve_block(taps: Array, held: Array, sums: Array) -> None:
    """The sums of taps times samples; `held` has the samples before those of `sums` too.

    Four taps are added at a time, one after the other, to every sum: the loops over sums become vector instructions.
    """
    count, size = taps.shape[0], sums.shape[0]
    first = held[count - 1 :]
    for i in range(size):
        sums[i] = taps[0] * first[i]
    j = 1
    while j + 4 <= count:
        tap0, tap1, tap2, tap3 = taps[j], taps[j + 1], taps[j + 2], taps[j + 3]
        held0, held1 = held[count - 1 - j :], held[count - 2 - j :]
        held2, held3 = held[count - 3 - j :], held[count - 4 - j :]
        for i in range(size):
            sums[i] = (((sums[i] + tap0 * held0[i]) + tap1 * held1[i]) + tap2 * held2[i]) + tap3 * held3[i]
        j += 4
    while j < count:
        tap, rest = taps[j], held[count - 1 - j :]
        for i in range(size):
            sums[i] += tap * rest[i]
        j += 1


@entry
def fir_filter(
    taps: Array,
    silent: int,
    resets: bool,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    memory: Array,
    last: Array,
    seen: Array,
    y: Array,
    kept: Array,
) -> None:
    """A running convolution; memory[slot, delay, component] has the samples before, the oldest first.

    Sums go over the taps in their order, for many samples at once.
    """
    width, history = x.shape[1], taps.shape[0] - 1
    zero = np.zeros(1, x.dtype)[0]
    longest = 0
    for run in range(slots.shape[0]):
        longest = max(longest, first[run + 1] - first[run])
    held = np.zeros(history + longest, x.dtype)
    sums = np.zeros(BLOCK, x.dtype)
    for run in range(slots.shape[0]):
        slot = slots[run]
        row = first[run]
        while row < first[run + 1]:
            gap = index[row] - last[slot] - 1
            if last[slot] == NEVER or (gap > 0 and resets):
                memory[slot] = zero
                seen[slot] = 0
            elif gap > 0:
                moved = min(gap, history)
                for d in range(history):
                    for c in range(width):
                        memory[slot, d, c] = memory[slot, d + moved, c] if d + moved < history else zero
                seen[slot] += gap
            stop = row + 1
            while stop < first[run + 1] and index[stop] == index[stop - 1] + 1:
                stop += 1
            count = stop - row
            for c in range(width):
                for d in range(history):
                    held[d] = memory[slot, d, c]
                for i in range(count):
                    held[history + i] = x[row + i, c]
                for begin in range(0, count, BLOCK):
                    size = min(BLOCK, count - begin)
                    convolve_block(taps, held[begin : begin + history + size], sums[:size])
                    for i in range(size):
                        y[row + begin + i, c] = sums[i]
                for d in range(history):
                    memory[slot, d, c] = held[count + d]
            for i in range(count):
                kept[row + i] = seen[slot] + i >= silent
            seen[slot] += count
            last[slot] = index[stop - 1]
            row = stop


@entry
def exponential_mean(
    alpha: float,
    adjust: bool,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    mean: Array,
    weight: Array,
    last: Array,
    y: Array,
) -> None:
    """The recurrence of pandas: a missing sample makes those before it older."""
    width, factor = x.shape[1], 1.0 - alpha
    gain = 1.0 if adjust else alpha
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            if last[slot] == NEVER:
                for c in range(width):
                    mean[slot, c] = x[row, c]
                weight[slot] = 1.0
            else:
                old = weight[slot] * factor ** (index[row] - last[slot])
                for c in range(width):
                    mean[slot, c] = (old * mean[slot, c] + gain * x[row, c]) / (old + gain)
                weight[slot] = old + gain if adjust else 1.0
            for c in range(width):
                y[row, c] = mean[slot, c]
            last[slot] = NEVER if is_lost(mean[slot]) else index[row]


@entry
def running_integral(
    step: float,
    trapezoid: bool,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    total: Array,
    before: Array,
    last: Array,
    y: Array,
) -> None:
    """A running sum; trapezia are between neighbours only."""
    width = x.shape[1]
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            follows = index[row] == last[slot] + 1
            for c in range(width):
                if not trapezoid:
                    total[slot, c] += step * x[row, c]
                elif follows:
                    total[slot, c] += step * ((before[slot, c] + x[row, c]) / 2.0)
                before[slot, c] = x[row, c]
                y[row, c] = total[slot, c]
            last[slot] = index[row]


@entry
def lagged_difference(
    lag: int,
    step: float,
    first: Array,
    slots: Array,
    index: Array,
    x: Array,
    held: Array,
    held_index: Array,
    y: Array,
    kept: Array,
) -> None:
    """x[n] - x[n - lag], from a ring of the last `lag` samples."""
    for run in range(slots.shape[0]):
        slot = slots[run]
        for row in range(first[run], first[run + 1]):
            place = index[row] % lag
            kept[row] = held_index[slot, place] == index[row] - lag
            for c in range(x.shape[1]):
                y[row, c] = (x[row, c] - held[slot, place, c]) / step
                held[slot, place, c] = x[row, c]
            held_index[slot, place] = index[row]
