"""What a machine does in a second, measured once: the rates that plans are compared by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Machine:
    """Multiplications with an addition and bytes of memory in a second, and the seconds that any step takes.

    `round_trip` is what an operation on stored matrices takes besides, where they are not in this process.
    """

    operations: float
    bandwidth: float
    step: float
    itemsize: int
    round_trip: float = 0.0


NOMINAL = Machine(operations=2.5e10, bandwidth=1.5e10, step=1.5e-5, itemsize=8)
"""A plain machine, for plans that are made before any matrix is known."""


@lru_cache(maxsize=8)
def this_processor(dtype: Any, size: int = 512) -> Machine:
    """The processors of this machine: a product of matrices, and an addition in place that no cache holds."""
    left = np.full((size, size), 0.5, dtype)
    large = np.zeros(1 << 22, dtype)
    product = fastest(lambda: left @ left)
    traffic = fastest(lambda: np.add(large, 1.0, out=large))
    return Machine(size**3 / product, 2 * large.nbytes / traffic, NOMINAL.step, large.itemsize)


def fastest(work: Callable[[], object], times: int = 3) -> float:
    """The seconds of the fastest of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return max(min(found), 1e-7)
