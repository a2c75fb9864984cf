"""The handle of views over matrix programs, and the form in which it tells changes: thin factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from viewlet.changes import to_python
from viewlet.view import Subscription, View


@dataclass(frozen=True, slots=True)
class MatrixChange:
    """A matrix, or its change: `left @ right.T` is added to it, unless `whole` is the new one.

    `rows` and `columns` are the keys of its places. Keys that are new have zeros before the change.
    """

    rows: list[Any]
    columns: list[Any]
    left: Any = None
    right: Any = None
    whole: Any = None

    @property
    def rank(self) -> int | None:
        """The number of outer products; None of a whole matrix."""
        return None if self.left is None else int(self.left.shape[1])

    def apply_to(self, matrix: Any) -> Any:
        """The matrix after the change; the one before it may have fewer rows and columns."""
        if self.whole is not None:
            return self.whole
        total = self.left @ self.right.T
        rows, columns = matrix.shape
        total[:rows, :columns] += matrix
        return total


@dataclass(frozen=True, slots=True, repr=False)
class MatrixView(View):
    """A handle to an output of a matrix program: rows of its entries, the matrix itself, and changes in factors."""

    def matrix(self) -> MatrixChange:
        """The matrix as an array, `matrix().whole`, with the keys of its rows and columns."""
        return self._named(self._provider.read(self.name, MatrixView, lambda engine: engine.matrix()))

    def subscribe_factors(self, callback: Callable[[int, MatrixChange], object]) -> Subscription:
        """Calls `callback(epoch, change)` after every batch that changes the matrix, with the factors of its change.

        Thin factors take far less room than the entries that change. Where the matrix was evaluated again, or has lost
        keys, the change is the whole matrix.
        """
        return Subscription(
            self._provider.follow(self.name, MatrixView, lambda epoch, change: callback(epoch, self._named(change)))
        )

    def _named(self, change: MatrixChange) -> MatrixChange:
        """The keys as users know them."""
        first, second = (to_python(column.type) for column in self.schema[:2])
        return replace(
            change, rows=[first(key) for key in change.rows], columns=[second(key) for key in change.columns]
        )
