"""Large queries are planned for Spark with little work, and large scalars come out of it as they went in."""

from __future__ import annotations

from inspect import unwrap

import pytest

from bench.declare_queries import FAMILIES
from tests.triggers.test_large_queries import calls_of
from viewlet.algebra.nodes import Call, Cond, Const, Delta, Mul, Scalar, Sum, Value, Var, View
from viewlet.codegen.blocks import write_blocks
from viewlet.engine.trigger_programs import as_streams
from viewlet.spark.plan.abbreviate import LARGE, Abbreviations, node_count
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.plan.locations import LOCAL, RANDOM
from viewlet.spark.plan.program import BatchPlan, Compute, Mode
from viewlet.spark.run.units.generated_node import block_plan
from viewlet.spark.run.units.unit import ProgramUnit
from viewlet.sql import CreateTable, bind_query, parse_statements
from viewlet.triggers.plan import plan_query
from viewlet.triggers.program import Statement, Trigger, Update
from viewlet.types import BIGINT, BOOLEAN, Table

X, Y, Z = (Var(name, BIGINT) for name in "xyz")


def tables_and_query(family: str, size: int) -> tuple[dict[str, Table], str]:
    *tables, view = FAMILIES[family].statements(size)
    made = parse_statements(";".join(tables), {})
    return {each.table.name: each.table for each in made if isinstance(each, CreateTable)}, view.split(" AS ", 1)[1]


def planning_calls(family: str, size: int) -> int:
    """The calls of functions that planning the batches of a view takes, once its trigger program is there."""
    tables, query = tables_and_query(family, size)
    streams = as_streams(tables)
    program = plan_query("q", bind_query(query, tables).query, streams, "view-tree")

    def plan() -> list[BatchPlan]:
        distributed = unwrap(compile_distributed)(program, streams)
        make = unwrap(type(distributed)._plan)
        return [make(distributed, dict.fromkeys(program.changing, at)) for at in (LOCAL, RANDOM)]

    return calls_of(plan)


@pytest.mark.parametrize(
    ("family", "size", "most"),
    [
        ("outer joins, conditions", 4, 1_500_000),
        ("left joins to 4 outputs", 5, 1_550_000),
        ("left joins, chain", 8, 1_500_000),
        ("nested aggregates", 5, 720_000),
    ],
)
def test_batches_are_planned_with_bounded_work(family: str, size: int, most: int) -> None:
    assert planning_calls(family, size) <= most, "a million calls take about a third of a second"


def writing_calls(family: str, size: int) -> int:
    """The calls of functions that writing the code of executors takes, once the batches of a view are planned."""
    tables, query = tables_and_query(family, size)
    streams = as_streams(tables)
    program = plan_query("q", bind_query(query, tables).query, streams, "view-tree")
    unit = ProgramUnit("q", compile_distributed(program, streams), streams)
    plans = [block_plan(plan) for plan in unit.plans.values()]
    return calls_of(lambda: unwrap(write_blocks)(unit.program, plans))


def test_code_is_written_with_bounded_work() -> None:
    small, large = (writing_calls("outer joins, conditions", size) for size in (2, 4))
    assert large <= 1_600_000
    assert large <= 1.5 * 2**2 * small, "it grows no worse than quadratically"


def large_test(left: Var, right: Var, count: int = LARGE) -> Call:
    tests = (Call(">", (Call("+", (left, Const(i, BIGINT)), BIGINT), right), BOOLEAN) for i in range(count))
    return Call("and", tuple(tests), BOOLEAN)


def trigger_of(*scalars: Scalar) -> Trigger:
    factors = (Delta("r", (X, Y)), View("v", "count", (Y, Z)), *map(Cond, scalars), Value(X))
    return Trigger("r", (Statement("q", (X,), (Update("count", Sum((X,), Mul(factors))),)),))


def test_large_scalars_are_abbreviated_and_come_back() -> None:
    short, trigger = Abbreviations(), trigger_of(large_test(X, Y), large_test(Y, Z), Call("=", (X, Z), BOOLEAN))
    (statement,) = short.shorten(trigger).statements
    (update,) = statement.updates
    assert isinstance(update.expr, Sum)
    assert isinstance(update.expr.body, Mul)
    first, second, third = (each.scalar for each in update.expr.body.factors if isinstance(each, Cond))
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert (first.args, second.args) == ((X, Y), (Y, Z))
    assert first.op == second.op, "they differ in the names of variables only"
    assert third == Call("=", (X, Z), BOOLEAN)
    (step,) = short.expand([Compute(statement, Mode.LOCAL)])
    assert isinstance(step, Compute)
    assert step.statement == trigger.statements[0]


def test_scalars_that_differ_have_names_of_their_own() -> None:
    short = Abbreviations()
    (statement,) = short.shorten(trigger_of(large_test(X, Y), large_test(X, Y, LARGE + 1))).statements
    conditions = [
        node.scalar
        for update in statement.updates
        if isinstance(update.expr, Sum) and isinstance(update.expr.body, Mul)
        for node in update.expr.body.factors
        if isinstance(node, Cond)
    ]
    assert len({each.op for each in conditions if isinstance(each, Call)}) == 2
    assert node_count(large_test(X, Y)) > LARGE
