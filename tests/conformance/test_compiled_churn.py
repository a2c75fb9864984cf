"""Fifty batches of rows that come and go leave nothing behind in the stores of generated code: no row, no number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from tests.conformance.engines import changes_in_order
from tests.conformance.workload import order_book, warehouse
from viewlet.changes import RowChange
from viewlet.codegen.engine import CompiledEngine
from viewlet.runtime import ordered_index
from viewlet.sql import bind_query
from viewlet.triggers.plan import plan_query
from viewlet.types import Row, Table, TableKind
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import Batch, batches_of

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
BATCHES = 50


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_index, "SHORT", 2)


def rows_of(tables: dict[str, Table], batches: Iterable[Batch]) -> dict[str, list[Row]]:
    """The rows that some batches insert."""
    found: dict[str, list[Row]] = {name: [] for name in tables}
    for batch in changes_in_order(tables, list(batches)):
        for name, changes in batch.items():
            found[name] += [row for row, count in changes.items() if count > 0]
    return found


def assert_equal_after_churn(
    query: NamedQuery, tables: dict[str, Table], rows: dict[str, list[Row]], strategy: str
) -> None:
    view = bind_query(query.sql, tables)
    sources = {name: replace(tables[name], kind=TableKind.STREAM) for name in sorted(view.sources)}
    engine = CompiledEngine(plan_query(query.name, view.query, sources, strategy), sources)
    fresh = engine.result()
    random = Random(query.name)
    half = BATCHES // 2
    when = {name: [(random.randrange(half), random.randrange(half), row) for row in rows[name]] for name in sources}
    for batch in range(half):
        for name, events in when.items():
            engine.apply(name, RowChange({row: 1 for comes, _, row in events if comes == batch}))
    assert any(len(store) for store in engine.stores.values())
    for batch in range(half):
        for name, events in when.items():
            engine.apply(name, RowChange({row: -1 for _, goes, row in events if goes == batch}))
    assert engine.result() == fresh
    assigned = {s.view for trigger in engine.program.triggers for s in trigger.statements if s.replaces}
    for name, store in engine.stores.items():
        if not store.layout.arity:
            assert not store.pool.any(), name
        elif not name.startswith("scratch ") and name not in assigned:
            assert len(store) == 0, name


@pytest.mark.parametrize("strategy", ["higher-order", "view-tree"])
@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery, strategy: str) -> None:
    tables = warehouse().tables
    assert_equal_after_churn(query, tables, rows_of(tables, warehouse().rows), strategy)


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    tables = order_book().tables
    events = [e for e in finance.OrderBook().events(finance.generated_messages(5, 1_000)) if e[2] > 0]
    assert_equal_after_churn(query, tables, rows_of(tables, batches_of(islice(events, 150), 150)), "higher-order")
