"""Ways to execute a program; every one of them must agree after every batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.oracle.play import changes_of
from viewlet.changes import Changes, RowChange, to_changes
from viewlet.sql import CreateTable, CreateView, bind_statement, split_statements
from viewlet.triggers.benefit import find_waste
from viewlet.triggers.compiler import without_views
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.plan import plan_query
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import Size, Statistics
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table, TableKind
from workloads.query import NamedQuery
from workloads.streams import Batch

STRATEGIES = ("recompute", "first-order", "higher-order", "view-tree")
THRIFTY = "higher-order without views that cost more than they save"
FEW_ROWS = 10.0


def schemas(tables: Mapping[str, str]) -> dict[str, Table]:
    """The declared tables by name."""
    declared: dict[str, Table] = {}
    for text in tables.values():
        statement = bind_statement(next(split_statements(text)), declared)
        assert isinstance(statement, CreateTable)
        declared[statement.table.name] = statement.table
    return declared


def changes_in_order(tables: Mapping[str, Table], batches: Sequence[Batch]) -> list[dict[str, Changes]]:
    """Batches as the engine takes them."""
    columns = {name: table.column_names for name, table in tables.items()}
    return [
        {
            name: to_changes(tables[name], rows, encoded=True)
            for name, rows in changes_of(batch, columns).items()
            if rows
        }
        for batch in batches
    ]


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to run one query."""

    strategy: str
    row_at_a_time: bool

    def __str__(self) -> str:
        return f"{self.strategy}, {'row by row' if self.row_at_a_time else 'batches'}"


def program_of(strategy: str, view: CreateView, tables: Mapping[str, Table]) -> Program:
    if strategy != THRIFTY:
        return plan_query(view.name, view.query, tables, strategy)
    program = plan_query(view.name, view.query, tables, "higher-order")
    small = {name: Size(FEW_ROWS, (FEW_ROWS,) * len(table.columns)) for name, table in tables.items()}
    return without_views(program, tables, find_waste(program, tables, Statistics(small)).views)


MODES = tuple(Mode(strategy, rows) for strategy in (*STRATEGIES, THRIFTY) for rows in (False, True))
FEWER_MODES = (Mode("higher-order", False), Mode(THRIFTY, False), Mode("higher-order", True))
"""For large queries, whose triggers take long to specialise to single rows; `tests/oracle` plays all strategies."""


class Engine:
    """A query maintained in one mode, with base tables of its own."""

    def __init__(self, program: Program, tables: Mapping[str, Table], mode: Mode) -> None:
        self._tables = tables
        self._stores = {name: MapStore() for name in tables}
        self._interpreter = Interpreter(program, self._stores, row_at_a_time=mode.row_at_a_time)
        self._interpreter.load()

    def apply(self, batch: Mapping[str, Changes]) -> dict[Row, int]:
        """The change of the result."""
        for name in self._tables:
            changes = batch.get(name, {})
            self._interpreter.apply(name, RowChange(changes))
            if self._tables[name].kind is not TableKind.STREAM:
                for row, count in changes.items():
                    self._stores[name].add(row, (count,))
        return self._interpreter.finish()

    def result(self) -> dict[Row, int]:
        return self._interpreter.result()


def in_modes(query: NamedQuery, tables: Mapping[str, Table], modes: Sequence[Mode] = MODES) -> dict[str, Engine]:
    """A query in several modes."""
    text = f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}"
    view = bind_statement(next(split_statements(text)), tables)
    assert isinstance(view, CreateView)
    sources = {name: tables[name] for name in sorted(view.sources)}
    compiled = {strategy: program_of(strategy, view, sources) for strategy in {mode.strategy for mode in modes}}
    return {str(mode): Engine(compiled[mode.strategy], sources, mode) for mode in modes}


class Player(Protocol):
    """Anything that takes batches and has a result."""

    def apply(self, batch: Mapping[str, Changes]) -> object:
        """What it tells of the batch; None if it tells nothing."""

    def result(self) -> object: ...


def disagreement(players: Mapping[str, Player], batches: Iterable[Mapping[str, Changes]]) -> str | None:
    """The first batch after which a player differs from the first one, in its result or in what it tells."""
    (first, *others) = players
    for number, batch in enumerate(batches):
        told = {name: player.apply(batch) for name, player in players.items()}
        expected = players[first].result()
        for name in others:
            found = players[name].result()
            if found != expected or (told[name] is not None and told[name] != told[first]):
                return f"batch {number}, {name}: {found} instead of {expected}; it tells {told[name]}"
    return None
