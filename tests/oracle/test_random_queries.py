"""Random SQL over random rows and changes finds no difference from DuckDB.

Hypothesis, which can shrink what it finds, plays queries on the interpreter; seeded ones run on the compiled engine
too. VIEWLET_ORACLE_QUERIES=5000 asks for more of those, best with VIEWLET_JIT=0; `tests/oracle/hunt.py` does the same
from the command line and goes on after a difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from tests.oracle.grammar.choices import DrawnChoices
from tests.oracle.hunt import Tally, TooSlow, at_most, hunt
from tests.oracle.scenario import OracleError, Scenario, expectations, objection, random_scenario

QUERIES = int(os.environ.get("VIEWLET_ORACLE_QUERIES", "20"))
FIRST_SEED = 100_000
PATIENCE = 5.0
"""Seconds of processor time for one query; a few of them are planned for longer."""


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
    found = None
    try:
        with at_most(PATIENCE):
            found = objection(scenario, expected)
    except TooSlow:
        event("takes long to plan")
        assume(False)
    assert found is None, f"{found}\n{scenario.script()}"


def test_seeded_queries_equal_the_oracle_on_both_engines() -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + QUERIES)
    tally = Tally()
    reports = list(hunt(seeds, ("interpreter", "compiled"), PATIENCE, tally))
    found = [report for report in reports if report.startswith("DIFFERENCE")]
    assert not found, "\n".join(found)
    assert tally.compared["interpreter"] >= QUERIES * 0.8
    assert tally.compared["compiled"] >= QUERIES * 0.4
