"""Blocks as generated code on several nodes, against the interpreter after every batch."""

from __future__ import annotations

import pytest

from tests.spark_plan.compiled_cluster import CompiledCluster
from tests.spark_plan.distributing import Reference, program_of
from tests.spark_plan.test_workloads import MEASURED, order_book, warehouse
from viewlet.changes import Changes
from viewlet.spark.plan.compile import compile_distributed
from viewlet.types import Row, Table
from workloads import finance, tpch
from workloads.query import NamedQuery

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def rounded(rows: dict[Row, int]) -> dict[Row, int]:
    return {
        tuple(float(f"{value:.12g}") if isinstance(value, float) else value for value in row): count
        for row, count in rows.items()
    }


def check(query: NamedQuery, tables: dict[str, Table], batches: list[dict[str, Changes]], workers: int) -> None:
    program, sources = program_of(query, tables)
    reference = Reference(program, sources)
    cluster = CompiledCluster(compile_distributed(program, sources, MEASURED), sources, workers)
    for batch in batches:
        expected = reference.apply(batch)
        cluster.apply({table: changes for table, changes in batch.items() if table in sources})
        assert rounded(cluster.result()) == rounded(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    check(query, *warehouse(), workers=2)


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    check(query, *order_book(), workers=3)
