"""One maintained view: its interpreter, and its rows as users and other views see them.

The interpreter holds result rows over `query.output`; what is visible are the declared columns, in order, cut by LIMIT
and OFFSET. Changes are those of the visible rows: for a limited view, what its first rows gain and lose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from viewlet.algebra.query import Query
from viewlet.changes import Changes
from viewlet.connection.ranking import FirstRows, cut, ranking
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Column, Row, Table, TableKind
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
        self.declared = declared
        self.name = declared.name
        self.query = query
        self.sources = declared.sources
        self.program = program
        self.engine = engine
        self.columns = tuple(Column(column.name, column.var.type) for column in query.columns)
        self.subscribers: dict[object, Callback] = {}
        self.store: MapStore | None = None
        self._log = log
        self._visible = [query.output.index(column.var) for column in query.columns]
        self._rank = ranking(query)
        limited = query.limit is not None or query.offset > 0
        self._first = FirstRows(query, self._rank, engine.result, log) if limited else None

    @property
    def table(self) -> Table:
        """The view as a source of other views."""
        return Table(self.name, self.columns, TableKind.VIEW)

    def rows(self) -> list[tuple[Row, int]]:
        """The visible rows in reading order."""
        if self._first is None:
            ranked = sorted(self.engine.result().items(), key=lambda item: self._rank(item[0]))
        else:
            ranked = list(cut(self._first.rows(), self.query.offset, self.query.limit))
        return [(self._show(row), weight) for row, weight in ranked]

    def watch(self) -> MapStore:
        """Starts keeping the visible rows in a store, because another view reads them."""
        if self.store is None:
            self.store = MapStore(log=self._log)
            for row, weight in self.rows():
                self.store.add(row, (weight,))
        return self.store

    def finish(self) -> Changes:
        """Ends the batch and returns the change of the visible rows; `publish` makes it visible to other views."""
        change = self.engine.finish()
        if self._first is None:
            return net((self._show(row), weight) for row, weight in change.items())
        if not change:
            return {}
        before = self.rows()
        self._first.apply(change)
        return net([*self.rows(), *((row, -weight) for row, weight in before)])

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
