"""The kernel of generated code against the reference kernel: the same bytes in and out, block by block."""

from __future__ import annotations

import pytest

from tests.conformance.workload import MEASURED, order_book, warehouse
from tests.spark_plan.distributing import Reference, program_of
from tests.spark_plan.pipeline import Pipeline
from viewlet.changes import Changes
from viewlet.runtime import ordered_index
from viewlet.runtime.jit import ENABLED
from viewlet.spark.plan.compile import compile_distributed
from viewlet.types import Table
from workloads import finance, tpch
from workloads.query import NamedQuery

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def test_a_batch_is_taken_back() -> None:
    for query in (tpch.QUERIES[2], tpch.QUERIES[14], tpch.QUERIES[17]):
        tables, batches = warehouse().stream
        program, sources = program_of(query, tables)
        fast = Pipeline(compile_distributed(program, sources, MEASURED), sources, True)
        mine = [{t: changes for t, changes in batch.items() if t in sources} for batch in batches]
        fast.apply(mine[0])
        before = fast.contents()
        fast.apply(mine[1])
        assert fast.contents() != before
        for node in (fast.driver, *fast.workers):
            node.rollback()
        assert fast.contents() == before


def check(query: NamedQuery, tables: dict[str, Table], batches: list[dict[str, Changes]]) -> None:
    program, sources = program_of(query, tables)
    plan = compile_distributed(program, sources, MEASURED)
    slow, fast = Pipeline(plan, sources, False), Pipeline(plan, sources, True)
    assert fast.is_generated
    reference = Reference(program, sources)
    for batch in batches:
        mine = {table: changes for table, changes in batch.items() if table in sources}
        reference.apply(mine)
        slow.apply(mine)
        fast.apply(mine)
        assert fast.contents() == slow.contents()


@pytest.mark.slow
@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    check(query, *warehouse().stream)


@pytest.mark.parametrize("query", [q for q in tpch.QUERIES if q.name in ("q11", "q15", "q22")], ids=lambda q: q.name)
def test_ordered_indexes_are_kept(query: NamedQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows there are: what is added to a view goes to its ordered indexes too."""
    if ENABLED:
        pytest.skip("compiled code does not see what a test changes")
    monkeypatch.setattr(ordered_index, "SHORT", 0)
    check(query, *warehouse().stream)


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    check(query, *order_book().stream)
