"""Grids: the beats at which a uniform signal has its samples.

    beat k of Grid(period, offset) is at offset + k * period        exactly: both are fractions of a tick

A tick is the unit of the time column: a microsecond of a TIMESTAMP, one of a BIGINT. A sample carries its index k, so
that nothing is ever added up along a signal; the time that users see is the tick that the beat falls into. Offsets are
normalised to [0, period): index 0 is the first beat at or after time 0.

>>> audio = Grid.of_rate(Fraction(44_100), ticks=1_000_000)
>>> audio.times(np.array([0, 1, 2, 441])).tolist()
[0, 22, 45, 10000]
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from viewlet.signals import grid_kernels
from viewlet.signals.errors import SignalError
from viewlet.visible import described

Array = Any
"""A NumPy array."""

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
FARTHEST = 2**62
"""Times and durations are shorter, in ticks: sums of two fit a word."""
_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]+)\s*")

Duration = str | int | timedelta | Fraction
"""`"100ms"`, a timedelta, or a number of ticks."""


def ticks_of(duration: Duration, ticks: int | None, what: str = "a duration") -> Fraction:
    """A duration in ticks, of which there are so many in a second; None if the time column says nothing of seconds.

    >>> ticks_of("1.5ms", 1_000_000)
    Fraction(1500, 1)
    """
    return bounded(_ticks_of(duration, ticks, what), what)


def bounded(ticks: Fraction, what: str) -> Fraction:
    """A duration that is shorter than `FARTHEST`."""
    if abs(ticks) >= FARTHEST:
        shown = float(ticks) if abs(ticks) < 10**300 else math.copysign(math.inf, ticks > 0 or -1)
        raise SignalError(f"{what}: {shown:g} ticks are more than the time column can count")
    return ticks


def _ticks_of(duration: Duration, ticks: int | None, what: str) -> Fraction:
    if isinstance(duration, bool) or not isinstance(duration, str | int | np.integer | timedelta | Fraction):
        given = described(duration)
        raise SignalError(f"{what} is text such as '100ms', a timedelta or a whole number of ticks, not {given}")
    if isinstance(duration, int | np.integer | Fraction):
        return Fraction(duration) if isinstance(duration, Fraction) else Fraction(int(duration))
    if ticks is None:
        raise SignalError(f"{what} is {duration!r}, but the time column counts no seconds: say unit='ms' of the signal")
    if isinstance(duration, timedelta):
        microseconds = duration // timedelta(microseconds=1)
        return Fraction(microseconds, 10**6) * ticks
    found = _DURATION.fullmatch(duration)
    if found is None or found[2] not in _UNITS:
        raise SignalError(f"{what}: {described(duration)} is not a number with one of the units {', '.join(_UNITS)}")
    return Fraction(found[1]) * _UNITS[found[2]] * ticks


def whole_ticks(duration: Duration, ticks: int | None, what: str) -> int:
    """A duration that has to be a whole number of ticks."""
    found = ticks_of(duration, ticks, what)
    if found.denominator != 1:
        raise SignalError(f"{what}: {described(duration)} is not a whole number of ticks of the time column")
    return int(found)


def ticks_in(unit: str) -> int:
    """How many ticks of a unit there are in a second."""
    if not isinstance(unit, str) or unit not in ("s", "ms", "us", "ns"):
        raise SignalError(f"unit is 's', 'ms', 'us' or 'ns', not {described(unit)}")
    return int(1 / _UNITS[unit])


@dataclass(frozen=True, slots=True)
class Grid:
    """The beats offset + k * period; `period` is at least a tick."""

    period: Fraction
    offset: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for given in (self.period, self.offset):
            if not isinstance(given, int | Fraction):
                raise SignalError(f"a grid has a period and an offset of ticks, not {described(given)}")
            bounded(Fraction(given), "a grid")
        if self.period < 1:
            raise SignalError(f"a period of {float(self.period):g} ticks is less than the time column can tell apart")
        object.__setattr__(self, "offset", self.offset % self.period)
        p, _, q = _common(self.period, self.offset)
        if p * q >= FARTHEST:
            raise SignalError(
                f"a period of {float(self.period):g} ticks has too many digits: give rate= as a Fraction of few digits"
            )

    @classmethod
    def of_rate(cls, rate: Fraction, ticks: int | None, offset: Fraction = Fraction(0)) -> Grid:
        """So many samples a second."""
        if ticks is None:
            raise SignalError("rate= needs a time column that counts seconds: say unit='ms' of the signal, or period=")
        return cls(Fraction(ticks) / rate, offset)

    @property
    def scaled(self) -> tuple[int, int, int]:
        """Numbers p, o, q such that beat k is at (o + k * p) / q."""
        return _common(self.period, self.offset)

    def times(self, index: Array) -> Array:
        """The ticks that beats fall into."""
        p, o, q = self.scaled
        if q == 1:
            return index * p + o
        return (index // q) * p + (o + (index % q) * p) // q

    def positions(self, times: Array) -> tuple[Array, Array]:
        """Where ticks lie among the beats: the last beat before or at each, and the part of a period since.

        A tick into which a beat falls lies at that beat.
        """
        p, o, q = self.scaled
        if q == 1:
            index = (times - o) // p
            return index, (times - o - index * p) / p
        whole, part = np.divmod(times, p)
        index, rest = np.divmod(part * q - o, p)
        index += whole * q
        on_next = (rest > 0) & (p - rest < q)
        return index + on_next, np.where(on_next, 0, rest) / p

    def beats(self, times: Array) -> tuple[Array, Array | None]:
        """The last beat before or at each tick, and whether it falls into the tick; None if they all do."""
        p, o, q = self.scaled
        if q == p == 1:
            return times - o, None
        if q == 1:
            index, on = np.empty(len(times), np.int64), np.empty(len(times), np.bool_)
            return index, None if grid_kernels.beats_of(times, p, o, index, on) else on
        index, part = self.positions(times)
        on = part == 0
        return index, None if on.all() else on

    def first_at(self, times: Array) -> Array:
        """The index of the first beat in or after each tick."""
        index, part = self.positions(times)
        return index + (part > 0)

    def map_from(self, other: Grid, index: Array) -> tuple[Array, Array]:
        """Where the beats of another grid lie among those of this one, as `positions` tells."""
        p, o, q = self.ratio(other)
        found, part = np.empty(len(index), np.int64), np.empty(len(index))
        grid_kernels.map_beats(index, p, o, q, found, part)
        return found, part

    def ratio(self, other: Grid) -> tuple[int, int, int]:
        """Numbers p, o, q such that beat k of another grid is at (o + k * p) / q periods of this one."""
        p, o, q = _ratio(self, other)
        if p * q + abs(o) >= FARTHEST:
            raise SignalError(f"beats {self} and {other} meet too rarely to be compared: choose a simpler period")
        return p, o, q

    def shifted(self, ticks: Fraction) -> tuple[Grid, int]:
        """The grid that is later by some ticks, and by how much the indexes of its beats are larger."""
        moved = self.offset + ticks
        return Grid(self.period, moved), int(moved // self.period)

    def __str__(self) -> str:
        shown = f"every {self.period}"
        return shown + (f" from {self.offset}" if self.offset else "")


@lru_cache
def _common(period: Fraction, start: Fraction) -> tuple[int, int, int]:
    """Both over one denominator."""
    q = lcm(period.denominator, start.denominator)
    return int(period * q), int(start * q), q


@lru_cache
def _ratio(grid: Grid, other: Grid) -> tuple[int, int, int]:
    return _common(other.period / grid.period, (other.offset - grid.offset) / grid.period)
