"""The random grammar reaches nearly all of the front end, and stays that way when the front end grows."""

from __future__ import annotations

import subprocess
import sys

import pytest

QUERIES = 1600
MISSED = 8
"""Branches that so few queries miss by chance."""


@pytest.mark.slow
def test_random_queries_reach_the_branches_of_the_front_end() -> None:
    command = [sys.executable, "-m", "tests.oracle.reach", "--queries", str(QUERIES), "--allow", str(MISSED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
