"""Random SQL over random rows and changes finds no difference from DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import assume, given, note
from hypothesis import strategies as st

from tests.oracle.grammar.choices import DrawnChoices
from tests.oracle.scenario import OracleError, Scenario, expectations, objection, random_scenario


@st.composite
def scenarios(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Scenario:
    return random_scenario(DrawnChoices(draw))


@given(scenarios())
def test_a_random_view_equals_the_oracle_after_every_batch(scenario: Scenario) -> None:
    note(scenario.script())
    try:
        expected = expectations(scenario)
    except OracleError:
        assume(False)
    found = objection(scenario, expected)
    assert found is None, f"{found}\n{scenario.script()}"
