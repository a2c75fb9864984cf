"""Views that statements only add to are placed without planning both places: the state that moves is the same."""

from __future__ import annotations

import pytest

from tests.spark_plan.distributing import distributed
from tests.spark_plan.test_stages import tables_of
from viewlet.spark.plan import DistributedProgram
from viewlet.spark.plan import compile as pipeline
from workloads.query import NamedQuery
from workloads.tpch import QUERIES


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_as_planning_both_would_show(query: NamedQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are unknown, so that groups go to partitions unless that is a burden."""
    decide = pipeline._is_no_more_burden

    def compared(other: DistributedProgram, best: DistributedProgram) -> bool:
        found = decide(other, best)
        assert found == (other.burden <= best.burden)
        return found

    monkeypatch.setattr(pipeline, "_is_no_more_burden", compared)
    distributed(query, tables_of(static=False))
