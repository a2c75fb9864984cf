"""Every benchmark query on Spark equals the interpreter after every batch, and needs no more stages than Table 5.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.engines import disagreement
from tests.conformance.workload import order_book, warehouse
from tests.spark.harness import Run, players
from tests.spark_plan.test_stages import TABLE_5_1
from viewlet.changes import Changes
from viewlet.spark.run.execution import frame_change
from viewlet.spark.run.execution.cluster import SparkCluster
from viewlet.spark.run.execution.frame_change import FrameChange
from workloads import finance, tpch
from workloads.query import NamedQuery

pytestmark = pytest.mark.slow


LOADED_BEFORE = ("nation", "region")


class SparkRun(Run):
    """The same with data frames of two partitions."""

    def frame(self, name: str, changes: Changes) -> FrameChange:
        import pyarrow as pa

        parts = super().frame(name, changes)
        frame = self.cluster._spark.createDataFrame(pa.concat_tables(parts.frame))
        return FrameChange(parts.table, frame, parts.sign, parts.encoded)


def test_warehouse(spark: Any, tmp_path: Path) -> None:
    """All queries at once; `test_stages` plays each of them alone on two partitions."""
    tables, batches = warehouse().stream
    run = SparkRun(tmp_path, tpch.QUERIES, tables, 7, SparkCluster(spark))
    assert disagreement(players(run), batches[:3]) is None


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_order_book(spark: Any, partitions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_change, "SMALL_BYTES", 0)
    tables, batches = order_book().stream
    run = SparkRun(tmp_path, finance.QUERIES, tables, partitions, SparkCluster(spark))
    assert disagreement(players(run, spread=partitions == 2), batches) is None


def stages_run(spark: Any, group: str) -> Iterator[int]:
    """The stages that Spark has run for a group of jobs."""
    tracker = spark.sparkContext.statusTracker()
    for job in tracker.getJobIdsForGroup(group):
        yield from tracker.getJobInfo(job).stageIds


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_stages(spark: Any, query: NamedQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of data frames with changes of every table of the query, but those that the thesis loads beforehand."""
    monkeypatch.setattr(frame_change, "SMALL_BYTES", 0)
    tables, batches = warehouse().stream
    run = SparkRun(tmp_path, [query], tables, 2, SparkCluster(spark))
    before = {name: batches[0][name] for name in run.references[query.name].stores if name in LOADED_BEFORE}
    run.apply(before)
    run.expect(before)
    batch = {name: batches[0][name] for name in run.references[query.name].stores if name not in LOADED_BEFORE}
    frames = {name: run.frame(name, changes) for name, changes in batch.items()}
    group = f"stages of {query.name}"
    spark.sparkContext.setJobGroup(group, group)
    done, stats = run.engine.apply(2, frames)
    spark.sparkContext.setJobGroup("", "")
    run.commit(done, stats)
    found = len(set(stages_run(spark, group)))
    assert found == stats.stages <= TABLE_5_1[query.name]
    assert run.results() == run.expect(batch)
