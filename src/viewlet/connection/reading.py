"""Result rows as they are read: kept in step with every batch, or evaluated when someone asks.

The interpreter tells the change of the result after every batch, and finds errors in it while the batch can still be
refused. The compiled engine does not write its result out at all, so that is evaluated on demand: for a reader, for a
subscriber, or for a view over it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Protocol

from viewlet.algebra.query import Query
from viewlet.changes import Changes
from viewlet.connection.ranking import FirstRows, cut, ranking
from viewlet.triggers.store import UndoLog
from viewlet.types import Row

Ranked = list[tuple[Row, int]]


class TellsChanges(Protocol):
    """An engine that knows what a batch did to its result (the interpreter)."""

    def finish(self) -> Mapping[Row, int]: ...

    def result(self) -> Mapping[Row, int]: ...


class HoldsResult(Protocol):
    """An engine that can be asked for its result (the compiled one), and for its changes if `watch` says so."""

    def result(self) -> Mapping[Row, int]: ...

    def watch(self) -> bool: ...

    def changes(self) -> Mapping[Row, int]: ...


class EagerRows:
    """The first rows of an engine that tells its changes."""

    def __init__(self, engine: TellsChanges, query: Query, log: UndoLog) -> None:
        self._engine = engine
        self._query = query
        self._rank = ranking(query)
        self._first = FirstRows(query, self._rank, engine.result, log) if is_limited(query) else None

    def rows(self) -> Ranked:
        """The rows within LIMIT and OFFSET, in reading order."""
        if self._first is None:
            return sorted(self._engine.result().items(), key=lambda item: self._rank(item[0]))
        return list(cut(self._first.rows(), self._query.offset, self._query.limit))

    def watch(self) -> None:
        """From now on changes are wanted."""

    def finish(self, touched: bool, wanted: bool) -> Changes:
        """Ends a batch: the change of `rows`."""
        change = self._engine.finish()
        if self._first is None:
            return dict(change)
        if not change:
            return {}
        before = self.rows()
        self._first.apply(change)
        return net([*self.rows(), *((row, -weight) for row, weight in before)])


class LazyRows:
    """The first rows of an engine that has to be asked; the answer is good until the next batch.

    Once changes are wanted, the engine notes the rows it touches if it can; otherwise results are compared.
    """

    def __init__(self, engine: HoldsResult, query: Query, log: UndoLog) -> None:
        self._engine = engine
        self._query = query
        self._rank = ranking(query)
        self._log = log
        self._result: Mapping[Row, int] | None = None
        self._tells: bool | None = None
        self._kept: FirstRows | None = None

    def rows(self) -> Ranked:
        """The rows within LIMIT and OFFSET, in reading order."""
        if self._kept is not None:
            return list(cut(self._kept.rows(), self._query.offset, self._query.limit))
        return self._first(self._known())

    def watch(self) -> None:
        """From now on changes are wanted."""
        if self._tells is None:
            self._tells = self._engine.watch()
        if not self._tells:
            self._known()
        elif is_limited(self._query) and self._kept is None:
            self._kept = FirstRows(self._query, self._rank, self._engine.result, self._log)

    def finish(self, touched: bool, wanted: bool) -> Changes:
        """Ends a batch: the change of `rows` if it is wanted."""
        if not touched:
            return {}
        before = self._result
        self._log.record(lambda: self._forget(before))
        self._forget(None)
        if self._tells:
            return self._told()
        if not wanted or before is None:
            return {}
        after = self._known()
        if not is_limited(self._query):
            return difference(before, after)
        return net([*self._first(after), *((row, -weight) for row, weight in self._first(before))])

    def _told(self) -> Changes:
        change = self._engine.changes()
        if self._kept is None:
            return dict(change)
        before = self.rows()
        self._kept.apply(change)
        return net([*self.rows(), *((row, -weight) for row, weight in before)])

    def _known(self) -> Mapping[Row, int]:
        if self._result is None:
            self._result = self._engine.result()
        return self._result

    def _forget(self, known: Mapping[Row, int] | None) -> None:
        self._result = known

    def _first(self, result: Mapping[Row, int]) -> Ranked:
        query = self._query
        if query.limit is None:
            ranked = sorted(result.items(), key=lambda item: self._rank(item[0]))
        else:
            size = min(query.limit + query.offset, len(result))
            ranked = heapq.nsmallest(size, result.items(), key=lambda item: self._rank(item[0]))
        return list(cut(ranked, query.offset, query.limit))


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
