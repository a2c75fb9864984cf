"""All 22 TPC-H queries, every strategy, mixed streams of batches of 1, 10 or 100 changes."""

from __future__ import annotations

from functools import cache

import pytest

from tests.oracle.oracle import Step, transcript
from tests.oracle.play import BATCH_SIZES, FULL, PLAYED, objections, report
from workloads.streams import mixed_batches
from workloads.tpch import KEY_POSITIONS, QUERIES, TABLES, small_database

BATCHES = {1: 15, 10: 12, 100: 5}
FULL_BATCHES = {1: 400, 10: 100, 100: 40}


@cache
def steps(batch_size: int, seed: int = 9) -> list[Step]:
    """The first batch loads most of the database into views that are empty; the others mix changes of every kind."""
    count = (FULL_BATCHES if FULL else BATCHES)[batch_size]
    first, batches = mixed_batches(small_database(seed), KEY_POSITIONS, batch_size, count, seed)
    return transcript(TABLES, QUERIES, [first, *batches])


@pytest.mark.parametrize(("strategy", "batch_size"), PLAYED)
def test_views_equal_the_oracle_after_every_batch(strategy: str, batch_size: int) -> None:
    found = objections(TABLES, QUERIES, steps(batch_size), strategy)
    assert not found, report(found)


def test_a_view_may_be_declared_over_a_loaded_database() -> None:
    found = objections(TABLES, QUERIES, steps(10), "auto", declare_at=1)
    assert not found, report(found)


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_every_query_has_an_answer_somewhere_in_its_stream(batch_size: int) -> None:
    """Comparing empty answers proves nothing."""
    played = steps(batch_size)
    silent = [query.name for query in QUERIES if not any(_speaks(step, query.name) for step in played)]
    assert not silent


def _speaks(step: Step, name: str) -> bool:
    return any(value is not None for row in step.expected[name].answer for value in row)
