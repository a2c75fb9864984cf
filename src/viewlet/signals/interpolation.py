"""Interpolations of the user's: the interface of section 7.4.2.

An object has the reference points of one group, at most `size` of them. `sample` adds points as events come, and asks
for the beats between the last two. Between batches the points are in the state of the view, so every batch makes a
new object, which must keep nothing else.
"""

from __future__ import annotations

from viewlet.signals.errors import SignalError

KINDS = ("constant", "last", "zero", "linear", "quadratic")
"""The interpolations that come with Viewlet, by name."""


class Interpolator:
    """The base class: the most recent points, of which those older than `window` ticks are forgotten."""

    size = 2
    """How many points `interpolate` needs."""

    def __init__(self, window: float) -> None:
        self.window = window
        self.times: list[float] = []
        self.values: list[float] = []

    def add_point(self, t: float, value: float) -> None:
        """A reference point, later than those before."""
        self.times = [*self.times, t][-self.size :]
        self.values = [*self.values, value][-self.size :]

    def advance_time(self, t: float) -> None:
        """Forgets the points that are too old at a time."""
        while self.times and t - self.times[0] > self.window:
            self.times, self.values = self.times[1:], self.values[1:]

    def can_interpolate(self, t: float) -> bool:
        """There are enough points, and the time is between the last two."""
        return len(self.times) == self.size and self.times[-2] < t < self.times[-1]

    def interpolate(self, t: float) -> float:
        """The value at a time."""
        raise SignalError(f"{type(self).__name__} has no method interpolate(t)")
