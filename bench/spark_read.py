"""A view on Spark read as a data frame, beside Spark reading the same rows from Parquet.

    python -m bench.spark_read                        # into docs/benchmarks/spark.jsonl and spark.md
    python -m bench.spark_read --rows 100000

The view has a row per key: a key, a sum and a count. `count` counts the rows, `scan` reads all columns and drops them,
`write` writes them to Parquet. The first scan of a view includes what comes once: the state is made from the files of
the load, and code is compiled. Peaks are those of the driver's Python process above what it had before.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
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
STREAM = "CREATE STREAM s (k BIGINT NOT NULL, x DECIMAL(9,2) NOT NULL)"
VIEW = "CREATE MATERIALIZED VIEW v PARTITION BY (k) AS SELECT k, SUM(x) AS total, COUNT(*) AS n FROM s GROUP BY k"


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


def measured(spark: Any, rows: int, folder: Path) -> Iterator[Record]:
    import viewlet

    source = folder / "source"
    spark.range(rows).selectExpr("id AS k", "CAST(id % 1000 AS DECIMAL(9,2)) AS x").write.parquet(str(source))
    with viewlet.connect(spark=spark, checkpoint=folder / "state") as db:
        db.execute(f"{STREAM}; {VIEW}")
        load, _ = clocked(lambda: db.insert("s", spark.read.parquet(str(source))))
        first, _ = clocked(lambda: actions(folder)["scan"](db.view("v").to_spark()))
        db.view("v").to_spark().write.parquet(str(folder / "same"))
        assert db.view("v").to_spark().count() == rows
        for action, run in actions(folder).items():
            found = {"what": action, "rows": rows, "load_seconds": round(load, 2), "first_seconds": round(first, 2)}
            frames = {
                "view": lambda: db.view("v").to_spark(),
                "parquet": lambda: spark.read.parquet(str(folder / "same")),
            }
            for name, frame in frames.items():
                runs = [clocked(lambda frame=frame, run=run: run(frame())) for _ in range(REPEATS)]
                found[f"{name}_seconds"] = round(median(seconds for seconds, _ in runs), 2)
                found[f"{name}_megabytes"] = max(megabytes for _, megabytes in runs)
            yield found


def main(tell: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--file", type=Path, default=ROOT / "docs" / "benchmarks" / FILE)
    asked = parser.parse_args()
    import viewlet

    spark = viewlet.spark_session(asked.master, **{"spark.driver.memory": "3g"})
    run = time.strftime("%Y%m%dT%H%M%S")
    for rows in map(int, asked.rows.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            for record in measured(spark, rows, Path(folder)):
                tell(str(record))
                load = round(os.getloadavg()[0], 1)
                records.append(asked.file, {"kind": "read", "run": run, "load": load, **record})
    spark.stop()
    write(asked.file)


if __name__ == "__main__":
    main()
