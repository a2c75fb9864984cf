"""`viewlet.connect(spark=...)` as users see it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet import DataError, StateError
from viewlet.connection.spark_facade import SparkConnection

TABLES = """
    CREATE STREAM orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL, placed DATE);
    CREATE STREAM items (id BIGINT NOT NULL, price DECIMAL(9,2));
"""
REVENUE = """
    CREATE MATERIALIZED VIEW revenue AS
    SELECT customer, SUM(price) AS total, COUNT(*) AS items FROM orders JOIN items USING (id) GROUP BY customer
"""
LARGEST = """
    CREATE MATERIALIZED VIEW largest AS
    SELECT id, SUM(price) AS total FROM items GROUP BY id ORDER BY total DESC LIMIT 2
"""


@pytest.fixture
def db(spark: Any, tmp_path: Path) -> SparkConnection:
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=3)
    db.execute(TABLES + REVENUE + ";" + LARGEST)
    assert isinstance(db, SparkConnection)
    return db


def items(spark: Any, *rows: tuple[int, str]) -> Any:
    return spark.createDataFrame([(id, Decimal(price)) for id, price in rows], "id bigint, price decimal(9,2)")


def test_frames_and_rows_in_one_batch(db: SparkConnection, spark: Any) -> None:
    epoch = db.apply(
        {"orders": [(1, "ada", date(2026, 1, 2)), (2, "bob", None)], "items": items(spark, (1, "5"), (2, "7.5"))}
    )
    assert epoch == db.epoch == 1
    assert db.view("revenue").rows() == [("ada", Decimal("5.00"), 1), ("bob", Decimal("7.50"), 1)]
    db.insert("items", items(spark, (1, "9"), (3, "1")))
    db.delete("items", items(spark, (2, "7.5")))
    assert db.view("revenue").rows() == [("ada", Decimal("14.00"), 2)]
    assert db.view("largest").rows() == [(1, Decimal("14.00")), (3, Decimal("1.00"))]
    frame = db.view("revenue").to_spark()
    assert [tuple(row) for row in frame.collect()] == db.view("revenue").rows()
    assert db.execute("SELECT total FROM revenue").to_pylist() == [{"total": Decimal("14.00")}]


def test_change_types_of_a_frame(db: SparkConnection, spark: Any) -> None:
    db.apply({"orders": [(1, "ada", None)]})
    rows = [(1, Decimal(3), "insert"), (1, Decimal(4), "insert"), (1, Decimal(3), "delete")]
    db.apply({"items": spark.createDataFrame(rows, "id bigint, price decimal(9,2), _change_type string")})
    assert db.view("revenue").rows() == [("ada", Decimal("4.00"), 1)]


def test_a_batch_id_counts_once(db: SparkConnection, spark: Any) -> None:
    for _ in range(2):
        db.apply({"items": items(spark, (1, "5"))}, batch_id=7, source="feed")
    assert db.epoch == 1
    assert db.view("largest").rows() == [(1, Decimal("5.00"))]


def test_opening_again(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    db.apply({"orders": [(1, "ada", None)], "items": items(spark, (1, "5"))}, batch_id=1)
    with pytest.raises(StateError, match="open already"):
        viewlet.connect(spark=spark, checkpoint=tmp_path / "state")
    db.close()
    with pytest.raises(StateError, match="3 partitions"):
        viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=4)
    for _ in range(2):
        with viewlet.connect(spark=spark, checkpoint=tmp_path / "state") as again:
            assert (again.epoch, again.views) == (1, ("revenue", "largest"))
            again.apply({"items": [(1, 5)]}, batch_id=1)
            assert again.view("revenue").rows() == [("ada", Decimal("5.00"), 1)]
            again.checkpoint()


def test_views_come_and_go(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    db.insert("items", [(1, 5)])
    db.execute("CREATE STREAM others (x BIGINT); CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM others")
    db.execute("DROP VIEW largest")
    db.apply({"orders": [(1, "ada", None)], "others": [(1,), (2,)]})
    db.close()
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state") as again:
        assert again.view("counted").rows() == [(2,)]
        assert again.view("revenue").rows() == [("ada", Decimal("5.00"), 1)]


def test_wrong_data_is_refused_as_a_whole(db: SparkConnection, spark: Any) -> None:
    db.apply({"orders": [(1, "ada", None)], "items": items(spark, (1, "5"))})
    wrong = spark.createDataFrame([(1, "many")], "id bigint, price string")
    with pytest.raises(DataError, match=r"items.price .*'many' is refused"):
        db.apply({"orders": [(1, "bob", None)], "items": wrong})
    assert db.epoch == 1
    assert db.view("revenue").rows() == [("ada", Decimal("5.00"), 1)]


def test_subscribers_are_told(db: SparkConnection, spark: Any) -> None:
    told: list[Any] = []
    db.view("revenue").subscribe(lambda epoch, changes: told.append((epoch, changes.to_pylist())))
    db.apply({"orders": [(1, "ada", None)], "items": items(spark, (1, "5"))})
    assert told == [(1, [{"customer": "ada", "total": Decimal("5.00"), "items": 1, "_multiplicity": 1}])]


def test_what_batches_cost(db: SparkConnection, spark: Any) -> None:
    db.insert("items", items(spark, (1, "5"), (2, "6")))
    (batch,) = db.stats()["batches"]  # type: ignore[misc]
    assert batch["jobs"] == batch["stages"] == 3
    assert batch["moved_bytes"] > 0
    assert batch["log_bytes"] > 0
    assert set(batch["seconds"]) >= {"changes", "workers", "log", "commit"}


def test_streams_are_applied_once(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    """Two streams in one query; what was applied is not applied again after a restart, and new files are."""
    items(spark, (1, "5"), (2, "6")).write.parquet(str(tmp_path / "items"))
    orders = spark.createDataFrame([(1, "ada", None), (2, "bob", None)], "id bigint, customer string, placed date")
    orders.write.parquet(str(tmp_path / "orders"))

    def play(db: Any) -> None:
        sources = {
            "items": spark.readStream.schema("id bigint, price decimal(9,2)").parquet(str(tmp_path / "items")),
            "orders": spark.readStream.schema(orders.schema).parquet(str(tmp_path / "orders")),
        }
        query = db.stream(sources).start(availableNow=True)
        query.awaitTermination()

    play(db)
    assert db.view("revenue").rows() == [("ada", Decimal("5.00"), 1), ("bob", Decimal("6.00"), 1)]
    db.close()
    items(spark, (2, "10")).write.mode("append").parquet(str(tmp_path / "items"))
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state") as again:
        play(again)
        assert again.view("revenue").rows() == [("ada", Decimal("5.00"), 1), ("bob", Decimal("16.00"), 2)]


def test_changes_by_epoch(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    assert db.changes("revenue").count() == 0
    db.apply({"orders": [(1, "ada", None)], "items": items(spark, (1, "5"))})
    db.checkpoint()
    db.close()
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state") as again:
        assert isinstance(again, SparkConnection)
        again.insert("items", [(1, 2)])
        found = sorted(tuple(row) for row in again.changes("revenue").collect())
        assert found == [
            ("ada", Decimal("5.00"), 1, -1, 2),
            ("ada", Decimal("5.00"), 1, 1, 1),
            ("ada", Decimal("7.00"), 2, 1, 2),
        ]
        assert viewlet.changes_of(str(tmp_path / "state"), "revenue", since=1, spark=spark).count() == 2
        again.forget_changes("revenue", 1)
        assert again.changes("revenue").count() == 2


def test_events_of_debezium(db: SparkConnection, spark: Any) -> None:
    events = [
        '{"op": "c", "before": null, "after": {"id": 1, "price": 5}}',
        '{"payload": {"op": "u", "before": {"id": 1, "price": 5}, "after": {"id": 1, "price": 7.25}}}',
        '{"op": "c", "before": null, "after": {"id": 2, "price": 1}}',
        '{"op": "d", "before": {"id": 2, "price": 1}, "after": null}',
    ]
    db.apply({"items": db.debezium("items", spark.createDataFrame([(each,) for each in events], "value string"))})
    assert db.view("largest").rows() == [(1, Decimal("7.25"))]


def test_the_distributed_program_is_explained(db: SparkConnection) -> None:
    text = db.explain("revenue", stage="spark")
    assert text.startswith("batch of ")
    assert "at every worker: stage 1" in text
    assert db.view("revenue").draw().startswith("<svg")
    assert "spark: 3 partitions" in db.explain("revenue", stage="engine")


def test_a_session_that_is_there_is_used(spark: Any) -> None:
    level = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    with viewlet.connect(spark=True, partitions=1) as db:
        assert isinstance(db, SparkConnection)
        assert db.spark is spark
        assert viewlet.spark_session("local[7]") is spark
    assert spark.sparkContext.master == "local[2]"
    assert level == "ERROR"


def test_hints_decide_where_views_live(spark: Any, tmp_path: Path) -> None:
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "hinted", partitions=2) as db:
        assert isinstance(db, SparkConnection)
        db.execute(TABLES)
        db.expect_rows({"items": 1_000_000, "orders": 100_000})
        db.partition_by("orders", "customer")
        db.execute(REVENUE)
        homes = db.view("revenue").stats()["homes"]
        assert "[customer]" in homes.values()  # type: ignore[attr-defined]
        db.apply({"orders": [(1, "ada", None)], "items": [(1, 5)]})
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "hinted") as again:
        assert again.view("revenue").stats()["homes"] == homes
        assert again.view("revenue").rows() == [("ada", Decimal("5.00"), 1)]


def test_state_moves_at_a_snapshot(spark: Any, tmp_path: Path) -> None:
    """Equal views share a unit, which goes by other columns and then to another number of partitions."""
    query = "SELECT city, id, SUM(price) AS total FROM sales GROUP BY city, id"
    sales = [(i, f"city {i % 7}", i) for i in range(60)]
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=3, engine="interpreter") as db:
        db.execute("CREATE TABLE sales (id BIGINT NOT NULL, city VARCHAR, price BIGINT, PRIMARY KEY (id))")
        db.execute(f"CREATE MATERIALIZED VIEW a AS {query}; CREATE MATERIALIZED VIEW b AS {query}")
        db.insert("sales", sales)
        db.execute("ALTER MATERIALIZED VIEW b PARTITION BY (city)")
        assert set(db.view("a").stats()["homes"].values()) == {"[city]"}  # type: ignore[attr-defined]
        db.repartition(2)
        db.insert("sales", [(99, "new", 1)])
        expected = sorted((city, id, price) for id, city, price in [*sales, (99, "new", 1)])
        assert sorted(db.view("a").rows()) == sorted(db.view("b").rows()) == expected
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state", engine="interpreter") as db:
        assert db.stats()["partitions"] == 2
        assert sorted(map(tuple, db.view("b").to_spark().collect())) == expected
