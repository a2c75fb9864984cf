"""The first load of several views and of the tables that they read, and Spark SQL that computes the queries once.

    python -m bench.spark_load                        # six views at scale 0.05, into docs/benchmarks/spark.jsonl
    python -m bench.spark_load --scale 0.01 --queries q01,q03 --record ""

One session for everything. Spark SQL first runs the queries, one after the other, over Parquet files: the first run is
*cold*, as the session has not run anything, the median of the later ones is *warm*. Then the tables are declared, which
keep their rows, and the views, and one batch gives them all rows as data frames of the same files. The first load
starts Python workers; the later ones go into directories of their own. *Jobs* has the seconds of Spark's jobs by their
descriptions: they may overlap.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from bench import records
from bench.records import Record
from bench.run import ROOT, caches
from bench.sources import find_query
from bench.spark_changes import sizes_of
from bench.spark_check import same_answer
from bench.spark_report import FILE, write
from workloads import tpch
from workloads.query import NamedQuery
from workloads.tpch import load_tpch

QUERIES = "q01,q03,q05,q10,q12,q18"
DATA = ROOT / "bench" / "results" / "data"


class Jobs:
    """The jobs that Spark has run since, by what they are called: how many, and their seconds."""

    def __init__(self, spark: Any) -> None:
        self._store = spark.sparkContext._jsc.sc().statusStore()
        self._seen = {job.jobId() for job in self._jobs()}

    def _jobs(self) -> list[Any]:
        found = self._store.jobsList(None)
        return [found.apply(i) for i in range(found.size())]

    def since(self) -> dict[str, tuple[int, float]]:
        taken: dict[str, tuple[int, float]] = {}
        for job in self._jobs():
            if job.jobId() not in self._seen and job.completionTime().isDefined():
                what = job.description().get() if job.description().isDefined() else job.name().partition(" at ")[0]
                count, seconds = taken.get(what, (0, 0.0))
                spent = job.completionTime().get().getTime() - job.submissionTime().get().getTime()
                taken[what] = count + 1, seconds + spent / 1000
        return taken


def cpu_seconds() -> float:
    """What this process has worked, and all below it: Java and Python workers."""
    stats: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    mine = {os.getpid()}
    while more := {number for number, fields in stats.items() if int(fields[1]) in mine} - mine:
        mine |= more
    return sum(sum(map(int, stats[number][11:15])) for number in mine) / os.sysconf("SC_CLK_TCK")


def clocked(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of processors."""
    started, worked = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - started, cpu_seconds() - worked


def recomputed(spark: Any, files: dict[str, Path], queries: Sequence[NamedQuery], times: int) -> Record:
    """All queries one after the other, each answer brought to the driver."""
    for name in tables_of(files, queries):
        spark.read.parquet(str(files[name])).createOrReplaceTempView(name)
    cold, *later = [clocked(lambda: [spark.sql(query.sql).toArrow() for query in queries]) for _ in range(times + 1)]
    warm = [median(each) for each in zip(*later, strict=True)]
    return {
        "cold_seconds": round(cold[0], 2),
        "cold_cpu": round(cold[1], 2),
        "warm_seconds": round(warm[0], 2),
        "warm_cpu": round(warm[1], 2),
    }


def tables_of(files: dict[str, Path], queries: Sequence[NamedQuery]) -> list[str]:
    return sorted({name for query in queries for name in sizes_of(query, files)})


def loaded(
    spark: Any, files: dict[str, Path], queries: Sequence[NamedQuery], folder: str, engine: str, mode: str
) -> Record:
    """Declares tables and views, and gives them all rows in one batch."""
    import pyarrow.parquet as pq

    import viewlet

    jobs = Jobs(spark)
    with viewlet.connect(spark=spark, checkpoint=folder, partitions=2, engine=engine) as db:
        started = time.perf_counter()
        names = tables_of(files, queries)
        for name in names:
            db.execute(tpch.TABLES[name])
        for query in queries:
            db.execute(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")
        declared = time.perf_counter() - started
        if mode == "arrow":
            given: dict[str, Any] = {name: pq.read_table(files[name]) for name in names}
        else:
            given = {name: spark.read.parquet(str(files[name])) for name in names}
        taken, worked = clocked(lambda: db.apply(given))
        phases = {name: round(spent, 2) for name, spent in db.stats()["batches"][-1]["seconds"].items()}
        right = all(same_answer(q, db.view(q.name).to_arrow(), spark.sql(q.body).toArrow()) for q in queries)
        rows = db.stats()["batches"][-1]["state_rows"]
    return {
        "declare_seconds": round(declared, 2),
        "load_seconds": round(taken, 2),
        "load_cpu": round(worked, 2),
        "phases": phases,
        "jobs": {what: [count, round(spent, 2)] for what, (count, spent) in jobs.since().items()},
        "state_rows": rows,
        "correct": right,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--queries", default=QUERIES)
    parser.add_argument("--mode", default="frames", choices=("frames", "arrow"))
    parser.add_argument("--engine", default="auto", choices=("auto", "compiled", "interpreter"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--file", default=str(ROOT / "docs" / "benchmarks" / FILE), help="empty for none")
    asked = parser.parse_args()
    queries = [find_query("tpch", name) for name in asked.queries.split(",")]
    files = load_tpch(asked.scale, DATA)
    os.environ.update(caches())
    import viewlet

    spark = viewlet.spark_session("local[2]", **{"spark.driver.memory": asked.memory})
    try:
        found: Record = {"what": "first load", "scale": asked.scale, "queries": asked.queries, "mode": asked.mode}
        found |= recomputed(spark, files, queries, asked.repeats)
        print(found, flush=True)
        loads = []
        for _ in range(asked.repeats):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["VIEWLET_STATE"] = f"{folder}/state"
                loads.append(loaded(spark, files, queries, f"{folder}/checkpoint", asked.engine, asked.mode))
            print(loads[-1], flush=True)
    finally:
        spark.stop()
    found |= {f"first_{name}": value for name, value in loads[0].items()}
    found |= sorted(loads[1:] or loads, key=lambda each: each["load_seconds"])[len(loads[1:]) // 2]
    for against in ("cold", "warm"):
        for unit in ("seconds", "cpu"):
            first, later = (loads[0][f"load_{unit}"], found[f"load_{unit}"])
            own = found[f"{against}_{unit}"]
            print(f"{unit}, against Spark SQL {against}: first {first / own:.1f}x, later {later / own:.1f}x")
    if asked.file:
        run = time.strftime("%Y%m%dT%H%M%S")
        file = Path(asked.file)
        records.append(file, {"kind": "first load", "run": run, "load": round(os.getloadavg()[0], 1), **found})
        write(file)


if __name__ == "__main__":
    main()
