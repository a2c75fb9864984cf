"""Increments read the state before their trigger, also where each of them reads what another writes."""

from __future__ import annotations

import pytest

from tests.spark_plan.distributing import Reference
from viewlet.algebra.nodes import Delta, Expr, Rel, Sum, Value, Var, View, add, mul
from viewlet.algebra.query import OutputColumn, Query
from viewlet.spark.plan import compile_distributed
from viewlet.spark.plan.simulate import Cluster
from viewlet.triggers.program import Field, Program, Statement, Trigger, Update, ViewDefinition
from viewlet.types import BIGINT, Column, Table

NUMBER = BIGINT.with_nullable(False)
k, x = Var("k", NUMBER), Var("x", NUMBER)
TABLE = Table("r", (Column("k", NUMBER), Column("x", NUMBER)), primary_key=("k",))
ROW = Rel("r", (k, x))


def crossed(statements: tuple[Statement, ...]) -> Program:
    """Two views that each change by what the other holds; not the views of any query, but a program all the same."""
    views = tuple(ViewDefinition(name, (k,), (Field("total", Sum((k,), ROW)),)) for name in ("v", "w"))
    result: Expr = add(View("v", "total", (k,)), mul(View("w", "total", (k,)), View("w", "total", (k,))))
    query = Query(ROW, (OutputColumn("k", k),))
    return Program("p", "higher-order", query, views, (Trigger("r", statements),), result)


def increment(view: str, reads: str) -> Statement:
    change = Sum((k,), mul(Delta("r", (k, x)), Value(x)))
    beside = Sum((k,), mul(Delta("r", (k, x)), View(reads, "total", (k,))))
    return Statement(view, (k,), (Update("total", add(change, beside)),))


@pytest.mark.parametrize("first", ["v", "w"])
@pytest.mark.parametrize("partition_by", [{}, {"v": []}, {"v": [], "w": []}], ids=str)
def test_crossed_increments(first: str, partition_by: dict[str, list[str]]) -> None:
    statements = (increment("v", "w"), increment("w", "v"))
    program = crossed(statements if first == "v" else statements[::-1])
    plan = compile_distributed(program, {"r": TABLE}, partition_by=partition_by)
    reference, cluster = Reference(program, {"r": TABLE}), Cluster(plan, 3)
    for batch in ({(1, 5): 1, (2, 7): 1}, {(1, 6): 2, (3, 1): 1}, {(1, 5): -1, (2, 7): 3}):
        expected = reference.apply({"r": dict(batch)})
        cluster.apply({"r": batch})
        assert cluster.result() == expected
