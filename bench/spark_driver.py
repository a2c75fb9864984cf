"""Large batches beside a small driver: views on Spark, and the job that a Spark user writes by hand.

    python -m bench.spark_driver                      # batches of 10 million rows, into docs/benchmarks/spark.jsonl
    python -m bench.spark_driver --rows 1000000
    python -m bench.spark_driver --kinds large        # a view of 20 million rows

The driver has 1 GB for its JVM. `groups` adds batches of rows to a view with half as many groups as a batch has rows,
`join` to a join of two streams, half of the batch each. `large` begins with a load of as many groups as two batches
have rows; a batch then changes half as many, and adds some. By hand, a batch is aggregated, put together with the old
contents in Parquet files, grouped again and written; the join keeps both tables as Parquet and is evaluated again. The
changes of the view are kept, and followed by a job that reads them as a data source; the view is written to Parquet.
Peaks are those of the driver's processes above what they had before the batch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import records
from bench.records import Record
from bench.run import ROOT
from bench.spark_report import FILE, write
from bench.spark_scale import Peak

ROWS = 10_000_000
BATCHES = 2
FIRST = 1_000
"""Rows of a batch before all others; a view that is still empty would be loaded by Spark SQL instead."""
GROUPS = """
    CREATE STREAM s (k BIGINT NOT NULL, x BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW v PARTITION BY (k) AS SELECT k, SUM(x) AS total, COUNT(*) AS n FROM s GROUP BY k
"""
JOIN = """
    CREATE STREAM a (k BIGINT NOT NULL, g BIGINT NOT NULL);
    CREATE STREAM b (k BIGINT NOT NULL, x BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW v PARTITION BY (g) AS SELECT g, SUM(x) AS total FROM a JOIN b USING (k) GROUP BY g
"""


class Work:
    """One kind of view, its batches, and the same by hand."""

    is_loaded = False
    """The first batch is loaded by Spark SQL into the empty view; otherwise a small one comes before it."""

    def __init__(self, spark: Any, folder: Path, rows: int) -> None:
        self.spark, self.folder, self.rows = spark, folder, rows

    def batch(self, number: int) -> dict[str, Any]:
        """A batch as files, so that neither side computes it."""
        names = self.frames(number)
        for name, frame in names.items():
            frame.write.mode("overwrite").parquet(str(self.folder / f"batch-{name}"))
        return {name: self.spark.read.parquet(str(self.folder / f"batch-{name}")) for name in names}

    def frames(self, number: int) -> dict[str, Any]:
        raise NotImplementedError

    def by_hand(self, number: int, batch: dict[str, Any]) -> Any:
        """What the job by hand shows after a batch."""
        raise NotImplementedError

    def written(self, name: str, number: int, frame: Any) -> Any:
        """A table that is rewritten; the one before the last is removed."""
        frame.write.parquet(str(self.folder / f"{name}-{number}"))
        shutil.rmtree(self.folder / f"{name}-{number - 1}", ignore_errors=True)
        return self.spark.read.parquet(str(self.folder / f"{name}-{number}"))

    def before(self, name: str, number: int) -> list[Any]:
        path = self.folder / f"{name}-{number - 1}"
        return [self.spark.read.parquet(str(path))] if path.exists() else []


class Groups(Work):
    declared = GROUPS

    def frames(self, number: int) -> dict[str, Any]:
        keys = max(1, self.rows // 2)
        text = (f"CAST((id * 7919 + {number}) % {keys} AS BIGINT) AS k", f"CAST(id % 97 + {number} AS BIGINT) AS x")
        return {"s": self.spark.range(self.rows).selectExpr(*text)}

    def by_hand(self, number: int, batch: dict[str, Any]) -> Any:
        new = batch["s"].groupBy("k").agg({"x": "sum", "*": "count"}).toDF("k", "total", "n")
        for old in self.before("old", number):
            new = (
                new.union(old)
                .groupBy("k")
                .agg({"total": "sum", "n": "sum"})
                .selectExpr("k", "`sum(total)` AS total", "`sum(n)` AS n")
            )
        return self.written("old", number, new)


class Join(Work):
    declared = JOIN

    def frames(self, number: int) -> dict[str, Any]:
        half = max(1, self.rows // 2)
        first = f"id + {number * half} AS k"
        return {
            "a": self.spark.range(half).selectExpr(first, f"id % {max(1, half // 10)} AS g"),
            "b": self.spark.range(half).selectExpr(first, "id % 89 AS x"),
        }

    def by_hand(self, number: int, batch: dict[str, Any]) -> Any:
        for name, frame in batch.items():
            frame.write.mode("append").parquet(str(self.folder / f"all-{name}"))
        whole = {name: self.spark.read.parquet(str(self.folder / f"all-{name}")) for name in batch}
        found = whole["a"].join(whole["b"], "k").groupBy("g").agg({"x": "sum"}).toDF("g", "total")
        return self.written("old", number, found)


class Large(Groups):
    """A view with twice as many rows as a batch, which is loaded at once."""

    is_loaded = True

    def frames(self, number: int) -> dict[str, Any]:
        keys = 2 * self.rows
        if not number:
            return {"s": self.spark.range(keys).selectExpr("id AS k", "CAST(id % 97 AS BIGINT) AS x")}
        text = (f"CAST((id * 7919 + {number}) % {keys + keys // 10} AS BIGINT) AS k", "CAST(id % 89 AS BIGINT) AS x")
        return {"s": self.spark.range(self.rows).selectExpr(*text)}


WORK = {"groups": Groups, "join": Join, "large": Large}


def clocked(jvm: int, work: Callable[[], Any]) -> tuple[dict[str, Any], Any]:
    with Peak(os.getpid()) as python, Peak(jvm) as java:
        started = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - started
    return {"seconds": round(seconds, 2), "python": python.megabytes, "jvm": java.megabytes}, found


def batches_of(work: Work, apply: Callable[[int, dict[str, Any]], Any], jvm: int) -> tuple[dict[str, Any], Any]:
    """The last of some batches: the one before it compiles what it needs and fills the view."""
    if not work.is_loaded:
        apply(-1, type(work)(work.spark, work.folder, FIRST).frames(BATCHES))
    taken: list[float] = []
    for number in range(BATCHES):
        batch = work.batch(number)
        told, found = clocked(jvm, lambda batch=batch, number=number: apply(number, batch))
        taken.append(told["seconds"])
    return {**told, "before": taken[0]}, found


def digest(frame: Any) -> tuple[int, int]:
    """The number of rows, and a number that depends on all of them."""
    columns = ", ".join(f"CAST({name} AS BIGINT)" for name in frame.columns)
    count, total = frame.selectExpr("COUNT(*)", f"SUM(CAST(xxhash64({columns}) AS DECIMAL(38,0)))").first()
    return int(count), int(total or 0)


def by_hand(work: Work, jvm: int) -> Record:
    told, found = batches_of(work, work.by_hand, jvm)
    count, total = digest(found)
    return {"by_hand": told, "groups": count, "digest": total}


def by_view(work: Work, jvm: int) -> Record:
    """The view, written to Parquet and followed; its digest is that of the job by hand if both are right."""
    import viewlet

    spark, folder = work.spark, work.folder
    viewlet.register_format(spark)
    with viewlet.connect(spark=spark, checkpoint=folder / "state", engine="compiled") as db:
        db.execute(work.declared)
        db.changes("v")
        told, _ = batches_of(work, lambda _, batch: db.apply(batch), jvm)
        output = folder / "output"
        shown = db.view("v").to_spark()
        counted, _ = clocked(jvm, shown.count)
        wrote, _ = clocked(jvm, lambda: shown.write.parquet(str(output)))
        feed = spark.read.format("viewlet").options(view="v", readChangeFeed="true", startingVersion=str(db.epoch))
        noop = feed.load(str(folder / "state")).write.format("noop").mode("overwrite")
        followed, _ = clocked(jvm, noop.save)
        count, total = digest(spark.read.parquet(str(output)))
        net = net_changes(spark, db.epoch, str(folder / "state"))
    found = {"view": told, "count": counted, "write": wrote, "follow": followed, "groups": count, "digest": total}
    return {**found, "changes_add_up": net == (count, total)}


def net_changes(spark: Any, until: int, state: str) -> tuple[int, int]:
    """What `digest` tells of a view, from all its changes: rows that came, less those that went."""
    feed = spark.read.format("viewlet").options(view="v", readChangeFeed="true", startingVersion="1")
    changes = feed.option("endingVersion", str(until)).load(state)
    names = [name for name in changes.columns if not name.startswith("_")]
    columns = ", ".join(f"CAST({name} AS BIGINT)" for name in names)
    sign = "IF(_change_type = 'insert', 1, -1)"
    hashed = f"SUM({sign} * CAST(xxhash64({columns}) AS DECIMAL(38,0)))"
    count, total = changes.selectExpr(f"SUM({sign})", hashed).first()
    return int(count), int(total or 0)


SIDES = {"view": by_view, "hand": by_hand}


def main(tell: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--kinds", default="groups,join", help=", ".join(WORK))
    parser.add_argument("--sides", default=",".join(SIDES), help="one of them where there is little time")
    parser.add_argument("--master", default="local-cluster[2,1,3072]")
    parser.add_argument("--file", type=Path, default=ROOT / "docs" / "benchmarks" / FILE)
    asked = parser.parse_args()
    import pyspark

    import viewlet

    os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__))
    passed = {"spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    memory = {"spark.driver.memory": "1g", "spark.executor.memory": "2g"} if "cluster" in asked.master else {}
    spark = viewlet.spark_session(asked.master, **passed, **{"spark.driver.memory": "1g", **memory})
    run = time.strftime("%Y%m%dT%H%M%S")
    jvm = spark.sparkContext._gateway.proc.pid
    for kind in asked.kinds.split(","):
        for side in asked.sides.split(","):
            with tempfile.TemporaryDirectory() as folder:
                found = SIDES[side](WORK[kind](spark, Path(folder), asked.rows), jvm)
            record = {"what": kind, "rows": asked.rows, "batches": BATCHES, **found}
            tell(str(record))
            load = round(os.getloadavg()[0], 1)
            facts = {"kind": "driver", "run": run, "load": load, "master": asked.master, **record}
            records.append(asked.file, facts)
    spark.stop()
    write(asked.file)


if __name__ == "__main__":
    main()
