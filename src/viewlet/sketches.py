"""Sketches as aggregates: approximate answers from states of a fixed width that rows can be taken out of again.

    db.register_aggregate("approx_distinct", viewlet.sketches.ApproxDistinct)
    db.register_aggregate("p99", viewlet.sketches.ApproxQuantile(0.99))

Both count rows in cells, so that a delete is a subtraction: after any inserts and deletes the state is that of the rows
which are left.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from viewlet.errors import SchemaError
from viewlet.visible import described

__all__ = ["ApproxDistinct", "ApproxQuantile"]

_GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class ApproxDistinct:
    """The approximate number of distinct values, by linear counting (Whang, Vander-Zanden and Taylor, 1990).

    A value belongs to one of `cells` cells, by its hash, and each cell counts its rows. With m cells of which z are
    empty the estimate is m ln(m / z). For n distinct values its standard error, relative to n, is
    sqrt(m (e^t - t - 1)) / n with t = n / m: with 4096 cells 1.3 % at 4,000 values and 2.7 % at 16,000. Beyond about
    5 m values all cells are taken, and the answer stays m ln(m).
    """

    arguments = ("ANY",)
    returns = "BIGINT"

    def __init__(self, cells: int = 4096) -> None:
        if not isinstance(cells, int) or isinstance(cells, bool) or not 16 <= cells <= 1 << 24:
            raise SchemaError(f"ApproxDistinct(cells) takes a number from 16 to {1 << 24}, not {described(cells)}")
        self.cells = cells
        self.state = ("int32", cells)
        self.parameters = f"linear counting, {cells} cells"

    def zero(self) -> Any:
        """No rows in any cell."""
        return np.zeros(self.cells, np.int32)

    def add(self, state: Any, value: object) -> Any:
        """One row more in the cell of a value."""
        state[self._cell(value)] += 1
        return state

    def remove(self, state: Any, value: object) -> Any:
        """One row less in the cell of a value."""
        state[self._cell(value)] -= 1
        return state

    def update(self, state: Any, values: Any, counts: Any) -> Any:
        """Many rows at once; a negative count takes rows out."""
        if values.dtype == object:
            cells = np.fromiter(map(self._cell, values), np.int64, len(values))
        else:
            cells = (_mixed(_words(values)) % np.uint64(self.cells)).astype(np.int64)
        np.add.at(state, cells, counts.astype(np.int32))
        return state

    def result(self, state: Any) -> int:
        """The estimated number of distinct values."""
        empty = self.cells - int(np.count_nonzero(state))
        return round(self.cells * math.log(self.cells / max(empty, 1)))

    def _cell(self, value: object) -> int:
        """The cell of a value, the same in every process."""
        if isinstance(value, bool | int | float):
            return int(_mixed(_words(np.array([value])))[0]) % self.cells
        digest = hashlib.blake2b(str(value).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.cells


class ApproxQuantile:
    """An approximate quantile, by counts in buckets of geometric width (DDSketch: Masson, Rim and Lee, 2019).

    A bucket holds the values in (g^(i-1), g^i] with g = (1 + accuracy) / (1 - accuracy). The answer is within
    a relative `accuracy` of the value with this rank, for values whose size is between `smallest` and `largest`.
    Smaller ones count as 0; larger ones share the last bucket. The quantile of no rows is NULL.
    """

    arguments = ("DOUBLE",)
    returns = "DOUBLE"

    def __init__(
        self, quantile: float = 0.5, accuracy: float = 0.01, smallest: float = 1e-6, largest: float = 1e9
    ) -> None:
        if not 0 <= quantile <= 1 or not 0 < accuracy < 1 or not 0 < smallest < largest < math.inf:
            raise SchemaError(
                "ApproxQuantile(quantile, accuracy, smallest, largest) takes a quantile from 0 to 1, an accuracy "
                "between 0 and 1, and 0 < smallest < largest"
            )
        self.quantile, self.smallest, self.largest = quantile, smallest, largest
        self._step = math.log((1 + accuracy) / (1 - accuracy))
        self._first = math.ceil(math.log(smallest) / self._step)
        self._side = math.ceil(math.log(largest) / self._step) - self._first + 1
        self.state = ("int64", 2 * self._side + 1)
        self.parameters = f"log buckets, accuracy {accuracy!r}, {smallest!r} to {largest!r}"

    def zero(self) -> Any:
        """No rows in any bucket: those of negative values, then that of 0, then those of positive values."""
        return np.zeros(2 * self._side + 1, np.int64)

    def add(self, state: Any, value: float) -> Any:
        """One row more in the bucket of a value."""
        return self.update(state, np.array([value]), np.array([1]))

    def remove(self, state: Any, value: float) -> Any:
        """One row less in the bucket of a value."""
        return self.update(state, np.array([value]), np.array([-1]))

    def update(self, state: Any, values: Any, counts: Any) -> Any:
        """Many rows at once; a negative count takes rows out."""
        sizes = np.clip(np.abs(values), self.smallest, self.largest)
        steps = np.ceil(np.log(sizes) / self._step).astype(np.int64) - self._first
        signs = np.sign(values).astype(np.int64) * (np.abs(values) >= self.smallest)
        np.add.at(state, self._side + signs * (1 + np.clip(steps, 0, self._side - 1)), counts)
        return state

    def result(self, state: Any) -> float | None:
        """The value in the middle of the bucket in which the rank falls."""
        counts = np.cumsum(state)
        if counts[-1] <= 0:
            return None
        rank = math.floor(self.quantile * (int(counts[-1]) - 1))
        bucket = int(np.searchsorted(counts, rank, side="right")) - self._side
        return 0.0 if bucket == 0 else math.copysign(self._middle(abs(bucket) - 1 + self._first), bucket)

    def _middle(self, bucket: int) -> float:
        """The value whose relative distance to both ends of a bucket is the accuracy."""
        return 2 * math.exp(bucket * self._step) / (math.exp(self._step) + 1)


def _words(values: Any) -> Any:
    """Numbers as words: equal numbers of one type are equal words."""
    if values.dtype == np.float64:
        return (values + 0.0).view(np.uint64)
    return values.astype(np.int64).view(np.uint64)


def _mixed(words: Any) -> Any:
    """The finaliser of splitmix64: every bit of the outcome depends on every bit of the word."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(_GOLDEN)
        for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
            words = (words ^ (words >> np.uint64(shift))) * np.uint64(multiplier)
        return words ^ (words >> np.uint64(31))
