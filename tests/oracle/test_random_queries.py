"""Random SQL over random rows and changes finds no difference from DuckDB.

Hypothesis, which can shrink what it finds, plays queries on the interpreter; seeded ones run on the compiled engine
too. VIEWLET_ORACLE_QUERIES=5000 asks for more of those; `tests/oracle/hunt.py` does the same from the command line.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from tests.oracle.grammar.choices import DrawnChoices
from tests.oracle.hunt import TooSlow, at_most
from tests.oracle.scenario import OracleError, Scenario, expectations, objection, random_scenario

QUERIES = int(os.environ.get("VIEWLET_ORACLE_QUERIES", "20"))
FIRST_SEED = 100_000
ROOT = Path(__file__).parents[2]
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


def test_seeded_queries_equal_the_oracle_on_both_engines() -> None:
    """In a process that runs generated code as plain Python: compiling each query takes longer than all the rest."""
    options = ["--queries", str(QUERIES), "--seed", str(FIRST_SEED), "--patience", str(PATIENCE)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.oracle.hunt", *options],
        env=os.environ | {"VIEWLET_JIT": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "DIFFERENCE" not in done.stdout, done.stdout
    compared = re.search(r"compared: (\{.*?\})", done.stdout)
    assert compared is not None, done.stdout
    counts = ast.literal_eval(compared[1])
    assert min(counts["interpreter"], counts["compiled"]) >= QUERIES * 0.8, done.stdout
