"""Random SQL over random rows and changes finds no difference from DuckDB.

Hypothesis, which can shrink what it finds, plays queries on the interpreter; seeded ones run on the compiled engine
too. VIEWLET_ORACLE_QUERIES=5000 asks for more of those; `tests/oracle/hunt.py` does the same from the command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from tests.oracle.grammar.choices import DrawnChoices
from tests.oracle.hunt import Tally, TooSlow, at_most, hunt
from tests.oracle.scenario import OracleError, Scenario, expectations, objection, random_scenario
from viewlet.codegen import engine
from viewlet.runtime import ordered_index

QUERIES = int(os.environ.get("VIEWLET_ORACLE_QUERIES", "40"))
FIRST_SEED = 100_000
PATIENCE = 5.0
"""Seconds of processor time for one query; a few of them are planned for longer."""


@st.composite
def scenarios(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Scenario:
    return random_scenario(DrawnChoices(draw))


@settings(max_examples=settings.default.max_examples // 4)
@given(scenarios())
def test_a_random_view_equals_the_oracle_after_every_batch(scenario: Scenario) -> None:
    note(scenario.script())
    try:
        expected = expectations(scenario)
    except OracleError:
        assume(False)
    found = None
    try:
        with at_most(PATIENCE):
            found = objection(scenario, expected)
    except TooSlow:
        event("takes long to plan")
        assume(False)
    assert found is None, f"{found}\n{scenario.script()}"


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_seeded_queries_equal_the_oracle_on_both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated code reads results and keeps ranges in order however few rows there are."""
    monkeypatch.setattr(engine, "READ_BY_CODE_FROM", 0)
    monkeypatch.setattr(ordered_index, "SHORT", 2)
    tally = Tally()
    reports = list(hunt(range(FIRST_SEED, FIRST_SEED + QUERIES), ("interpreter", "compiled"), PATIENCE, tally))
    assert not [report for report in reports if report.startswith("DIFFERENCE")]
    assert not tally.refused, "a random query has no compiled form"
    assert min(tally.compared["interpreter"], tally.compared["compiled"]) >= QUERIES * 0.8, "\n".join(tally.lines())
