"""The rows of a view as they are read: ranked, and cut by LIMIT and OFFSET.

An engine may tell the change of its rows after every batch, or has to be asked for all of them. What was asked for is
kept until the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewlet.algebra.query import Query
from viewlet.changes import Changes
from viewlet.engine.contract import Engine
from viewlet.engine.ranking import FirstRows, cut, ranked, ranking
from viewlet.triggers.store import UndoLog
from viewlet.types import Row

Ranked = list[tuple[Row, int]]


class ResultRows:
    """The rows of an engine, and what a batch changes of them.

    Of a query with LIMIT or OFFSET the first rows are kept: they are updated if the engine tells its changes, and found
    again otherwise.
    """

    def __init__(self, engine: Engine, query: Query, log: UndoLog) -> None:
        self._engine = engine
        self._query = query
        self._rank = ranking(query)
        self._log = log
        self._is_limited = is_limited(query)
        self._first: FirstRows | None = None
        self._result: Mapping[Row, int] | None = None

    def rows(self) -> Ranked:
        """The rows within LIMIT and OFFSET, in reading order."""
        if self._is_limited:
            return list(cut(self._first_rows().rows(), self._query.offset, self._query.limit))
        return self.in_order(self._whole())

    def in_order(self, rows: Mapping[Row, int]) -> Ranked:
        """Rows with their multiplicities, in reading order."""
        return ranked(rows, self._query, self._rank)

    def count(self) -> int:
        """How many rows there are within LIMIT and OFFSET."""
        if self._is_limited:
            return sum(weight for _, weight in self.rows())
        return sum(self._whole().values())

    def watch(self) -> None:
        """From now on changes are wanted."""
        tells = self._engine.watch()
        if self._is_limited:
            self._first_rows()
        elif not tells:
            self._whole()

    def finish(self, change: Mapping[Row, int] | None, wanted: bool) -> Changes:
        """What a batch does to `rows`, if that is `wanted`; `change` is what it does to the result, where known."""
        if self._is_limited:
            return self._finish_limited(change, wanted)
        before = self._result
        if before is not None:
            self._log.record(lambda: self._set_result(before))
            self._result = None
        if change is not None:
            return dict(change)
        return difference(before, self._whole()) if wanted and before is not None else {}

    def _finish_limited(self, change: Mapping[Row, int] | None, wanted: bool) -> Changes:
        first = self._first
        if first is None or (change is not None and not change):
            return {}
        before = self.rows() if wanted else []
        if change is not None:
            first.apply(change)
        else:
            self._log.record(lambda: self._set_first(first))
            self._first = None
        return net([*self.rows(), *((row, -weight) for row, weight in before)]) if wanted else {}

    def _whole(self) -> Mapping[Row, int]:
        if self._result is None:
            self._result = self._engine.result()
        return self._result

    def _first_rows(self) -> FirstRows:
        if self._first is None:
            self._first = FirstRows(self._query, self._rank, self._engine.result, self._log)
        return self._first

    def _set_result(self, result: Mapping[Row, int]) -> None:
        self._result = result

    def _set_first(self, first: FirstRows) -> None:
        self._first = first


def is_limited(query: Query) -> bool:
    return query.limit is not None or query.offset > 0


def difference(before: Mapping[Row, int], after: Mapping[Row, int]) -> Changes:
    """What has to be added to `before` to get `after`."""
    changed = {row: weight - before.get(row, 0) for row, weight in after.items() if before.get(row, 0) != weight}
    return changed | {row: -weight for row, weight in before.items() if row not in after}


def net(rows: Iterable[tuple[Row, int]]) -> Changes:
    """Multiplicities added up, zeros left out."""
    total: Changes = {}
    for row, weight in rows:
        total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}
