"""Signal views on Spark itself: data frames and Structured Streaming as input, arrays, a restart in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import scipy.signal as ss

import viewlet
from tests.signals.events import SCHEMA, History, irregular, over, same_bits

SOS = ss.butter(2, 0.2, output="sos")
COLUMNS = "g string, t bigint, x double, y double"


def test_a_stream_continues_after_a_restart_with_the_same_bits(spark: Any, tmp_path: Path) -> None:
    history = irregular(5, rows=240)
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "db", partitions=2)
    db.execute(SCHEMA.format(kind="STREAM"))
    even = over(db).sample(10, "linear", max_gap=100)
    queries = {"smooth": even.sosfilt(SOS), "spectra": even.window(8, 4).rfft()}
    for name, query in queries.items():
        db.create_view(name, query)
    db.insert("events", spark.createDataFrame(history.rows[:100], COLUMNS))
    db.close()
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "db")
    (tmp_path / "files").mkdir()
    pq.write_table(History(history.rows[100:]).table(), tmp_path / "files" / "part.parquet")
    frame = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "files"))
    db.stream({"events": frame}).start(availableNow=True).awaitTermination()
    for name, query in queries.items():
        found = db.view(name).to_arrow()
        assert found.num_rows > 20
        assert same_bits(found, query.run(history.table()))
    db.close()
