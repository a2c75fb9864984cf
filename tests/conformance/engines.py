"""Ways to execute a program; every one of them must agree after every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

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
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import Batch, batches_of, mixed_batches

STRATEGIES = ("recompute", "first-order", "higher-order", "view-tree")
THRIFTY = "higher-order without views that cost more than they save"
FEW_ROWS = 10.0
MEASURED = {
    "region": 5, "nation": 25, "supplier": 10_000, "part": 200_000, "partsupp": 800_000, "customer": 150_000,
    "orders": 1_500_000, "lineitem": 6_000_000,
}  # fmt: skip
"""Rows of the tables of TPC-H at scale 1."""


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


@cache
def warehouse() -> tuple[dict[str, Table], list[dict[str, Changes]]]:
    """The tables of TPC-H, and a stream: most of a small database, then mixed changes of all tables."""
    tables = schemas(tpch.TABLES)
    first, rest = mixed_batches(tpch.small_database(4), tpch.KEY_POSITIONS, 20, 3, 4)
    return tables, changes_in_order(tables, [first, *rest])


@cache
def order_book() -> tuple[dict[str, Table], list[dict[str, Changes]]]:
    """The tables of an order book, and a stream of orders that come and go."""
    tables = schemas(finance.TABLES)
    events = finance.OrderBook().events(finance.generated_messages(5, 1_000))
    return tables, changes_in_order(tables, list(batches_of(islice(events, 60), 15)))


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


def disagreement(
    query: NamedQuery,
    tables: Mapping[str, Table],
    batches: Sequence[Mapping[str, Changes]],
    modes: Sequence[Mode] = MODES,
) -> str | None:
    """The first batch after which two modes differ, in what they hold or in what they say has changed."""
    text = f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}"
    view = bind_statement(next(split_statements(text)), tables)
    assert isinstance(view, CreateView)
    sources = {name: tables[name] for name in sorted(view.sources)}
    compiled = {strategy: program_of(strategy, view, sources) for strategy in {mode.strategy for mode in modes}}
    engines = {mode: Engine(compiled[mode.strategy], sources, mode) for mode in modes}
    for number, batch in enumerate(batches):
        changes = {mode: engine.apply(batch) for mode, engine in engines.items()}
        results = {mode: engine.result() for mode, engine in engines.items()}
        for mode in modes[1:]:
            if results[mode] != results[modes[0]] or changes[mode] != changes[modes[0]]:
                return f"batch {number}, {mode}: {results[mode]} instead of {results[modes[0]]}"
    return None
