"""Matrices whose dimensions grow and shrink: zeros that come, and rows of zeros that go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.linalg.backends.contract import Backend
from viewlet.linalg.expression import Identity, Inverse, Recurrence, postorder, shape
from viewlet.linalg.sizes import dim
from viewlet.linalg.values import Array


def keeps_zeros(dimension: str, body: Any) -> bool:
    """Whether zeros that are added to the end of a dimension stay there: not in an identity, an inverse or a power, nor
    in blocks, which may have others behind them."""
    return not any(
        (isinstance(node, Identity | Inverse | Recurrence) and dimension in shape(node)[0].names)
        or any(dimension in side.names and side != dim(dimension) for side in shape(node))
        for node in postorder([body])
    )


def resized(backend: Backend, array: Array, axis: int, count: int, without: Sequence[int] = ()) -> Array:
    """The matrix with so many rows or columns: the last ones are zeros, or some are left out.

    Arrays that are not in this process resize themselves.
    """
    if callable(getattr(array, "resized", None)):
        for place in sorted(without, reverse=True):
            array = array.resized(axis, array.shape[axis] - 1, place)
        return array if without else array.resized(axis, count, None)
    old = backend.numpy(array)
    if without:
        return backend.array(np.delete(old, list(without), axis=axis), copy=False)
    if axis == 0 and isinstance(old.base, np.ndarray) and old.base.shape[0] >= count and old.base.ndim == 2:
        room = old.base
        if room.shape[1] == old.shape[1] and room.ctypes.data == old.ctypes.data:
            room[len(old) : count] = 0.0
            return room[:count]
    if axis == 0:
        room = np.zeros((max(16, 2 * count), old.shape[1]), old.dtype)
        room[: len(old)] = old
        return backend.array(room[:count], copy=False)
    return backend.array(np.pad(old, ((0, 0), (0, count - old.shape[1]))), copy=False)
