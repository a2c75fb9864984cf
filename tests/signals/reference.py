"""What operators of signals mean, by NumPy and SciPy over all samples of one group at once.

A signal is its samples by index, on the grid offset + k * period; a sample is an array of components. What is no finite
number is missing. Nothing here is taken from the operators of Viewlet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.signal as ss

Array = Any
Values = dict[int, Array]
Policy = tuple[str, int]
"""An interpolation, and how far its references may be apart."""
FILL = 0.25


@dataclass(frozen=True)
class Track:
    """The samples of a group."""

    period: int
    offset: int
    values: Values
    policy: Policy | None = None

    def time(self, index: int) -> int:
        return self.offset + index * self.period

    @property
    def points(self) -> list[tuple[int, Array]]:
        """The samples by their times."""
        return [(self.time(k), v) for k, v in self.values.items()]

    def then(self, values: Values) -> Track:
        """Other samples on the same grid, those that are finite."""
        return replace(self, values={k: np.asarray(v) for k, v in sorted(values.items()) if np.isfinite(v).all()})


def sampled(points: list[tuple[int, Array]], period: int, offset: int, policy: Policy | None) -> Track:
    """Points in time as samples: those at beats, and between two of them by an interpolation."""
    offset %= period
    found: Values = {}
    for number, (time, value) in enumerate(points):
        if number and policy:
            before, start = points[number - 1]
            for k in range((before - offset) // period + 1, -((offset - time) // period)):
                made = between(points[: number + 1], offset + k * period, policy)
                if made is not None and before < offset + k * period < time:
                    found[k] = made + 0 * start
        if (time - offset) % period == 0:
            found[(time - offset) // period] = value
    return Track(period, offset, {}, policy).then(found)


def between(points: list[tuple[int, Array]], time: int, policy: Policy) -> Array | None:
    """The value at a time between the last two points."""
    kind, gap = policy
    (before, start), (after, end) = points[-2:]
    if kind == "last":
        return start if time - before <= gap else None
    if kind == "quadratic":
        if len(points) < 3 or after - points[-3][0] > gap:
            return None
        x, y = zip(*points[-3:], strict=True)
        terms = [y[i] * np.prod([(time - x[j]) / (x[i] - x[j]) for j in range(3) if j != i]) for i in range(3)]
        return terms[0] + terms[1] + terms[2]
    if after - before > gap:
        return None
    constant = FILL * np.ones_like(start)
    share = (time - before) / (after - before)
    return {"zero": start, "constant": constant, "linear": start + (end - start) * share}[kind]


def resampled(track: Track, period: int, offset: int, policy: Policy | None) -> Track:
    return sampled(track.points, period, offset, policy)


# -- one sample after the other ---------------------------------------------------------------------------------------


def each(function: Callable[[Array], Array]) -> Callable[[Track], Track]:
    """A function of rows of values."""

    def run(track: Track) -> Track:
        with np.errstate(all="ignore"):
            return track.then({k: function(v) for k, v in track.values.items()})

    return run


def dense(track: Track) -> tuple[int, Array]:
    """The first index, and all samples from there on, NaN where one is missing."""
    keys = list(track.values)
    first = next(iter(track.values.values()))
    nothing = complex(np.nan, np.nan) if np.iscomplexobj(first) else np.nan
    found = np.full((keys[-1] - keys[0] + 1, len(first)), nothing, first.dtype)
    for k, v in track.values.items():
        found[k - keys[0]] = v
    return keys[0], found


def whole(function: Callable[[Array], Array]) -> Callable[[Track], Track]:
    """A function of all samples with zeros for missing ones, taken where there is one."""

    def run(track: Track) -> Track:
        if not track.values:
            return track
        first, x = dense(track)
        y = function(np.where(np.isnan(x), 0, x))
        return track.then({k: y[k - first] for k in track.values})

    return run


def stretches(track: Track, gap: int = 0) -> Iterator[tuple[int, Array]]:
    """The samples between gaps of more than `gap` missing ones, with zeros for those in smaller gaps."""
    keys = np.array(list(track.values))
    for part in np.split(keys, np.flatnonzero(np.diff(keys) > gap + 1) + 1):
        if len(part):
            first, x = dense(Track(1, 0, {int(k): track.values[int(k)] for k in part}))
            yield first, np.where(np.isnan(x), 0, x)


def by_stretch(function: Callable[[Array], Array]) -> Callable[[Track], Track]:
    """A function of every stretch without a gap."""

    def run(track: Track) -> Track:
        return track.then({first + i: y for first, x in stretches(track) for i, y in enumerate(function(x))})

    return run


def lfilter(b: Array, a: Array) -> Callable[[Array], Array]:
    return lambda x: ss.lfilter(b, a, x, axis=0)


def sosfilt(sos: Array) -> Callable[[Array], Array]:
    return lambda x: ss.sosfilt(sos, x, axis=0)


def smooth(x: Array) -> Array:
    """`user_functions.Smooth`, which has its first output at the second sample."""
    y = np.zeros_like(x)
    for i in range(1, len(x)):
        y[i] = 0.5 * x[i] + 0.25 * x[i - 1] + 0.2 * y[i - 1]
    return y


def smoothed(track: Track) -> Track:
    found = whole(smooth)(track)
    return found.then({k: v for k, v in found.values.items() if k > min(track.values)})


def ewm(alpha: float, adjust: bool) -> Callable[[Track], Track]:
    def run(track: Track) -> Track:
        if not track.values:
            return track
        first, x = dense(track)
        parts = [
            pd.DataFrame(part).ewm(alpha=alpha, adjust=adjust).mean().to_numpy()
            for part in ((x.real, x.imag) if np.iscomplexobj(x) else (x,))
        ]
        y = parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]
        return track.then({k: y[k - first] for k in track.values})

    return run


def difference(lag: int, step: float) -> Callable[[Track], Track]:
    def run(track: Track) -> Track:
        values = track.values
        return track.then({k: (v - values[k - lag]) / step for k, v in values.items() if k - lag in values})

    return run


def integral(trapezoid: bool) -> Callable[[Track], Track]:
    def run(track: Track) -> Track:
        found, total, before = Values(), 0.0, None
        for k, v in track.values.items():
            if not trapezoid:
                total = total + track.period * v
            elif before is not None and before[0] == k - 1:
                total = total + track.period * (before[1] + v) / 2
            found[k], before = total + 0 * v, (k, v)
        return track.then(found)

    return run


def rolling(operation: str, size: int, hop: int, least: int) -> Callable[[Track], Track]:
    def run(track: Track) -> Track:
        found, values = Values(), track.values
        for k in range(min(values), max(values) + 1) if values else ():
            rows = [values[i] for i in range(k - size + 1, k + 1) if i in values] if k % hop == 0 else []
            if len(rows) >= least:
                x = np.array(rows)
                squares = x.real**2 + x.imag**2
                found[k] = {
                    "sum": x.sum(axis=0),
                    "mean": x.mean(axis=0),
                    "energy": squares.sum(axis=0),
                    "power": squares.mean(axis=0),
                    "count": np.full(x.shape[1], float(len(x))),
                }[operation]
        return track.then(found)

    return run


def downsampled(factor: int) -> Callable[[Track], Track]:
    def run(track: Track) -> Track:
        values = {k // factor: v for k, v in track.values.items() if k % factor == 0}
        return replace(track, period=track.period * factor, values=values)

    return run


def shifted(ticks: int) -> Callable[[Track], Track]:
    def run(track: Track) -> Track:
        offset = (track.offset + ticks) % track.period
        values = {(track.time(k) + ticks - offset) // track.period: v for k, v in track.values.items()}
        return replace(track, offset=offset, values=values)

    return run


# -- windows ----------------------------------------------------------------------------------------------------------


def windows(track: Track, size: int, hop: int, weights: Array, fills: bool) -> dict[int, Array]:
    """Windows by the index of their last sample, components first."""
    found: dict[int, Array] = {}
    for first, x in stretches(track, size if fills else 0):
        for begin in range(0, len(x) - size + 1, hop):
            found[first + begin + size - 1] = x[begin : begin + size].T * weights
    return found


FINISHES: dict[str, Callable[[Array], Array]] = {
    "last": lambda x: x[..., -1],
    "sum": lambda x: x.sum(axis=-1),
    "mean": lambda x: x.mean(axis=-1),
    "energy": lambda x: (np.abs(x) ** 2).sum(axis=-1),
    "power": lambda x: (np.abs(x) ** 2).mean(axis=-1),
    "min": lambda x: x.min(axis=-1),
    "max": lambda x: x.max(axis=-1),
}


def overlap_added(arrays: dict[int, Array], weights: Array | None) -> Values:
    """Arrays end at their indexes, and what overlaps is added up, weighted once more by `weights` if given."""
    total, scale = Values(), dict[int, float]()
    for end, array in arrays.items():
        size = array.shape[-1]
        for i in range(size):
            k, weight = end - size + 1 + i, 1.0 if weights is None else weights[i]
            total[k] = total.get(k, 0) + array[:, i] * weight
            scale[k] = scale.get(k, 0.0) + weight * weight
    if weights is None:
        return total
    return {k: v / (scale[k] if scale[k] > 1e-10 else 1.0) for k, v in total.items()}


# -- two signals ------------------------------------------------------------------------------------------------------


def combined(left: Track, right: Track, function: Callable[[Array, Array], Array]) -> Track:
    """A function of the samples at equal times."""
    if left.period == right.period:
        right = shifted(left.offset - right.offset)(right)
    elif left.period < right.period:
        right = resampled(right, left.period, left.offset, right.policy)
    else:
        left = resampled(left, right.period, right.offset, left.policy)
    both = left.values.keys() & right.values.keys()
    return left.then({k: function(left.values[k], right.values[k]) for k in both})


def as_of(left: Track, points: list[tuple[int, Array]], gap: int) -> Track:
    """With each sample the last of some points in time at or before it, if it is at most `gap` old."""
    found, times = Values(), [time for time, _ in points]
    for k, v in left.values.items():
        place = bisect_right(times, left.time(k)) - 1
        if place >= 0 and left.time(k) - times[place] <= gap:
            found[k] = np.concatenate((v, points[place][1]))
    return left.then(found)
