"""ORDER BY, LIMIT and OFFSET: how result rows rank, and the first of them kept from batch to batch."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter

from viewlet.algebra.query import OrderKey, Query
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum, Row

_first = itemgetter(0)
Rank = Callable[[Row], tuple[object, ...]]


class FirstRows:
    """The first `size` distinct rows of a result, maintained from the result's changes.

    All rows that rank before the last one kept are kept, so a changed row that is not among them is either new or too
    late to matter. Only when deletes leave fewer than `size` rows is the whole result looked at again.
    """

    def __init__(self, query: Query, rank: Rank, result: Callable[[], Mapping[Row, int]], log: UndoLog) -> None:
        self._size = sys.maxsize if query.limit is None else query.limit + query.offset
        self._rank = rank
        self._result = result
        self._log = log
        self._rows: list[tuple[Row, int]] = []
        self._complete = False  # the result has no other rows
        self._look_again()

    def rows(self) -> list[tuple[Row, int]]:
        """The rows with their multiplicities, in order."""
        return self._rows

    def apply(self, change: Mapping[Row, int]) -> None:
        """Brings the rows up to date with a change of the result."""
        if not self._size:
            return
        self._log.record(self._restorer())
        kept = dict(self._rows)
        last = self._rank(self._rows[-1][0]) if self._rows else ()
        for row, weight in change.items():
            if row in kept or self._complete or self._rank(row) < last:
                kept[row] = kept.get(row, 0) + weight
        ranked = sorted(((row, weight) for row, weight in kept.items() if weight), key=lambda item: self._rank(item[0]))
        if len(ranked) < self._size and not self._complete:
            self._look_again()
            return
        self._complete = self._complete and len(ranked) <= self._size
        self._rows = ranked[: self._size]

    def _look_again(self) -> None:
        result = self._result()
        self._rows = heapq.nsmallest(min(self._size, len(result)), result.items(), key=lambda item: self._rank(item[0]))
        self._complete = len(result) <= self._size

    def _restorer(self) -> Callable[[], None]:
        rows, complete = self._rows, self._complete

        def restore() -> None:
            self._rows, self._complete = rows, complete

        return restore


def cut(ranked: Iterable[tuple[Row, int]], offset: int, limit: int | None) -> Iterable[tuple[Row, int]]:
    """The rows after the first `offset`, `limit` of them, where a row counts as often as its multiplicity.

    >>> list(cut([(("a",), 3), (("b",), 1)], 2, 5))
    [(('a',), 1), (('b',), 1)]
    """
    skip, left = offset, limit
    for row, weight in ranked:
        skipped = min(skip, weight)
        skip -= skipped
        taken = weight - skipped if left is None else min(left, weight - skipped)
        if left is not None:
            left -= taken
        if taken:
            yield row, taken


def ranking(query: Query) -> Rank:
    """A sort key for result rows: ORDER BY first, then all columns, so that ties always fall the same way."""
    positions = reading_order(query)

    def rank(row: Row) -> tuple[object, ...]:
        return tuple(_rank(row[position], descending, first) for position, descending, first in positions)

    return rank


def ranked(rows: Mapping[Row, int], query: Query, rank: Rank) -> list[tuple[Row, int]]:
    """Rows with their multiplicities, sorted by `rank`; by the rows themselves where that is the same.

    It is the same if all columns are ascending and no NULL is compared with a value, which Python refuses to do.
    """
    order = reading_order(query)
    if order and not any(descending for _, descending, _ in order):
        positions = [position for position, _, _ in order]
        key = itemgetter(*positions) if positions != list(range(len(positions))) else None
        try:
            return sorted(rows.items(), key=_first if key is None else lambda item: key(item[0]))
        except TypeError:
            pass
    return sorted(rows.items(), key=lambda item: rank(item[0]))


def reading_order(query: Query) -> list[tuple[int, bool, bool]]:
    """The columns by which result rows are sorted, each with whether it is descending, and whether NULLs come first."""
    ordered = {key.var for key in query.order}
    keys = [*query.order, *(OrderKey(var) for var in query.output if var not in ordered)]
    return [(query.output.index(key.var), key.descending, key.nulls_first) for key in keys]


def _rank(value: Datum, descending: bool, nulls_first: bool) -> tuple[object, ...]:
    if value is None:
        return (0,) if nulls_first else (2,)
    if not descending:
        return (1, value)
    return (1, _Descending(value) if isinstance(value, str) else -value)


class _Descending:
    """A string that sorts the other way round."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Descending) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]
