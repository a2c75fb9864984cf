"""Parts of streams on Spark SQL: the paper's views, late rows, deletes, and a folder that is opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.streams.host_programs import LOSSES
from tests.streams.meanings import check_meanings, check_refusals
from tests.streams.model import at
from viewlet.streams import SparkSqlHost

STATEMENTS = (
    "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts",
    """CREATE VIEW helper AS INITIALIZE helper[i] AS SELECT g, 1 AS ct, x AS loss FROM m[i] WHERE x > 10
       UPDATE helper[j] AS SELECT new.g, COALESCE(ct, 0) + 1, COALESCE(loss, 0) + new.x
       FROM m[j] AS new LEFT JOIN helper[j-1] AS prev ON new.g IS NOT DISTINCT FROM prev.g WHERE new.x > 10""",
    """CREATE VIEW view2 AS INITIALIZE view2[i] AS SELECT g, ct, loss FROM helper[i] WHERE ct >= 4
       UPDATE view2[j] AS SELECT g, ct, loss FROM helper[j] WHERE ct >= 4""",
    "CREATE VIEW view6 AS SELECT g, SUM(x) AS x, AVG(x) AS mean FROM m [WINDOW 5 MINUTES] GROUP BY g HAVING SUM(x) > 0",
    """CREATE VIEW falls AS SELECT g, low FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES MIN(x) AS low
       PATTERN (a b+) DEFINE b AS x < PREV(x))""",
    "CREATE VIEW overlapping AS SELECT g, COUNT(*) AS n, SUM(x) AS x FROM m PATTERN [a+, b] WHERE b.x > a.x GROUP BY g",
    "CREATE VIEW before AS SELECT a.x, b.x AS y FROM m AS a ASOF LEFT JOIN m AS b ON a.g = b.g AND a.ts > b.ts",
)
VIEWS = ("view2", "view6", "falls", "overlapping", "before")


def play(db: viewlet.Connection) -> dict[str, Any]:
    db.insert("m", [(at(60 * minute), "a", x) for minute, x in enumerate(LOSSES)])
    db.close_parts("m", at(420))
    assert db.view("view2").rows() == [("a", 4, 71, at(240)), ("a", 5, 87, at(300))]
    db.insert("m", [(at(315), None, 2), (at(316), None, 3), (at(317), None, 5)])
    db.delete("m", [(at(300), "a", 16)])
    return {name: db.view(name).rows() for name in VIEWS}


@pytest.mark.slow
def test_views_over_parts_on_spark_sql(spark: Any, tmp_path: Path) -> None:
    expected_db = viewlet.connect()
    with viewlet.connect(tmp_path / "db", streams=SparkSqlHost(spark, tmp_path / "parts")) as db:
        for statement in STATEMENTS:
            expected_db.execute(statement)
            db.execute(statement)
        expected = play(expected_db)
        assert play(db) == expected
    with viewlet.connect(tmp_path / "db", streams=SparkSqlHost(spark, tmp_path / "parts")) as db:
        assert {name: db.view(name).rows() for name in VIEWS} == expected


def test_another_state_of_the_folder_is_refused(spark: Any, tmp_path: Path) -> None:
    """It is older than the directory, or a file of its catalogue is missing or damaged."""

    def opened() -> viewlet.Connection:
        return viewlet.connect(tmp_path / "db", streams=SparkSqlHost(spark, tmp_path / "parts"))

    with opened() as db:
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
        for minute in range(3):
            db.insert("m", [(at(60 * minute), "a", minute)])
    first, *_, last = sorted((tmp_path / "parts" / "catalogue").iterdir())
    for file, problem in ((first, f"{first} is missing"), (last, "are not those that were committed here last")):
        data = file.read_bytes()
        file.unlink()
        with pytest.raises(viewlet.StateError, match=problem):
            opened()
        file.write_bytes(data.replace(b"1", b"2", 1))
        with pytest.raises(viewlet.StateError, match=f"{file} is damaged"):
            opened()
        file.write_bytes(data)
    with opened() as db:
        assert len(db.table("m")) == 3


def test_structured_streaming_feeds_a_stream_once(spark: Any, tmp_path: Path) -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
    db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 2 MINUTES] GROUP BY g")
    schema = "ts TIMESTAMP_NTZ, g STRING, x BIGINT"
    folder = str(tmp_path / "incoming")
    apply = viewlet.streams.foreach_batch(db, "m")
    for minute in range(3):
        rows = [(at(60 * minute), "a", minute)]
        frame = spark.createDataFrame(rows, schema)
        frame.write.mode("append").parquet(folder)
    query = spark.readStream.schema(schema).parquet(folder).writeStream.foreachBatch(apply)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(60)
    assert sorted(row[1] for row in db.view("v").rows()) == [0, 1]
    apply(spark.createDataFrame([(at(0), "a", 9)], schema), 0)  # repeated after a failure
    assert len(db.table("m")) == 3


@pytest.mark.slow
def test_data_frames_become_parts_without_passing_through_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "x BIGINT, ts TIMESTAMP_NTZ, g STRING"
    batches = [[(1, at(-1), "a"), (2, at(0), None)], [(3, at(60), "b"), (4, at(59), "late")], [(5, at(400), "a")]]
    with viewlet.connect(tmp_path / "db", streams=SparkSqlHost(spark, tmp_path / "parts")) as db:
        db.execute(STATEMENTS[0] + " LATENESS INTERVAL '2' MINUTES")
        db.stream_view("copy", initialize="SELECT g, x FROM m[i]")
        apply = viewlet.streams.foreach_batch(db, "m")
        frames = [spark.createDataFrame(rows, schema) for rows in batches]
        with monkeypatch.context() as driver:
            driver.setattr(SparkSqlHost, "load", lambda *_: pytest.fail("rows passed through the driver"))
            for number, frame in enumerate(frames):
                apply(frame, number)
            apply(frames[0], 0)  # repeated after a failure
        expected = [(1, at(-60)), (2, at(0)), (3, at(60)), (4, at(0))]
        assert sorted(row[1:] for row in db.view("copy").rows()) == expected
        db.insert("m", spark.createDataFrame([(6, at(5), "too late")], schema))
        assert [row["x"] for row in db.late_rows("m").to_pylist()] == [6]
        with pytest.raises(viewlet.DataError, match="NULL"):
            db.insert("m", spark.createDataFrame([(7, None, "a")], schema))
    with viewlet.connect(tmp_path / "db", streams=SparkSqlHost(spark, tmp_path / "parts")) as db:
        assert len(db.table("m")) == 5
        db.execute(STATEMENTS[0].replace(" m ", " k "))
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM k")
        db.insert("k", spark.createDataFrame([(8, at(401), "a")], schema))  # a view reads the rows in this process
        assert db.view("n").rows() == [(1,)]
    assert not list((tmp_path / "parts" / "staged").iterdir())


def test_a_frame_with_a_null_where_there_is_none_is_refused(spark: Any, tmp_path: Path) -> None:
    """Executors check it, as they write the rows; the stream is as it was."""
    with viewlet.connect(tmp_path / "db", streams=SparkSqlHost(spark, tmp_path / "parts")) as db:
        db.execute("""CREATE STREAM m (ts TIMESTAMP, g VARCHAR, "it's x" BIGINT NOT NULL) PARTITION LENGTH 60 BY ts""")
        db.execute("""CREATE VIEW v AS SELECT g, SUM("it's x") AS x FROM m [WINDOW 5 MINUTES] GROUP BY g""")
        schema = "ts TIMESTAMP_NTZ, g STRING, `it's x` BIGINT"
        db.insert("m", spark.createDataFrame([(at(0), None, 1), (at(61), "a", 2)], schema))
        with pytest.raises(viewlet.DataError, match="it's x: NULL is refused"):
            db.insert("m", spark.createDataFrame([(at(62), "a", None)], schema))
        db.insert("m", spark.createDataFrame([(at(122), "a", 3)], schema))
        assert {row[:2] for row in db.view("v").rows() if row[-1] == at(60)} == {(None, 1), ("a", 2)}


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(10, 3, 0), (10, 3, 2), (7, 7, 5), (9, 6, 5), (12, 4, 3)])
def test_windows_begin_where_those_of_spark_do(spark: Any, lengths: tuple[int, int, int]) -> None:
    """Whatever the size, the slide and the offset are: also where one is no multiple of the other."""
    size, slide, offset = (f"{seconds} seconds" for seconds in lengths)
    seconds = [0, 1, 2, 7, 8, 20, 21, 33, 47]
    frame = spark.createDataFrame([(at(second),) for second in seconds], "ts timestamp_ntz")
    frame.createOrReplaceTempView("aligned")
    shown = "SELECT window.start, window.end, COUNT(*) AS n FROM"
    query = f"{shown} {{}} GROUP BY window(ts, '{size}', '{slide}', '{offset}')"
    db = viewlet.connect()
    db.execute("CREATE STREAM aligned (ts TIMESTAMP) PARTITION LENGTH 1 BY ts")
    db.execute(f"CREATE VIEW v AS {query.format('aligned')}")
    for second in seconds:
        db.insert("aligned", [(at(second),)])
    db.close_parts("aligned", at(90))
    expected = sorted(tuple(row) for row in spark.sql(query.format("aligned")).collect())
    assert sorted(row[:3] for row in db.view("v").rows()) == expected


def test_queries_mean_on_spark_what_they_mean_on_duckdb(spark: Any, tmp_path: Path) -> None:
    with viewlet.connect(streams=SparkSqlHost(spark, tmp_path)) as db:
        check_meanings(db)


def test_what_spark_cannot_do_is_refused_at_once(spark: Any, tmp_path: Path) -> None:
    with viewlet.connect(streams=SparkSqlHost(spark, tmp_path)) as db:
        check_refusals(db)
