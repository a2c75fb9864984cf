"""Compiled loops from times to beats, and between grids. Neighbours are one step apart most of the time: then the place
of a beat follows from the one before, without a division."""

from __future__ import annotations

from typing import Any

from viewlet.runtime.jit import entry

Array = Any


@entry
def beats_of(times: Array, period: int, offset: int, index: Array, on: Array) -> bool:
    """The last beat offset + k * period before or at each time, and whether it is at it; returns whether all are."""
    is_all, beat, at = True, 0, offset
    for row in range(times.shape[0]):
        time = times[row]
        if time == at + period:
            beat, at = beat + 1, time
        else:
            beat = (time - offset) // period
            at = offset + beat * period
        index[row], on[row] = beat, time == at
        is_all &= time == at
    return is_all


@entry
def map_beats(index: Array, p: int, o: int, q: int, found: Array, part: Array) -> None:
    """(o + k * p) / q for each beat k: the whole part, and the rest."""
    step, more = p // q, p % q
    beat, whole, rest = 0, o // q, o % q
    for row in range(index.shape[0]):
        if index[row] == beat + 1:
            whole, rest = whole + step, rest + more
            if rest >= q:
                whole, rest = whole + 1, rest - q
        elif index[row] != beat:
            # In two parts, so that no product passes 64 bits.
            high, low = index[row] // q, index[row] % q
            whole = high * p + (low * p + o) // q
            rest = (low * p + o) % q
        beat = index[row]
        found[row] = whole
        part[row] = rest / q if rest else 0.0
