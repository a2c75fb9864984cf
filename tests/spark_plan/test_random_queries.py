"""Random SQL over random rows and changes: a cluster of any size shows what the interpreter shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from tests.conformance.engines import changes_in_order, disagreement, schemas
from tests.oracle.grammar.choices import DrawnChoices
from tests.oracle.grammar.values import TABLES
from tests.oracle.scenario import Scenario, random_scenario
from tests.spark_plan.distributing import on_workers, program_of
from viewlet.errors import InternalError, ViewletError
from viewlet.spark.plan import compile_distributed
from viewlet.spark.plan.locations import Dist
from viewlet.types import Table
from workloads.query import NamedQuery


@cache
def declared() -> dict[str, Table]:
    return schemas(TABLES)


@st.composite
def scenarios(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Scenario:
    return random_scenario(DrawnChoices(draw))


@st.composite
def partitionings(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, list[str]]:
    """For some tables, a column that views go by if it is among their keys."""
    chosen = {name: draw(st.sampled_from((None, *table.column_names))) for name, table in declared().items()}
    return {name: [column] for name, column in chosen.items() if column is not None}


@settings(max_examples=25)
@given(scenarios(), st.sampled_from(["auto", "higher-order", "first-order"]), partitionings())
def test_a_random_view_equals_the_interpreter_after_every_batch(
    scenario: Scenario, strategy: str, partition_by: dict[str, list[str]]
) -> None:
    note(f"{scenario.script()}\n{strategy}, partitioned by {partition_by}")
    try:
        program, sources = program_of(NamedQuery("result", scenario.sql), declared(), strategy)
        batches = changes_in_order(declared(), scenario.batches)
        wanted = {table: columns for table, columns in partition_by.items() if table in sources}
        plan = compile_distributed(program, sources, partition_by=wanted)
        found = disagreement(on_workers(program, plan, sources, workers=(3,)), batches)
    except InternalError:
        raise
    except ViewletError:
        assume(False)
    event(
        "partitioned"
        if any(isinstance(location, Dist) for location in plan.locations.values())
        else "all at the driver"
    )
    assert found is None, f"{found}\n{scenario.script()}"
