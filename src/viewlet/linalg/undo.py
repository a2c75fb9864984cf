"""What brings an input back after an update that failed, and what puts exact numbers into it after one that did not."""

from __future__ import annotations

from typing import Any

from viewlet.linalg.backends.contract import Backend
from viewlet.linalg.execute import Put
from viewlet.linalg.values import Array, Units


def before(backend: Backend, array: Array, left: Any, right: Any) -> Any:
    """What brings an input back: the rows or columns that an update touches, or a copy of the matrix."""
    if isinstance(left, Units) or isinstance(right, Units):
        every = slice(None)
        place = (backend.index(left), every) if isinstance(left, Units) else (every, backend.index(right))
        touched = backend.copy(array[place])

        def put_back(stored: Array) -> None:
            stored[place] = touched

        return put_back
    whole = backend.copy(array)

    def put_all(stored: Array) -> None:
        stored[...] = whole

    return put_all


def put(place: Any, values: Any) -> Put:
    """Writes given values to a place of a stored matrix."""

    def write(stored: Array) -> None:
        stored[place] = values

    return write


def keep(stored: Array) -> None:
    """Leaves an array as it is."""
