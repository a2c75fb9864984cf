"""Where changes come from and where answers go: frames, change events, streams that fail half way, files."""

from __future__ import annotations

import importlib.util
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.spark.event_histories import Modes, Source, declare, texts
from viewlet import DataError
from viewlet.connection.spark_facade import SparkConnection
from viewlet.spark.run.execution import frame_change

DECLARED = """
    CREATE STREAM items (id BIGINT NOT NULL, price DECIMAL(9,2));
    CREATE MATERIALIZED VIEW totals AS SELECT id, SUM(price) AS total, COUNT(*) AS n FROM items GROUP BY id
"""
ITEM = "struct<id: bigint, price: decimal(9,2)>"


@pytest.fixture
def db(spark: Any, tmp_path: Path) -> SparkConnection:
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=2, engine="interpreter")
    db.execute(DECLARED)
    assert isinstance(db, SparkConnection)
    return db


def test_multiplicities_of_a_frame(db: SparkConnection, spark: Any) -> None:
    rows = [(1, Decimal(3), 2), (1, Decimal(4), 1), (2, Decimal(1), 1), (1, Decimal(4), -1)]
    db.apply({"items": spark.createDataFrame(rows, "id bigint, price decimal(9,2), _multiplicity bigint")})
    assert db.view("totals").rows() == [(1, Decimal("6.00"), 2), (2, Decimal("1.00"), 1)]


def test_a_frame_has_all_columns_of_its_table(db: SparkConnection, spark: Any) -> None:
    frame = spark.createDataFrame([(1, Decimal(3))], "id bigint, prize decimal(9,2)")
    for change in (
        lambda given: db.insert("items", given),
        lambda given: db.delete("items", given),
        lambda given: db.apply({"items": given}),
    ):
        with pytest.raises(DataError, match=r"no column 'price'; did you mean 'prize'.*withColumn\('price', lit"):
            change(frame)
        with pytest.raises(DataError, match="items: the data frame has no column 'price'"):
            change(frame.select("id"))
    db.insert("items", frame.selectExpr("id", "CAST(NULL AS DECIMAL(9, 2)) AS price"))
    assert db.view("totals").rows() == [(1, None, 1)]


def test_events_as_structs(db: SparkConnection, spark: Any) -> None:
    events = [
        ("r", None, (1, Decimal(5))),
        ("u", (1, Decimal(5)), (1, Decimal(6))),
        ("c", None, (2, Decimal(1))),
        ("d", (2, Decimal(1)), None),
        (None, None, None),
    ]
    frame = spark.createDataFrame(events, f"op string, before {ITEM}, after {ITEM}")
    db.apply({"items": db.debezium("items", frame)})
    assert db.view("totals").rows() == [(1, Decimal("6.00"), 1)]
    truncated = spark.createDataFrame([("t", None, None), events[0]], f"op string, before {ITEM}, after {ITEM}")
    with pytest.raises(DataError, match="the operation 't' is none of c, r, u and d"):
        db.apply({"items": db.debezium("items", truncated)})
    assert db.view("totals").rows() == [(1, Decimal("6.00"), 1)]
    with pytest.raises(DataError, match="events of Debezium have a column 'op'"):
        db.debezium("items", spark.range(3))


@pytest.mark.parametrize("are_few", [True, False])
def test_a_history_of_events(are_few: bool, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events are read at the driver, many where they are; a stream has several events about a row in a batch."""
    monkeypatch.setattr(frame_change, "SMALL_BYTES", (4 << 20) if are_few else -1)
    modes = Modes(with_schema=True, decimals="precise", times="microseconds", is_full=False, is_stream=False)
    source, inbox = Source(random.Random(3), modes), str(tmp_path / "inbox")
    schema = "value binary, partition int, offset bigint"
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "copy", partitions=2, engine="interpreter") as db:
        assert isinstance(db, SparkConnection)
        declare(db, modes)
        db.execute("CREATE STREAM letters (table_name VARCHAR, event VARCHAR, reason VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW wrong AS SELECT event, COUNT(*) AS n FROM letters GROUP BY event")
        for number in range(2):
            rows = texts([*source.events(25), {"op": f"x{number}"}]).to_pylist()
            frame = spark.createDataFrame([tuple(row.values()) for row in rows], schema)
            frame.repartition(3, "offset").write.mode("append").parquet(inbox)
            events = spark.readStream.schema(schema).parquet(inbox)
            db.stream({"items": db.debezium("items", events, dead_letters="letters")}).start(
                availableNow=True
            ).awaitTermination()
            expected = sorted((tuple(row.values()) for row in source.rows.values()), key=repr)
            assert sorted(db.view("copy").rows(), key=repr) == expected
        assert db.view("wrong").rows() == [('{"op": "x0"}', 1), ('{"op": "x1"}', 1)]
        bad = spark.createDataFrame([("{",)], "value string")
        with pytest.raises(DataError, match=r"items: an event cannot be applied: it is no JSON.*The event is \{"):
            db.apply({"items": db.debezium("items", bad)})
        assert sorted(db.view("copy").rows(), key=repr) == expected


def test_a_stream_that_fails_after_its_batch_got_through(
    db: SparkConnection, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not know that it did, and hands the batch in again; its rows count once."""
    source = str(tmp_path / "events")
    text = '{"op": "c", "before": null, "after": {"id": 1, "price": 5}}'
    spark.createDataFrame([(text,), (text,)], "value string").write.parquet(source)
    apply = SparkConnection.apply

    def apply_and_fail(*args: Any, **settings: Any) -> int:
        apply(*args, **settings)
        raise RuntimeError("the driver is gone")

    def start() -> Any:
        return db.stream(
            {"items": db.debezium("items", spark.readStream.schema("value string").parquet(source))}
        ).start(availableNow=True)

    with monkeypatch.context() as patch:
        patch.setattr(SparkConnection, "apply", apply_and_fail)
        query = start()
        with pytest.raises(Exception, match="the driver is gone"):
            query.awaitTermination()
    assert db.epoch == 1
    db.close()
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "state")  # type: ignore[assignment]
    start().awaitTermination()
    assert (db.epoch, db.view("totals").rows()) == (1, [(1, Decimal("10.00"), 2)])
    spark.createDataFrame([(text,)], "value string").write.mode("append").parquet(source)
    start().awaitTermination()
    assert (db.epoch, db.view("totals").rows()) == (2, [(1, Decimal("15.00"), 3)])
    db.close()


def test_a_view_goes_wherever_spark_writes(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    db.apply({"items": [(1, 5), (2, 7)]})
    formats = ["parquet", "json", *(["delta"] if importlib.util.find_spec("delta") else [])]
    for name in formats:
        db.view("totals").to_spark().write.format(name).save(str(tmp_path / name))
        found = spark.read.format(name).load(str(tmp_path / name)).orderBy("id").collect()
        assert [(row["id"], float(row["total"]), row["n"]) for row in found] == [(1, 5.0, 1), (2, 7.0, 1)]


def test_a_checkpoint_at_a_url(spark: Any, tmp_path: Path) -> None:
    """Workers read and write it through fsspec; a log that is damaged is named, and the last good state comes back."""
    pytest.importorskip("fsspec")
    (tmp_path / "state").mkdir()
    url = f"dir::file://{tmp_path}/state"
    with pytest.raises(viewlet.StateError, match="memory of this process"):
        viewlet.connect(spark=spark, checkpoint="memory://bucket/state")
    with viewlet.connect(spark=spark, checkpoint=url, partitions=2, engine="interpreter") as db:
        db.execute(DECLARED)
        db.apply({"items": spark.createDataFrame([(1, Decimal(5))], "id bigint, price decimal(9,2)")})
        db.checkpoint()
        db.apply({"items": [(2, 7)]})
    log = max((tmp_path / "state").rglob("log-*"))
    good = log.read_bytes()
    log.write_bytes(good[:-1] + b"?")
    with pytest.raises(viewlet.StateError, match=f"{log.name} is damaged"):
        viewlet.connect(spark=spark, checkpoint=url)
    log.write_bytes(good)
    with viewlet.connect(spark=spark, checkpoint=url) as db:
        assert db.view("totals").rows() == [(1, Decimal("5.00"), 1), (2, Decimal("7.00"), 1)]


def test_a_small_file_of_many_rows_stays_where_it_is(
    db: SparkConnection, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run-length encoding makes millions of rows a few bytes; what the user says of jobs is left alone meanwhile."""
    monkeypatch.setattr(frame_change, "SMALL_ROWS", 1000)
    rows = spark.range(60_000).selectExpr("id % 2 AS id", "CAST(1 AS decimal(9,2)) AS price")
    rows.coalesce(1).write.parquet(str(tmp_path / "many"))
    rows.limit(1000).write.parquet(str(tmp_path / "few"))
    spark.sparkContext.setJobDescription("mine")
    try:
        fetched: list[str] = []
        monkeypatch.setattr(frame_change.FrameChange, "at_driver", lambda change, *_: fetched.append("") or change)
        many = spark.read.parquet(str(tmp_path / "many"))
        assert frame_change.expected_bytes(many) < frame_change.SMALL_BYTES
        db.insert("items", many)
        assert (fetched, db.view("totals").rows()[0]) == ([], (0, Decimal("30000.00"), 30_000))
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
        db.insert("items", spark.read.parquet(str(tmp_path / "few")))
        assert (len(fetched), db.view("totals").rows()[0]) == (1, (0, Decimal("30500.00"), 30_500))
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)


def orders_and_items(db: SparkConnection, spark: Any, folder: Path, count: int) -> dict[str, Any]:
    """Data frames that read files, for a join that is declared here."""
    db.execute("""
        CREATE STREAM orders (id BIGINT NOT NULL, customer VARCHAR);
        CREATE MATERIALIZED VIEW revenue AS
        SELECT customer, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY customer
    """)
    rows = {
        "orders": spark.range(count).selectExpr("id", "CONCAT('c', id % 7) AS customer"),
        "items": spark.range(count).selectExpr("id % 50 AS id", "CAST(id AS decimal(9,2)) AS price"),
    }
    for name, frame in rows.items():
        frame.write.parquet(str(folder / name))
    return {name: spark.read.parquet(str(folder / name)) for name in rows}


def joined(spark: Any, frames: dict[str, Any]) -> list[tuple[Any, ...]]:
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    query = "SELECT customer, SUM(price) FROM orders JOIN items USING (id) GROUP BY customer ORDER BY customer"
    return [tuple(row) for row in spark.sql(query).collect()]


@pytest.mark.parametrize(("most", "fetched"), [(300, ["items", "orders"]), (298, [])])
def test_small_frames_that_come_together_are_fetched_at_once(
    most: int, fetched: list[str], db: SparkConnection, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs in threads are jobs of the user, too; frames of too many rows, all of them together, stay where they are."""
    monkeypatch.setattr(frame_change, "SMALL_ROWS", most)
    found: list[str] = []
    at_driver = frame_change.FrameChange.at_driver

    def noted(change: frame_change.FrameChange, *arguments: Any) -> Any:
        found.append(change.table.name)
        return at_driver(change, *arguments)

    monkeypatch.setattr(frame_change.FrameChange, "at_driver", noted)
    frames = orders_and_items(db, spark, tmp_path, 150)
    context, group = spark.sparkContext, f"fetched {most}"
    context.setJobGroup(group, group)
    try:
        db.apply(frames)
    finally:
        context.setJobGroup("", "")
    assert len(context.statusTracker().getJobIdsForGroup(group)) > len(frames)
    assert (found, db.view("revenue").rows()) == (fetched, joined(spark, frames))


def test_a_frame_that_fails_beside_another_one(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    """The error of a job in a thread is raised, and the batch is undone."""
    frames = orders_and_items(db, spark, tmp_path, 150)
    for name, column in (("orders", "string) AS customer"), ("items", "decimal(9,2)) AS price")):
        broken = frames | {name: spark.range(10).selectExpr("id", f"CAST(assert_true(id < 9) AS {column}")}
        with pytest.raises(Exception, match=r"id.*9.*is not true"):
            db.apply(broken)
        assert (db.epoch, db.view("revenue").rows()) == (0, [])
    db.apply(frames)
    assert db.view("revenue").rows() == joined(spark, frames)


def test_moments_are_those_of_the_session(db: SparkConnection, spark: Any) -> None:
    """What Spark shows of a moment is what comes in and goes out, whatever the time zone."""
    db.execute("""
        CREATE STREAM visits (id BIGINT NOT NULL, at TIMESTAMP);
        CREATE MATERIALIZED VIEW latest AS SELECT id, MAX(at) AS at FROM visits GROUP BY id
    """)
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for number, place in enumerate(("America/New_York", "UTC", "Asia/Kolkata")):
            spark.conf.set("spark.sql.session.timeZone", place)
            text = f"2024-03-10 0{number}:30:00"  # a night without an hour from 2 to 3 in New York
            for id, kind in enumerate(("timestamp", "timestamp_ntz", "timestamp")):
                few = spark.sql(f"SELECT {id + 3 * number}L AS id, CAST('{text}' AS {kind}) AS AT")
                db.insert("visits", few if id < 2 else few.union(few.where("id < 0")).repartition(2))
            frame = db.view("latest").to_spark().where(f"id >= {3 * number}")
            assert [row[0] for row in frame.selectExpr("CAST(at AS STRING)").collect()] == [text] * 3
            moment = spark.sql(f"SELECT CAST(TIMESTAMP '{text}' AS LONG)").first()[0]
            assert {row[0] for row in frame.selectExpr("CAST(CAST(at AS TIMESTAMP) AS LONG)").collect()} == {moment}
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_stream_goes_on_when_its_source_gains_a_column(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    source = str(tmp_path / "items")
    spark.createDataFrame([(1, Decimal(5))], "id bigint, price decimal(9,2)").write.parquet(source)

    def run(schema: str) -> None:
        frame = spark.readStream.schema(schema).parquet(source)
        db.stream({"items": frame}).start(availableNow=True).awaitTermination()

    run("id bigint, price decimal(9,2)")
    more = spark.createDataFrame([(1, Decimal(6), "red")], "id bigint, PRICE decimal(9,2), colour string")
    more.withColumnRenamed("PRICE", "price").write.mode("append").parquet(source)
    run("id bigint, price decimal(9,2), colour string")
    assert db.view("totals").rows() == [(1, Decimal("11.00"), 2)]
    more.withColumnRenamed("PRICE", "prize").write.mode("append").parquet(source)
    with pytest.raises(DataError, match="items: the stream has no column 'price'; did you mean 'prize'"):
        run("id bigint, prize decimal(9,2)")
    with pytest.raises(DataError, match=r"no column 'price'; rename it, or say what it is: .withColumn\('price', lit"):
        run("id bigint")


def test_a_stream_with_its_progress_elsewhere_is_another_one(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    """Its batches are numbered from 0 again."""
    source = str(tmp_path / "items")

    def run(place: str, id: int) -> list[tuple[object, ...]]:
        rows = spark.createDataFrame([(id, Decimal(5))], "id bigint, price decimal(9,2)")
        rows.write.mode("overwrite").parquet(source)
        frame = spark.readStream.schema("id bigint, price decimal(9,2)").parquet(source)
        stream = db.stream({"items": frame}, name="feed", progress=str(tmp_path / place))
        stream.start(availableNow=True).awaitTermination()
        return [row[::2] for row in db.view("totals").rows()]

    assert run("a", 1) == [(1, 1)]
    assert run("b", 2) == [(1, 1), (2, 1)]
    assert run("b", 3) == [(1, 1), (2, 1), (3, 1)]
    assert run("a", 1) == [(1, 2), (2, 1), (3, 1)]
