"""What a machine does in a second, measured once: the rates that plans are compared by."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class Machine:
    """Multiplications with an addition and bytes of memory in a second, and the seconds that any step takes.

    `pass_operations` is the rate of passes over a matrix and `thin_operations` that of products with `THIN` columns,
    where these are others than that of products. `round_trip` is what an operation on stored matrices takes besides,
    where they are not in this process.
    """

    operations: float
    bandwidth: float
    step: float
    itemsize: int
    round_trip: float = 0.0
    pass_operations: float | None = None
    thin_operations: float | None = None
    densities: Mapping[str, float] = field(default_factory=dict)
    """The share of entries that sparse inputs have, by name."""


THIN = 4
"""The columns of a thin product, which runs at a lower rate."""
PRODUCT_SIZE, PASS_SIZE, PASS_FACTORS = 384, 768, 16
"""Of the matrices that are measured."""
NOMINAL = Machine(operations=2.5e10, bandwidth=1.5e10, step=2e-5, itemsize=8)
"""A plain machine, for plans that are made before any matrix is known."""


Sweep: TypeAlias = "Callable[[Any, tuple[Any, Any], Any, Any], object]"
"""A pass of a back end: a matrix, the factors of its update, and those of its products."""

_MEASURED: dict[tuple[str, str], Machine] = {}
"""What is known of this machine, by back end and type."""


def this_processor(name: str, dtype: Any, sweep: Sweep) -> Machine:
    """The processors of this machine with a back end: a product of matrices, and passes with one and with more factors.

    The matrix of the passes is larger than the caches of one core.
    """
    key = name, str(dtype)
    if key not in _MEASURED:
        left = np.full((PRODUCT_SIZE, PRODUCT_SIZE), 0.5, dtype)
        matrix = np.zeros((PASS_SIZE, PASS_SIZE), dtype)
        thin, wide = np.zeros((PASS_SIZE, 1), dtype), np.zeros((PASS_SIZE, PASS_FACTORS), dtype)
        product = fastest(lambda: left @ left)
        traffic = fastest(lambda: sweep(matrix, (thin, thin), thin, thin))
        work = fastest(lambda: sweep(matrix, (wide, wide), wide, wide))
        few = np.zeros((PASS_SIZE, THIN), dtype)
        narrow = fastest(lambda: matrix @ few)
        _MEASURED[key] = Machine(
            PRODUCT_SIZE**3 / product,
            2 * matrix.nbytes / traffic,
            NOMINAL.step,
            matrix.itemsize,
            pass_operations=3 * PASS_FACTORS * matrix.size / work,
            thin_operations=THIN * matrix.size / narrow,
        )
    return _MEASURED[key]


def physical_memory() -> float:
    """The bytes of memory that this machine has, infinity where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return math.inf


def can_compile() -> bool:
    """Whether kernels can be compiled here: Numba is not turned off."""
    from viewlet.runtime.jit import ENABLED

    return ENABLED


def fastest(work: Callable[[], object], times: int = 5) -> float:
    """The seconds of the fastest of some runs after a first one; what other programs take from a thread is left out."""
    found = []
    work()
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        work()
        found.append(min(time.perf_counter() - start, time.process_time() - used))
    return max(min(found), 1e-7)
