"""Stream views on Spark SQL, against a job by hand and against Structured Streaming's own windows.

    python -m bench.stream_spark --records 1000000 --what pattern
    python -m bench.stream_spark --records 100000 --what window

*pattern*: the refresh of View 4 for a new minute, against one job that joins the minute with the state and writes it.
*window*: sums over ten minutes, every minute, late rows included: all of `db.insert` into a window view, against a
streaming query with RocksDB as its state store over the same rows as files, with as many partitions, that writes the
rows that it changes. Wall seconds per minute of data, the median of the last ones. Both do the same minutes in turns:
Java becomes faster the longer it runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import viewlet
from bench.stream_views import ONE_ROW, ORIGIN, PATTERN, STREAM, WINDOW, Load
from viewlet.streams import SparkSqlHost

SCHEMA = "ts TIMESTAMP, src BIGINT, dest BIGINT, loss BIGINT"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PARTITIONS = "2"
Spent = tuple[float, float]
"""Wall seconds, and CPU seconds of Java and Python together."""
Turns = list[tuple[Spent, Spent]]
"""What ours and the other spent on the same minutes."""


def session() -> Any:
    options = {
        "spark.sql.shuffle.partitions": PARTITIONS,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.session.timeZone": "UTC",
    }
    return viewlet.spark_session("local[2]", **options)


def cpu_seconds(spark: Any) -> float:
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + time.process_time()


def spent(spark: Any, step: Callable[[], object]) -> Spent:
    cpu, wall = cpu_seconds(spark), time.perf_counter()
    step()
    return time.perf_counter() - wall, cpu_seconds(spark) - cpu


def pattern(spark: Any, folder: Path, records: int, minutes: int) -> Turns:
    """Refreshes of View 4, and of a job by hand for the same minutes, in turns."""
    load = Load(records)
    db = viewlet.connect(folder / "db", streams=SparkSqlHost(spark, folder / "parts"))
    db.execute(ONE_ROW)
    db.execute(PATTERN)
    warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
    advance, refreshes = warehouse.advance, []
    warehouse.advance = lambda: refreshes.append(spent(spark, advance))

    def by_hand(number: int) -> None:
        before = f"LEFT JOIN parquet.`{folder}/h{number - 1}` p ON n.src = p.src AND n.dest = p.dest" if number else ""
        count, total = ("COALESCE(p.ct, 0)", "COALESCE(p.s, 0)") if number else ("0", "0")
        spark.sql(f"""SELECT n.src, n.dest, {count} + 1 AS ct, {total} + n.loss AS s
            FROM parquet.`{folder}/m{number}` n {before} WHERE n.loss > 10""").write.parquet(f"{folder}/h{number}")

    found: Turns = []
    db.insert("m", load.part(0))
    for number in range(minutes):
        refreshes.clear()
        db.insert("m", load.part(number + 1))
        spark.createDataFrame(load.part(number)).write.parquet(f"{folder}/m{number}")
        hand = partial(by_hand, number)
        found.append((max(refreshes), spent(spark, hand)))
    db.close()
    return found[-(minutes // 2) :]


def late_part(load: Load, number: int) -> pa.Table:
    """A minute of rows, of which one in a hundred belongs three minutes earlier."""
    rows = load.part(number)
    late = rows.slice(0, rows.num_rows // 100)
    earlier = pa.array([ORIGIN + timedelta(minutes=max(0, number - 3))] * late.num_rows, rows.schema.field("ts").type)
    return pa.concat_tables([rows.slice(late.num_rows), late.set_column(0, "ts", earlier)])


def window(spark: Any, folder: Path, records: int, minutes: int) -> Turns:
    """Inserts into a window view, and micro-batches of Structured Streaming, in two rounds.

    CPU seconds of a micro-batch are the mean of all in a round.
    """
    load = Load(records, per_pair=10)
    db = viewlet.connect(folder / "db", streams=SparkSqlHost(spark, folder / "parts"))
    db.execute(STREAM + " RETAIN INTERVAL '20' MINUTES")
    db.execute(WINDOW.format("SUM", 10) + " RETAIN INTERVAL '10' MINUTES")
    (folder / "incoming").mkdir()
    rounds: list[Turns] = []
    for first in (0, minutes):
        numbers = range(first, first + minutes)
        ours = [spent(spark, partial(db.insert, "m", late_part(load, number))) for number in numbers]
        for number in numbers:
            pq.write_table(late_part(load, number), folder / "incoming" / f"{number:04}.parquet")
            time.sleep(0.01)  # files are read in the order of their times
        batches: list[float] = []
        _, cpu = spent(spark, lambda: batches.extend(stream_windows(spark, folder)))  # noqa: B023
        theirs = [(wall, cpu / len(batches)) for wall in batches]
        kept = minutes // 2
        rounds.append(list(zip(ours[-kept:], theirs[-kept:], strict=True)))
    db.close()
    return rounds[-1]


def stream_windows(spark: Any, folder: Path) -> list[float]:
    """The seconds of each micro-batch of a streaming query over the files that are there and were not read yet."""
    from pyspark.sql import functions as f

    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "incoming"))
    counted = frame.withWatermark("ts", "10 minutes").selectExpr("ts", "src", "dest", "loss")
    sums = counted.groupBy(f.window("ts", "10 minutes", "1 minute"), "src", "dest").agg(f.sum("loss").alias("s"))
    writer = sums.writeStream.outputMode("update").trigger(availableNow=True)
    writer = writer.foreachBatch(lambda rows, number: rows.write.parquet(f"{folder}/out{number}"))
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    query.awaitTermination()
    return [each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress if each["numInputRows"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=int, default=8)
    parser.add_argument("--what", choices=["pattern", "window"], default="pattern")
    options = parser.parse_args()
    spark, folder = session(), Path(tempfile.mkdtemp(prefix="viewlet-streams-"))
    try:
        measure = pattern if options.what == "pattern" else window
        found = measure(spark, folder, options.records, options.minutes)
        rival = "by hand" if options.what == "pattern" else "Structured Streaming"
        name = f"{options.what}, {options.records:,} records"
        for at, kind in enumerate(("wall", "CPU")):
            ours, other = (statistics.median(each[at] for each in side) for side in zip(*found, strict=True))
            print(f"{name}, {kind}: viewlet {ours:.2f} s, {rival} {other:.2f} s: {ours / other:.2f}")
        print("wall seconds:", " ".join(f"{one[0]:.2f}/{two[0]:.2f}" for one, two in found))
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
