"""This machine's unit of work: million random upserts a second into an open-addressing table, by one thread.

Three million keys out of one million distinct ones go into 2^22 slots of two words (key, sum), placed by the upper half
of a multiplicative hash. That is what a view refresh costs at the least, so throughputs in this unit can be compared
between machines. Run it in the same minutes as what it scales.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numba
import numpy as np

VACANT = np.iinfo(np.int64).min
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
KEYS, DISTINCT, SLOTS = 3_000_000, 1_000_000, 1 << 22


@numba.njit
def count_keys(words: Any, sums: Any, keys: Any) -> None:
    last = np.uint64(words.shape[0] - 1)
    for n in range(keys.shape[0]):
        key = keys[n]
        slot = ((np.uint64(key) * MULTIPLIER) >> np.uint64(32)) & last
        found = words[slot, 0]
        while found != key:
            if found == VACANT:
                words[slot, 0] = key  # only then: a store per upsert would make the unit smaller and every ratio larger
                break
            slot = (slot + np.uint64(1)) & last
            found = words[slot, 0]
        sums[slot, 1] += 1.0


def million_upserts_per_second(rounds: int = 7, clock: Callable[[], float] = perf_counter) -> float:
    keys = np.random.default_rng(7).integers(0, DISTINCT, KEYS)
    words = np.zeros((SLOTS, 2), np.int64)
    words[:, 0] = VACANT
    sums = words.view(np.float64)
    count_keys(words, sums, keys[:1])
    seconds = []
    for _ in range(rounds):
        started = clock()
        count_keys(words, sums, keys)
        seconds.append(clock() - started)
    return KEYS / median(seconds) / 1e6


if __name__ == "__main__":
    print(json.dumps({"upserts": round(million_upserts_per_second(), 2)}))
