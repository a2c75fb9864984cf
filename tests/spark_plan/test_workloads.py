"""Every benchmark query, distributed over 1, 2 and 7 simulated workers, equals the interpreter after every batch."""

from __future__ import annotations

import pytest

from tests.conformance.engines import disagreement
from tests.conformance.workload import MEASURED, order_book, warehouse
from tests.spark_plan.distributing import on_workers, program_of
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.plan.locations import LOCAL
from workloads import finance, tpch
from workloads.query import NamedQuery


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    tables, batches = warehouse().stream
    program, sources = program_of(query, tables)
    plan = compile_distributed(program, sources, MEASURED)
    assert disagreement(on_workers(program, plan, sources, whole=True), batches) is None


@pytest.mark.parametrize("query", tpch.QUERIES[1::2], ids=lambda query: query.name)
def test_tables_that_nobody_measured_and_plans_for_changed_tables_only(query: NamedQuery) -> None:
    tables, batches = warehouse().stream
    program, sources = program_of(query, tables)
    plan = compile_distributed(program, sources)
    assert disagreement(on_workers(program, plan, sources, workers=(2,)), batches) is None


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    tables, batches = order_book().stream
    program, sources = program_of(query, tables)
    assert disagreement(on_workers(program, compile_distributed(program, sources), sources), batches) is None


@pytest.mark.parametrize("query", tpch.QUERIES[::3], ids=lambda query: query.name)
def test_changes_may_be_scattered_from_the_driver(query: NamedQuery) -> None:
    tables, batches = warehouse().stream
    program, sources = program_of(query, tables)
    plan = compile_distributed(program, sources, MEASURED)
    assert disagreement(on_workers(program, plan, sources, workers=(2,), arrival=LOCAL), batches) is None


@pytest.mark.parametrize("strategy", ["first-order", "recompute"])
@pytest.mark.parametrize("query", tpch.QUERIES[2::4], ids=lambda query: query.name)
def test_other_strategies(query: NamedQuery, strategy: str) -> None:
    tables, batches = warehouse().stream
    program, sources = program_of(query, tables, strategy)
    plan = compile_distributed(program, sources, MEASURED)
    assert disagreement(on_workers(program, plan, sources, workers=(1, 3)), batches[:2]) is None
