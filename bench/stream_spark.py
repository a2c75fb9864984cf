"""Stream views on Spark SQL, against a job by hand and against Structured Streaming's own windows.

    python -m bench.stream_spark --records 1000000 --what pattern
    python -m bench.stream_spark --records 100000 --what window

*pattern*: the refresh of View 4 for a new minute, against one job that joins the minute with the state and writes it.
*window*: sums over ten minutes, every minute, late rows included: all of `db.insert` into a window view, against a
streaming query with RocksDB as its state store over the same rows as files, with as many partitions, that writes the
rows that it changes. Wall seconds per minute of data, the median of the last ones.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
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


def session() -> Any:
    options = {
        "spark.sql.shuffle.partitions": PARTITIONS,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.session.timeZone": "UTC",
    }
    return viewlet.spark_session("local[2]", **options)


def median_of(last: int, minutes: int, step: Callable[[int], None]) -> float:
    taken = []
    for number in range(minutes):
        started = time.perf_counter()
        step(number)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[-last:])


def pattern(spark: Any, folder: Path, records: int, minutes: int) -> tuple[float, float]:
    """Seconds of a refresh of View 4, and of a job by hand."""
    load = Load(records)
    db = viewlet.connect(folder / "db", streams=SparkSqlHost(spark, folder / "parts"))
    db.execute(ONE_ROW)
    db.execute(PATTERN)
    warehouse, spent = db._session.database().host.warehouse, []  # type: ignore[attr-defined]
    advance = warehouse.advance

    def timed() -> None:
        started = time.perf_counter()
        advance()
        spent.append(time.perf_counter() - started)

    warehouse.advance = timed
    for number in range(minutes + 1):
        db.insert("m", load.part(number))
    db.close()

    def by_hand(number: int) -> None:
        before = f"LEFT JOIN parquet.`{folder}/h{number - 1}` p ON n.src = p.src AND n.dest = p.dest" if number else ""
        count, total = ("COALESCE(p.ct, 0)", "COALESCE(p.s, 0)") if number else ("0", "0")
        spark.sql(f"""SELECT n.src, n.dest, {count} + 1 AS ct, {total} + n.loss AS s
            FROM parquet.`{folder}/m{number}` n {before} WHERE n.loss > 10""").write.parquet(f"{folder}/h{number}")

    for number in range(minutes):
        spark.createDataFrame(load.part(number)).write.parquet(f"{folder}/m{number}")
    hand = median_of(3, minutes, by_hand)
    refreshes = [each for each in spent if each > 0.05]
    return statistics.median(refreshes[-3:]), hand


def late_part(load: Load, number: int) -> pa.Table:
    """A minute of rows, of which one in a hundred belongs three minutes earlier."""
    rows = load.part(number)
    late = rows.slice(0, rows.num_rows // 100)
    earlier = pa.array([ORIGIN + timedelta(minutes=max(0, number - 3))] * late.num_rows, rows.schema.field("ts").type)
    return pa.concat_tables([rows.slice(late.num_rows), late.set_column(0, "ts", earlier)])


def window(spark: Any, folder: Path, records: int, minutes: int) -> tuple[float, float]:
    """Seconds of an insert into a window view, and of a micro-batch of Structured Streaming."""
    load = Load(records, per_pair=10)
    db = viewlet.connect(folder / "db", streams=SparkSqlHost(spark, folder / "parts"))
    db.execute(STREAM + " RETAIN INTERVAL '20' MINUTES")
    db.execute(WINDOW.format("SUM", 10) + " RETAIN INTERVAL '10' MINUTES")
    ours = median_of(5, minutes, lambda number: db.insert("m", late_part(load, number)) and None)
    db.close()
    (folder / "incoming").mkdir()
    for number in range(minutes):
        pq.write_table(late_part(load, number), folder / "incoming" / f"{number:04}.parquet")
        time.sleep(0.01)  # files are read in the order of their times
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "incoming"))
    counted = frame.withWatermark("ts", "10 minutes").selectExpr("ts", "src", "dest", "loss")
    from pyspark.sql import functions as f

    sums = counted.groupBy(f.window("ts", "10 minutes", "1 minute"), "src", "dest").agg(f.sum("loss").alias("s"))
    writer = sums.writeStream.outputMode("update").trigger(availableNow=True)
    writer = writer.foreachBatch(lambda rows, number: rows.write.parquet(f"{folder}/out{number}"))
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    query.awaitTermination()
    batches = [each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress if each["numInputRows"]]
    return ours, statistics.median(batches[-5:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=int, default=8)
    parser.add_argument("--what", choices=["pattern", "window"], default="pattern")
    options = parser.parse_args()
    spark, folder = session(), Path(tempfile.mkdtemp(prefix="viewlet-streams-"))
    try:
        measure = pattern if options.what == "pattern" else window
        ours, other = measure(spark, folder, options.records, options.minutes)
        rival = "by hand" if options.what == "pattern" else "Structured Streaming"
        name = f"{options.what}, {options.records:,} records"
        print(f"{name}: viewlet {ours:.2f} s, {rival} {other:.2f} s: {ours / other:.2f}")
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
