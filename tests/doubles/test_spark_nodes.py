"""The code that runs in Spark's tasks: sums of doubles of any size, and batches that are refused without a trace."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from tests.spark_plan.compiled_cluster import CompiledCluster
from viewlet.errors import DataError
from viewlet.spark.plan.compile import compile_distributed
from viewlet.sql import CreateView, bind_statement, split_statements
from viewlet.triggers.compiler import compile_query
from viewlet.types import BIGINT, DOUBLE, Column, Table

TABLES = {"t": Table("t", (Column("g", BIGINT.with_nullable(False)), Column("x", DOUBLE.with_nullable(False))))}
Rows = dict[tuple[int, float], int]


def cluster_of(select: str) -> CompiledCluster:
    sql = f"CREATE MATERIALIZED VIEW v AS {select}"
    view = bind_statement(next(split_statements(sql)), TABLES)
    assert isinstance(view, CreateView)
    program = compile_query("v", view.query, TABLES, "higher-order")
    return CompiledCluster(compile_distributed(program, TABLES), TABLES, 2)


def contents(cluster: CompiledCluster) -> list[list[list[int]]]:
    views = [view.name for view in cluster.program.program.views]
    nodes = (cluster.driver, *cluster.workers)
    return [sorted(node.stores[name].packed().tolist()) for node in nodes for name in views]


def refused(cluster: CompiledCluster, rows: Rows) -> None:
    with pytest.raises(DataError):
        cluster.apply({"t": rows})
    for node in (cluster.driver, *cluster.workers):
        node.take_back()
        node.end_batch()


def test_variances_and_sums() -> None:
    cluster = cluster_of("SELECT g, VAR_POP(x) AS v, SUM(x) AS s FROM t GROUP BY g")
    chance = random.Random(3)
    held: Rows = {}
    for _ in range(8):
        offset = {1: 7e12, 2: -1e15, 3: 1e-100, 4: 1e120}
        batch: Rows = {(g, chance.gauss(at, abs(at) * 1e-12)): 1 for g, at in offset.items()}
        batch |= dict.fromkeys(chance.sample(sorted(held), len(held) // 3), -1)
        cluster.apply({"t": batch})
        held = {row: n for row, n in {**held, **batch}.items() if n > 0}
        found = {g: (v, s) for g, v, s in cluster.result()}
        for g, (v, s) in found.items():
            xs = [Fraction(x) for h, x in held if h == g]
            assert s == float(sum(xs))
            exact = (len(xs) * sum(x * x for x in xs) - sum(xs) ** 2) / len(xs) ** 2
            assert math.isclose(v, float(exact), rel_tol=1e-15)


@pytest.mark.parametrize("large", [1.7e308, 1e300])
def test_a_refused_batch_leaves_no_trace(large: float) -> None:
    cluster = cluster_of("SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
    cluster.apply({"t": {(1, 0.1): 1, (1, 1e200): 1, (2, large): 1, (3, -large): 1}})
    before = contents(cluster)
    assert (2, large, 1) in cluster.result()
    for g in (1, 2, 3):
        refused(cluster, {(g, 1.7e308 if g != 3 else -1.7e308): 200, (g, 2.5): 1, (4, 3.0): 1})
        assert contents(cluster) == before
    cluster.apply({"t": {(1, 1e200): -1, (2, large): -1, (3, -large): -1}})
    assert cluster.result() == {(1, 0.1, 1): 1}
