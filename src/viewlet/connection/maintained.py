"""One maintained view: its interpreter, and its rows as users and other views see them.

The interpreter holds result rows over `query.output`; what is visible are the declared columns, in order, cut by LIMIT
and OFFSET. Changes are those of the visible rows: for a limited view, what its first rows gain and lose.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from viewlet.algebra.query import OrderKey, Query
from viewlet.changes import Changes
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Column, Datum, Row, Table, TableKind
from viewlet.view import Callback


class Engine(Protocol):
    """What executes a trigger program (the interpreter)."""

    def apply(self, table: str, changes: Mapping[Row, int]) -> None:
        """Runs the triggers of one table, before the table's own store changes."""

    def finish(self) -> Mapping[Row, int]:
        """Ends the batch and returns the change of the result rows."""

    def result(self) -> Mapping[Row, int]:
        """The result rows with their multiplicities."""

    def sizes(self) -> Mapping[str, int]:
        """Rows per stored view."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a CREATE VIEW asks for."""

    name: str
    query: Query
    sources: frozenset[str]
    sql: str
    strategy: str = "auto"
    replaces: bool = False


class MaintainedView:
    def __init__(self, declared: Declaration, program: Program, engine: Engine, log: UndoLog) -> None:
        query = declared.query
        self.name = declared.name
        self.query = query
        self.sources = declared.sources
        self.sql = declared.sql
        self.program = program
        self.engine = engine
        self.columns = tuple(Column(column.name, column.var.type) for column in query.columns)
        self.subscribers: dict[object, Callback] = {}
        self.store: MapStore | None = None
        self._log = log
        self._visible = [query.output.index(column.var) for column in query.columns]
        self._rank = ranking(query)

    @property
    def table(self) -> Table:
        """The view as a source of other views."""
        return Table(self.name, self.columns, TableKind.VIEW)

    @property
    def is_limited(self) -> bool:
        return self.query.limit is not None or self.query.offset > 0

    def rows(self) -> list[tuple[Row, int]]:
        """The visible rows in reading order."""
        result = self.engine.result().items()
        if self.query.limit is None:
            ranked = sorted(result, key=lambda item: self._rank(item[0]))
        else:
            ranked = heapq.nsmallest(self.query.limit + self.query.offset, result, key=lambda item: self._rank(item[0]))
        return [(self._show(row), weight) for row, weight in cut(ranked, self.query.offset, self.query.limit)]

    def watch(self) -> MapStore:
        """Starts keeping the visible rows: another view reads them, or they are compared from batch to batch."""
        if self.store is None:
            self.store = MapStore(log=self._log)
            for row, weight in self.rows():
                self.store.add(row, (weight,))
        return self.store

    def add_subscriber(self, token: object, callback: Callback) -> None:
        if self.is_limited:
            self.watch()
        self.subscribers[token] = callback

    def finish(self) -> Changes:
        """Ends the batch and returns the change of the visible rows; `publish` makes it visible to other views."""
        change = self.engine.finish()
        if not self.is_limited:
            return net((self._show(row), weight) for row, weight in change.items())
        if not change or self.store is None:
            return {}  # nobody compares: the first rows are found when they are read
        before = ((row, -weight) for row, weight in self.store.multiplicities().items())
        return net([*self.rows(), *before])

    def publish(self, change: Changes) -> None:
        if self.store is not None:
            for row, weight in change.items():
                self.store.add(row, (weight,))

    def _show(self, row: Row) -> Row:
        return tuple(row[position] for position in self._visible)


def net(rows: Iterable[tuple[Row, int]]) -> Changes:
    """Multiplicities added up, zeros left out."""
    total: Changes = {}
    for row, weight in rows:
        total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}


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


def ranking(query: Query) -> Callable[[Row], tuple[object, ...]]:
    """A sort key for result rows: ORDER BY first, then all columns, so that ties always fall the same way."""
    ordered = {key.var for key in query.order}
    keys = [*query.order, *(OrderKey(var) for var in query.output if var not in ordered)]
    positions = [(query.output.index(key.var), key.descending, key.nulls_first) for key in keys]

    def rank(row: Row) -> tuple[object, ...]:
        return tuple(_rank(row[position], descending, first) for position, descending, first in positions)

    return rank


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
