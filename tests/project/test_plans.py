"""Plans depend on nothing but what is planned: that they are remembered between tests hides nothing."""

from __future__ import annotations

import inspect

import pytest

from tests.conformance.engines import schemas
from viewlet.algebra.printer import show
from viewlet.spark.plan.compile import compile_distributed
from viewlet.sql import bind_query
from viewlet.triggers.plan import plan_query
from workloads import tpch

TABLES = schemas(tpch.TABLES)


@pytest.mark.parametrize("name", ["q03", "q13", "q17"])
def test_planning_twice_gives_one_plan(name: str) -> None:
    (sql,) = [query.sql for query in tpch.QUERIES if query.name == name]
    query = bind_query(sql, TABLES).query
    first, second = (inspect.unwrap(plan_query)(name, query, TABLES, "higher-order") for _ in range(2))
    assert first is not second
    assert repr(first) == repr(second)
    assert [show(step.after) for step in first.passes] == [show(step.after) for step in second.passes]
    plans = [inspect.unwrap(compile_distributed)(program, TABLES).plan() for program in (first, second)]
    assert plans[0] is not plans[1]
    assert repr(plans[0]) == repr(plans[1])
