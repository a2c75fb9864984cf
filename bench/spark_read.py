"""Views on Spark read as data frames, beside Spark reading the same rows from Parquet.

    python -m bench.spark_read                        # into docs/benchmarks/spark.jsonl and spark.md
    python -m bench.spark_read --rows 100000 --views groups,extremes
    python -m bench.spark_read --before               # of an earlier version of Viewlet, on PYTHONPATH, to be compared

The views have a row per key, and are made of one stored view or of several (`VIEWS`). `count` counts the rows, `scan`
reads all columns and drops them, `write` writes them to Parquet. The first scan of a view includes what comes once: the
state is made from the files of the load, and code is compiled. `batch` inserts 1,000 rows while the changes of the view
are kept. Peaks are those of the driver's Python process above what it had before.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from bench import records
from bench.records import Record
from bench.run import ROOT
from bench.spark_report import FILE, write
from bench.spark_scale import Peak

ROWS = (1_000_000, 6_000_000)
REPEATS = 3
BATCH_ROWS = 1_000
STREAMS = """
    CREATE STREAM s (k BIGINT NOT NULL, x DECIMAL(9,2) NOT NULL);
    CREATE STREAM t (k BIGINT NOT NULL, y DECIMAL(9,2) NOT NULL)
"""
VIEWS = {
    "groups": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM s GROUP BY k",
    "extremes": "SELECT k, MIN(x) AS low, MAX(x) AS high, COUNT(*) AS n FROM s GROUP BY k",
    "joined": (
        "SELECT k, total, mean FROM (SELECT k, SUM(x) AS total FROM s GROUP BY k) a "
        "JOIN (SELECT k, AVG(y) AS mean FROM t GROUP BY k) b USING (k)"
    ),
    "large": "SELECT k, SUM(x) AS total FROM s GROUP BY k HAVING SUM(x) > (SELECT 950 * AVG(x) / 500 FROM s)",
    "share": "SELECT k, SUM(x) AS total, (SELECT SUM(x) FROM s) AS whole FROM s GROUP BY k",
}
"""Of one stored view; of values per group; of two aggregates; twice of one in partitions and one at the driver."""


def actions(folder: Path) -> dict[str, Callable[[Any], object]]:
    return {
        "count": lambda frame: frame.count(),
        "scan": lambda frame: frame.write.format("noop").mode("overwrite").save(),
        "write": lambda frame: frame.write.mode("overwrite").parquet(str(folder / "written")),
    }


def clocked(work: Callable[[], object]) -> tuple[float, int]:
    """Seconds, and megabytes that the process needed more."""
    with Peak(os.getpid()) as peak:
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
    return seconds, peak.megabytes


def measured(spark: Any, view: str, rows: int, folder: Path) -> Iterator[Record]:
    import viewlet

    for name, column in (("s", "x"), ("t", "y")):
        made = spark.range(rows).selectExpr("id AS k", f"CAST(id % 1000 AS DECIMAL(9,2)) AS {column}")
        made.write.parquet(str(folder / name))
    with viewlet.connect(spark=spark, checkpoint=folder / "state") as db:
        db.execute(STREAMS)
        db.expect_rows({"s": rows, "t": rows, "s.k": rows, "t.k": rows, "s.x": rows})
        db.execute(f"CREATE MATERIALIZED VIEW v PARTITION BY (k) AS {VIEWS[view]}")
        given = {name: spark.read.parquet(str(folder / name)) for name in ("s", "t") if f" {name} " in VIEWS[view]}
        load, _ = clocked(lambda: db.apply(given))
        first, _ = clocked(lambda: actions(folder)["scan"](db.view("v").to_spark()))
        db.view("v").to_spark().write.parquet(str(folder / "same"))
        assert db.view("v").to_spark().count() == spark.read.parquet(str(folder / "same")).count() > 0
        for action, run in actions(folder).items():
            found = {"what": action, "view": view, "rows": rows, "load_seconds": round(load, 2)}
            found["first_seconds"] = round(first, 2)
            frames = {
                "view": lambda: db.view("v").to_spark(),
                "parquet": lambda: spark.read.parquet(str(folder / "same")),
            }
            for name, frame in frames.items():
                runs = [clocked(lambda frame=frame, run=run: run(frame())) for _ in range(REPEATS)]
                found[f"{name}_seconds"] = round(median(seconds for seconds, _ in runs), 2)
                found[f"{name}_megabytes"] = max(megabytes for _, megabytes in runs)
            yield found
        db.changes("v")
        batches = [clocked(lambda number=number: db.insert("s", batch(number))) for number in range(REPEATS + 1)]
        yield {"what": "batch", "view": view, "rows": rows, "view_seconds": round(median(s for s, _ in batches[1:]), 3)}


def batch(number: int) -> Any:
    """New rows of some keys."""
    import pyarrow as pa

    keys = range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
    values = pa.array([5] * BATCH_ROWS, pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2))
    return pa.table({"k": pa.array(keys, pa.int64()), "x": values})


def main(tell: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--views", default=",".join(VIEWS))
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--file", type=Path, default=ROOT / "docs" / "benchmarks" / FILE)
    asked = parser.parse_args()
    import viewlet

    spark = viewlet.spark_session(asked.master, **{"spark.driver.memory": "3g"})
    run = time.strftime("%Y%m%dT%H%M%S")
    for rows, view in product(map(int, asked.rows.split(",")), asked.views.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            for record in measured(spark, view, rows, Path(folder)):
                tell(str(record))
                load = round(os.getloadavg()[0], 1)
                kind = "read before" if asked.before else "read"
                records.append(asked.file, {"kind": kind, "run": run, "load": load, **record})
    spark.stop()
    write(asked.file)


if __name__ == "__main__":
    main()
