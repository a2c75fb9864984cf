"""Skewed choices: the k-th of n values with a probability that falls as 1 / k ** skew."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate
from random import Random


class Skewed:
    """Draws from range(count); skew 0 is uniform, 1 is Zipf's law."""

    def __init__(self, random: Random, count: int, skew: float) -> None:
        self._random = random
        self._sums = list(accumulate(1.0 / (k + 1) ** skew for k in range(count)))

    def __call__(self) -> int:
        return min(bisect(self._sums, self._random.random() * self._sums[-1]), len(self._sums) - 1)
