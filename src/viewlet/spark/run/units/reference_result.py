"""The rows of a query over views as dictionaries (see `node.NodeResult`)."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.changes import Changes
from viewlet.errors import InternalError
from viewlet.spark.plan.result_location import views_of
from viewlet.triggers.program import Program
from viewlet.triggers.result import ResultRows, evaluate_result
from viewlet.triggers.store import MapStore, UndoLog


class ReferenceResult:
    """The rows of a query over views that are all in one place."""

    def __init__(self, program: Program, views: Mapping[str, MapStore], log: UndoLog) -> None:
        self._program, self._views, self._log = program, views, log
        self._watched: ResultRows | None = None

    def result(self) -> Changes:
        return evaluate_result(self._program, self._views)

    def watch(self) -> None:
        if self._watched is None:
            rows = ResultRows(self._program, self._views, self._log, follows=True)
            rows.refresh_all()
            self._watched = rows

    def result_change(self) -> Changes:
        if self._watched is None:
            raise InternalError("nobody watches the result")
        return self._watched.refresh()

    def catch_up(self) -> None:
        """A batch begins."""
        if self._watched is not None:
            self._watched.refresh()


class ComparedResult:
    """The rows of a query over views that are here, and over views at the driver, which are `told` while they are read.

    A change of those may change all rows: they are compared with those before the batch.
    """

    def __init__(
        self,
        program: Program,
        views: Mapping[str, MapStore],
        told: Mapping[str, MapStore],
        told_before: Mapping[str, MapStore],
    ) -> None:
        self._program, self._views, self._told, self._told_before = program, views, told, told_before
        self._read = [name for name in views_of(program) if name in views]
        self._is_watched = False
        self._before: dict[str, MapStore] = {}
        """Views of this place as they were when the batch began."""
        self.has_run = True

    def result(self) -> Changes:
        return evaluate_result(self._program, {**self._views, **self._told})

    def watch(self) -> None:
        self._is_watched = True

    def result_change(self) -> Changes:
        if not self._is_watched:
            raise InternalError("nobody watches the result")
        then = {**self._views, **(self._before if self.has_run else {}), **self._told, **self._told_before}
        before, after = evaluate_result(self._program, then), self.result()
        return {row: n for row in before.keys() | after.keys() if (n := after.get(row, 0) - before.get(row, 0))}

    def catch_up(self) -> None:
        """A batch begins."""
        if self._is_watched:
            self._before = {name: self._views[name].copy() for name in self._read}
