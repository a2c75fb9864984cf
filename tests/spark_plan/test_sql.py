"""Definitions as SQL: DuckDB's answer is what the evaluator says a view contains."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest

from tests.oracle.oracle import Oracle
from tests.spark_plan.asking_sql import Database
from workloads import finance, tpch
from workloads.query import NamedQuery
from workloads.streams import Batch, batches_of, insertion


def ask_duckdb(declarations: dict[str, str], batches: list[Batch]) -> Oracle:
    oracle = Oracle()
    for name, statement in declarations.items():
        oracle.create(name, statement)
    for batch in batches:
        oracle.apply(batch)
    return oracle


@cache
def warehouse() -> tuple[Database, Oracle]:
    batches = [insertion(tpch.small_database(4))]
    return Database.of(tpch.TABLES, batches), ask_duckdb(tpch.TABLES, batches)


@cache
def order_book() -> tuple[Database, Oracle]:
    events = finance.OrderBook().events(finance.generated_messages(5, 1_000))
    batches = list(batches_of(islice(events, 120), 40))
    return Database.of(finance.TABLES, batches), ask_duckdb(finance.TABLES, batches)


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    database, oracle = warehouse()
    for view in database.views(query):
        assert database.disagreement(view, oracle.rows, "duckdb") is None


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    database, oracle = order_book()
    for view in database.views(query):
        assert database.disagreement(view, oracle.rows, "duckdb") is None
