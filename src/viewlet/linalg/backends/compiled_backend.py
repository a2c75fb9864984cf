"""The back end for processors: NumPy with BLAS, and a compiled kernel that makes one pass over a matrix."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from viewlet.errors import MissingExtraError
from viewlet.linalg.backends.contract import Thin
from viewlet.linalg.backends.numpy_backend import Floats, NumpyBackend
from viewlet.linalg.values import Units
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.rank_update import NOTHING, TILE_ROWS, sweep_rows

WIDEST = 64
"""The number of factors up to which one pass beats separate products by BLAS."""
SMALLEST = 1 << 16
"""The entries of a matrix from which on a pass is divided among threads."""


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_thread_count(), thread_name_prefix="viewlet-linalg")


def _thread_count() -> int:
    return min(16, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class CompiledBackend(NumpyBackend):
    """Arrays of NumPy; passes over large matrices are compiled and run in threads, by default on all processors."""

    name = "compiled"

    def __init__(self, dtype: Any, threads: int | None = None) -> None:
        if not ENABLED:
            raise MissingExtraError("backend='compiled' needs Numba, which VIEWLET_JIT=0 turns off")
        super().__init__(dtype)
        self._thread_count = threads or _thread_count()

    def sweep(
        self, matrix: Any, update: tuple[Thin, Thin] | None, forward: Thin | None, backward: Thin | None
    ) -> tuple[Floats | None, Floats | None]:
        """P X and P' Y with the old P, then P += U V', in one pass where no part of it is sparse or wide."""
        if not isinstance(matrix, np.ndarray):
            return super().sweep(matrix, update, forward, backward)
        ahead = behind = None
        if isinstance(forward, Units):
            ahead, forward = self.multiply(matrix, forward), None
        if isinstance(backward, Units):
            behind, backward = self.multiply(matrix.T, backward), None
        later = update if update is not None and any(isinstance(part, Units) for part in update) else None
        now = None if later is not None or update is None else (self.dense(update[0]), self.dense(update[1]))
        if forward is not None or backward is not None or now is not None:
            first, second = self._pass(matrix, now, forward, backward)
            ahead, behind = ahead if ahead is not None else first, behind if behind is not None else second
        if later is not None:
            super().sweep(matrix, later, None, None)
        return ahead, behind

    def _pass(
        self, matrix: Floats, update: tuple[Floats, Floats] | None, forward: Floats | None, backward: Floats | None
    ) -> tuple[Floats | None, Floats | None]:
        factors = [part for part in (forward, backward, update[0] if update else None) if part is not None]
        flat = matrix.strides == (matrix.shape[1] * matrix.itemsize, matrix.itemsize)
        if not flat or max(part.shape[1] for part in factors) > WIDEST:
            return super().sweep(matrix, update, forward, backward)
        return _sweep(matrix, update, forward, backward, self._thread_count)


def _sweep(
    matrix: Floats,
    update: tuple[Floats, Floats] | None,
    forward: Floats | None,
    backward: Floats | None,
    thread_count: int,
) -> tuple[Floats | None, Floats | None]:
    rows, columns = matrix.shape
    nothing = NOTHING[matrix.dtype]
    xt, a = (_flat(forward.T), forward.shape[1]) if forward is not None else (nothing, 0)
    y, b = (_flat(backward), backward.shape[1]) if backward is not None else (nothing, 0)
    u, vt, r = (_flat(update[0]), _flat(update[1].T), update[0].shape[1]) if update else (nothing, nothing, 0)
    out = np.zeros(rows * a, matrix.dtype)
    threads = thread_count if matrix.size >= SMALLEST else 1
    share = max(1, -(-rows // threads // TILE_ROWS)) * TILE_ROWS
    begins = range(0, rows, share)
    parts = np.zeros((len(begins), columns * b), matrix.dtype)
    flat = matrix.reshape(-1)

    def work(place: int) -> None:
        begin = begins[place]
        end = min(rows, begin + share)
        sweep_rows(flat, columns, begin, end, columns, xt, out, a, y, parts[place], b, u, vt, r)

    if len(begins) == 1:
        work(0)
    else:
        list(_threads().map(work, range(len(begins))))
    behind = parts.sum(axis=0).reshape(b, columns).T if backward is not None else None
    return (out.reshape(rows, a) if forward is not None else None), behind


def _flat(factor: Floats) -> Floats:
    return np.ascontiguousarray(factor).reshape(-1)
