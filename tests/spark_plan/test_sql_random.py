"""Random SQL over random rows: every view of its program, asked in SQL, is what the evaluator says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from tests.oracle.grammar.choices import DrawnChoices
from tests.oracle.grammar.values import TABLES
from tests.oracle.oracle import Oracle
from tests.oracle.scenario import Scenario, random_scenario
from tests.spark_plan.sql_database import STRATEGIES, Database
from viewlet.errors import InternalError, UnsupportedError, ViewletError
from workloads.query import NamedQuery


@st.composite
def scenarios(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Scenario:
    return random_scenario(DrawnChoices(draw))


@cache
def oracle() -> Oracle:
    made = Oracle(optimized=False)
    for name, statement in TABLES.items():
        made.create(name, statement)
    return made


@settings(max_examples=40)
@given(scenarios(), st.sampled_from(STRATEGIES))
def test_views_of_random_queries(scenario: Scenario, strategy: str) -> None:
    note(f"{scenario.script()}\n{strategy}")
    load = list(scenario.batches[:1])
    database = Database.of(TABLES, load)
    oracle().clear()
    oracle().apply(load[0])
    try:
        views = database.views(NamedQuery("result", scenario.sql), [strategy])
        for view in views:
            database.contents(view)
    except InternalError:
        raise
    except ViewletError:
        assume(False)
    for view in views:
        try:
            found = database.disagreement(view, oracle().rows, "duckdb")
        except UnsupportedError as error:
            event(f"not in SQL: {error.construct}")
        else:
            assert found is None, found
