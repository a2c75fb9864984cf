"""Plans and code depend on nothing but what is planned: that they are remembered between tests hides nothing."""

from __future__ import annotations

import inspect

import pytest

from tests.conformance.engines import schemas
from viewlet.algebra.printer import show
from viewlet.codegen.blocks import write_blocks
from viewlet.codegen.module import write_module
from viewlet.spark.plan.compile import DistributedProgram, compile_distributed
from viewlet.spark.plan.locations import RANDOM
from viewlet.spark.run.units.generated_node import block_plan
from viewlet.spark.run.units.plan_code import plan_code
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
    programs = [inspect.unwrap(compile_distributed)(program, TABLES) for program in (first, second)]
    arrivals = {trigger.table: RANDOM for trigger in first.triggers}
    plans = [inspect.unwrap(DistributedProgram._plan)(program, arrivals) for program in programs]
    assert plans[0] is not plans[1]
    assert repr(plans[0]) == repr(plans[1])
    assert plans[0] == programs[0].plan()


@pytest.mark.parametrize("name", ["q03", "q13", "q17"])
def test_writing_code_twice_gives_one_module(name: str) -> None:
    (sql,) = [query.sql for query in tpch.QUERIES if query.name == name]
    program = plan_query(name, bind_query(sql, TABLES).query, TABLES, "higher-order")
    modules = [inspect.unwrap(write_module)(program, TABLES) for _ in range(2)]
    assert modules[0] is not modules[1]
    assert repr(modules[0]) == repr(modules[1])
    distributed = compile_distributed(program, TABLES)
    plan = block_plan(plan_code(distributed.plan(), "spread"))
    blocks = [inspect.unwrap(write_blocks)(distributed.program, [plan]) for _ in range(2)]
    assert blocks[0] is not blocks[1]
    assert repr(blocks[0]) == repr(blocks[1])
