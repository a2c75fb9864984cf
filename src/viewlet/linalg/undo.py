"""What brings matrices back after an update that failed, and what writes exact numbers after one that did not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewlet.linalg.backends.cholesky_inverse import CholeskyInverse
from viewlet.linalg.backends.contract import Backend
from viewlet.linalg.execute import Put
from viewlet.linalg.expression import Matrix
from viewlet.linalg.values import Array, Factors, Units


class Undo:
    """The inputs before some changes, and the arrays of all views.

    A view that was evaluated has another array than before, and so has a Cholesky factor after every rotation; what is
    added to other views in place is not undone.
    """

    def __init__(self, backend: Backend, stored: Mapping[Matrix, Array], changes: Mapping[Matrix, Factors]) -> None:
        self._inputs = [(stored[each], _before(backend, stored[each], *change)) for each, change in changes.items()]
        self._arrays = dict(stored)
        self._factors = [(each, each.upper) for each in stored.values() if isinstance(each, CholeskyInverse)]

    def inputs(self) -> None:
        """Brings the inputs back."""
        for array, restore in self._inputs:
            restore(array)

    def views(self, stored: dict[Matrix, Array]) -> None:
        """Brings the arrays and the Cholesky factors back."""
        stored.update(self._arrays)
        for each, upper in self._factors:
            each.upper = upper


def _before(backend: Backend, array: Array, left: Any, right: Any) -> Any:
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
