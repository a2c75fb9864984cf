"""One set of programs on every engine and strategy: the same results, and the same changes, after every batch."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest

from tests.conformance import programs
from tests.conformance.engines import FEWER_MODES, changes_in_order, disagreement, schemas
from viewlet.changes import Changes
from viewlet.types import Table
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import batches_of, mixed_batches


@cache
def small() -> tuple[dict[str, Table], list[dict[str, Changes]]]:
    tables = schemas(programs.TABLES)
    return tables, changes_in_order(tables, programs.batches(seed=3))


@cache
def warehouse() -> tuple[dict[str, Table], list[dict[str, Changes]]]:
    tables = schemas(tpch.TABLES)
    first, rest = mixed_batches(tpch.small_database(4), tpch.KEY_POSITIONS, 20, 2, 4)
    return tables, changes_in_order(tables, [first, *rest])


@cache
def order_book() -> tuple[dict[str, Table], list[dict[str, Changes]]]:
    tables = schemas(finance.TABLES)
    events = finance.OrderBook().events(finance.generated_messages(5, 1_000))
    return tables, changes_in_order(tables, list(batches_of(islice(events, 45), 15)))


@pytest.mark.parametrize("query", programs.QUERIES, ids=lambda query: query.name)
def test_small_queries(query: NamedQuery) -> None:
    assert disagreement(query, *small()) is None


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    assert disagreement(query, *warehouse(), FEWER_MODES) is None


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    assert disagreement(query, *order_book()) is None
