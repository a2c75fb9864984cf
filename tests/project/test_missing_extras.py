"""Without the optional libraries everything that needs one says which `pip install` brings it, and the rest works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("without_extras.py")
EXTRAS = {
    "linalg": "linalg",
    "program": "linalg",
    "signals": "signals",
    "signal": "signals",
    "sample": "signals",
    "ml": "ml",
    "spark": "spark",
    "session": "spark",
    "format": "spark",
    "matrices": "spark",
    "pandas": "pandas",
    "polars": "polars",
    "remote": "fsspec",
}


@pytest.fixture(scope="module")
def answers() -> list[str]:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_views_need_no_extra(answers: list[str]) -> None:
    assert answers[0] == "[(1, 1)] [(7, 1)]"


@pytest.mark.parametrize("name", EXTRAS)
def test_what_needs_an_extra_names_it(answers: list[str], name: str) -> None:
    answer = next(line for line in answers if line.startswith(f"{name} "))
    assert answer.endswith(f"pip install 'viewlet[{EXTRAS[name]}]'")
