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

pytestmark = pytest.mark.xdist_group("spark")

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
    assert batch["jobs"] == batch["stages"] == 2
    assert batch["moved_bytes"] > 0
    assert batch["log_bytes"] > 0
    assert set(batch["seconds"]) >= {"plan", "changes", "workers", "commit"}
