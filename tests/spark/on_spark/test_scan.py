"""`to_spark()`: lazy data frames of one epoch (`tests/spark/test_scan.py` tests what the tasks read)."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connection.spark_facade import SparkConnection

SALES = """
    CREATE TABLE sales (id BIGINT NOT NULL PRIMARY KEY, shop VARCHAR, at TIMESTAMP, price DECIMAL(9,2), day DATE,
                        open BOOLEAN)
    PARTITION BY (shop);
"""
VIEWS = """
    CREATE MATERIALIZED VIEW bag ("a.b", shop, at, price, day, open) AS
    SELECT shop, shop, at, price, day, open FROM sales;
    CREATE MATERIALIZED VIEW latest AS SELECT id, price FROM sales ORDER BY price DESC NULLS LAST;
    CREATE MATERIALIZED VIEW mixed AS SELECT shop FROM sales UNION ALL SELECT shop FROM sales
"""
ROWS = [
    (1, "a", datetime(2024, 7, 1, 1, 30, 0, 5), Decimal("1.25"), date(2024, 2, 29), True),
    (2, "a", datetime(2024, 7, 1, 1, 30, 0, 5), Decimal("1.25"), date(2024, 2, 29), True),
    (3, "b", datetime(1900, 1, 1), Decimal("-3.50"), date(1900, 1, 1), False),
    (4, None, None, None, None, None),
]


@pytest.fixture(params=["interpreter", "compiled"])
def db(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> SparkConnection:
    db = viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=2, engine=request.param)
    assert isinstance(db, SparkConnection)
    db.execute(SALES)
    db.execute(VIEWS)
    db.apply({"sales": ROWS})
    return db


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_frames_of_one_epoch(db: SparkConnection, spark: Any) -> None:
    from pyspark.errors import PythonException

    bag, sales = db.view("bag").to_spark(), db.table("sales").to_spark()
    before, latest = rows_of(bag), db.view("latest").rows()
    assert before == sorted(db.view("bag").rows(), key=repr)
    assert rows_of(sales) == sorted(ROWS, key=repr)
    assert [tuple(row) for row in db.view("latest").to_spark().collect()] == latest
    assert rows_of(db.view("mixed").to_spark()) == sorted(db.view("mixed").rows(), key=repr)
    assert bag.schema.simpleString() == (
        "struct<a.b:string,shop:string,at:timestamp_ntz,price:decimal(38,2),day:date,open:boolean>"
    )
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in sales.schema][:4:3] == [
        ("id", "bigint", False),
        ("price", "decimal(9,2)", True),
    ]
    kept = db.view("bag").to_spark().cache()
    assert kept.count() == len(before)  # the usual way to fill a cache
    db.delete("sales", ROWS[:1])
    later = db.view("bag").to_spark()
    assert (bag.count(), sales.count(), later.count(), db.view("mixed").to_spark().count()) == (4, 4, 3, 6)
    assert (later.limit(2).count(), later.where("shop = 'a'").count()) == (2, 1)
    joined = bag.alias("old").join(later.alias("new"), "shop").groupBy("shop").count()
    assert rows_of(joined) == [("a", 2), ("b", 1)]
    assert (rows_of(bag), rows_of(sales)) == (before, sorted(ROWS, key=repr))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert rows_of(later) == sorted(db.view("bag").rows(), key=repr)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    db.checkpoint()
    try:
        found = rows_of(bag)
    except PythonException as error:
        found = [str(error)]
    refused = "call to_spark() again, or cache() the frame before the batches" in str(found)
    assert refused or found == before  # a worker may still have that version
    assert rows_of(later) == sorted(db.view("bag").rows(), key=repr)
    assert (kept.count(), rows_of(kept)) == (len(before), before)
    kept.unpersist()


SEVERAL = {
    "spans": (
        "SELECT shop, MIN(price) AS low, MAX(at) AS last, MIN(day) AS first, AVG(weight) AS mean, "
        "COUNT(DISTINCT size) AS sizes FROM visits GROUP BY shop"
    ),
    "joined": (
        "SELECT a.shop, a.total, b.weight FROM (SELECT shop, SUM(price) AS total FROM visits GROUP BY shop) a "
        "LEFT JOIN (SELECT shop, SUM(weight) AS weight FROM visits WHERE size > 3 GROUP BY shop) b ON a.shop = b.shop"
    ),
    "share": (
        "SELECT shop, SUM(price) AS total, (SELECT SUM(price) FROM visits) AS whole FROM visits GROUP BY shop "
        "HAVING SUM(weight) > (SELECT AVG(weight) FROM visits)"
    ),
}
"""Results over several stored views: values per group, two aggregates, a total at the driver."""


def test_frames_of_several_stored_views(spark: Any, tmp_path: Path) -> None:
    """Code reads them in the partitions, with the values that Spark SQL computes, in any time zone."""
    visits = spark.range(30_000).selectExpr(
        "IF(id % 7 = 0, NULL, CONCAT('shop ', id % 9000)) AS shop",
        "IF(id % 5 = 0, NULL, CAST((id * 37) % 10007 / 100 - 20 AS DECIMAL(9,2))) AS price",
        "IF(id % 11 = 0, NULL, TIMESTAMP_NTZ '1969-12-31 23:59:59.25' + MAKE_DT_INTERVAL(id % 300, id % 24)) AS at",
        "IF(id % 3 = 0, NULL, DATE_ADD(DATE '1969-12-01', CAST(id % 70 AS INT))) AS day",
        "IF(id % 4 = 0, NULL, (id % 1000) / 8D - 30) AS weight",
        "CAST(id % 6 AS INT) AS size",
    )
    visits.createOrReplaceTempView("visits")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=2, engine="compiled") as db:
            db.execute(
                "CREATE STREAM visits (shop VARCHAR, price DECIMAL(9,2), at TIMESTAMP, day DATE, weight DOUBLE, "
                "size INTEGER) PARTITION BY (shop)"
            )
            db.expect_rows({"visits": 1e6, "visits.shop": 1e6})
            for name, sql in SEVERAL.items():
                db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            db.apply({"visits": visits})
            viewlet.register_format(spark)
            readings = {name: db.view(name).stats()["reading"] for name in SEVERAL}
            assert readings == {"spans": "partitions", "joined": "partitions", "share": "sent"}
            for name, sql in SEVERAL.items():
                expected = rows_of(spark.sql(sql))
                assert rows_of(db.view(name).to_spark()) == expected
                assert (db.view(name).to_spark().count(), len(db.view(name))) == (len(expected), len(expected))
                stored = spark.read.format("viewlet").option("view", name).load(str(tmp_path / "state"))
                assert rows_of(stored) == expected
                db.changes(name)
            before = {name: set(rows_of(db.view(name).to_spark())) for name in SEVERAL}
            db.apply({"visits": visits.where("shop = 'shop 17'").selectExpr("*", "'delete' AS _change_type")})
            for name in SEVERAL:
                told = [tuple(row) for row in db.changes(name).drop("_epoch").collect()]
                after = set(rows_of(db.view(name).to_spark()))
                assert {row[:-1] for row in told if row[-1] < 0} == before[name] - after
                assert {row[:-1] for row in told if row[-1] > 0} == after - before[name]
                assert told
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.catalog.dropTempView("visits")


@pytest.mark.parametrize("db", ["compiled"], indirect=True)
def test_other_jobs_read_a_view(
    db: SparkConnection, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`spark.read.format("viewlet")` knows the directory only."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    db.execute("CREATE MATERIALIZED VIEW whole AS SELECT COUNT(*) AS n, MAX(at) AS last FROM sales")
    monkeypatch.chdir(tmp_path)
    viewlet.register_format(spark)

    def read(name: str, **options: str) -> Any:
        return spark.read.format("viewlet").option("view", name).options(**options).load("state")

    for name in ("bag", "latest", "mixed", "whole"):
        frame = read(name)
        assert rows_of(frame) == sorted(db.view(name).rows(), key=repr)
        assert frame.schema.simpleString() == db.view(name).to_spark().schema.simpleString()
    sales, bag = read("sales"), read("BAG")
    assert sales.schema == db.table("sales").to_spark().schema
    assert (sales.rdd.getNumPartitions(), bag.count(), read("whole").first().n) == (2, 4, 4)
    db.delete("sales", ROWS[:1])
    assert (sales.count(), bag.where("price is null").count(), read("sales").count()) == (4, 1, 3)
    expected = spark.createDataFrame(ROWS[1:], sales.schema).groupBy("shop").agg(f.sum("price"))
    assert rows_of(read("sales").groupBy("shop").agg(f.sum("price"))) == rows_of(expected)
    for name, told in (("bga", "there is no view 'bga' in"), ("", "the option 'view' says what is read")):
        with pytest.raises(PySparkException, match=told):
            read(name)
    some = {"columns": 'PRICE, "a.b"', "where": "shop = 'a' AND \"at\" > TIMESTAMP '2024-07-01'"}
    assert rows_of(read("bag", **some)) == [(Decimal("1.25"), "a")]
    assert rows_of(read("sales", columns="id", where="price < 0")) == [(3,)]
    assert rows_of(read("mixed", where="shop IS NULL")) == [(None,)] * 2
    assert rows_of(read("whole", columns="n")) == [(3,)]
    with pytest.raises(PySparkException, match="there is no column 'shap'; did you mean 'shop'"):
        read("bag", columns="shap")
    for options, told in (
        ({"versionAsOf": "1"}, "there is no option 'versionasof'.*; the options are view, columns, where, readChange"),
        ({"colums": "shop"}, "there is no option 'colums'; did you mean 'columns'"),
        ({"startingVersion": "1"}, "the option 'startingversion' is for changes: add .option.'readChangeFeed', 'true'"),
        ({"readChangeFeed": "yes"}, "the option 'readChangeFeed' is 'true' or 'false', not 'yes'"),
        ({"readChangeFeed": "true", "maxFilesPerTrigger": "1"}, "there is no option 'maxfilespertrigger'"),
    ):
        with pytest.raises(PySparkException, match=told):
            read("bag", **options)


@pytest.mark.parametrize("db", ["compiled"], indirect=True)
def test_a_scan_of_some_columns_and_rows(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    """Queries over one frame do not disturb one another, though PySpark would keep filters that a source takes."""
    bag = db.view("bag").to_spark(columns=["price", "Shop"], where="open OR day < DATE '1900-01-02'")
    assert rows_of(bag) == [(Decimal("-3.50"), "b"), (Decimal("1.25"), "a"), (Decimal("1.25"), "a")]
    assert (bag.count(), db.view("bag").to_spark(["day"]).columns) == (3, ["day"])
    assert [row.id for row in db.view("latest").to_spark(["id"], "id <> 2").collect()] == [1, 3, 4]
    assert rows_of(db.table("sales").to_spark(["open", "id"], "id > 2")) == [(False, 3), (None, 4)]
    assert db.view("mixed").to_spark(where="shop = 'a'").count() == 4
    viewlet.register_format(spark)
    frame = spark.read.format("viewlet").option("view", "sales").load(str(tmp_path / "state"))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert [frame.where("id < 2").count(), frame.count()] == [1, 4]
        assert frame.where("id < 2").union(frame.where("id > 2")).count() == 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_pyspark_keeps_the_filters_of_a_query_for_the_next(spark: Any) -> None:
    """Why filters are not pushed down: if this fails, PySpark has a reader for each query, and they can be."""
    spark.dataSource.register(_numbers())
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("numbers").load()
        assert (frame.where("a > 5").count(), frame.count()) == (4, 4)
        assert frame.where("a > 7").union(frame.where("a < 3")).count() == 13
        assert "a" in spark.read.format("numbers").load().select("b").toArrow().column("b")[0].as_py()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def _numbers() -> Any:
    """A source of the numbers 0 to 9 that takes filters `a > x`, and says which columns it was asked for."""
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, GreaterThan

    class Reader(DataSourceReader):
        def __init__(self, columns: list[str]) -> None:
            self.columns, self.least = columns, -1

        def pushFilters(self, filters: Any) -> Any:  # noqa: N802 - the name is Spark's
            for each in filters:
                if isinstance(each, GreaterThan):
                    self.least = max(self.least, each.value)
                else:
                    yield each

        def read(self, partition: Any) -> Any:
            found = range(self.least + 1, 10)
            arrays = [pa.array(found, pa.int64()), pa.array([str(self.columns)] * len(found))]
            yield pa.RecordBatch.from_arrays(arrays, names=["a", "b"])

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "a bigint, b string"

        def reader(self, schema: Any) -> Reader:
            return Reader(schema.fieldNames())

    return Numbers


@pytest.mark.parametrize("db", ["interpreter"], indirect=True)
def test_other_jobs_follow_the_changes(db: SparkConnection, spark: Any, tmp_path: Path) -> None:
    """Every change exactly once, in whatever pieces the stream is run; large changes are written by tasks."""
    from pyspark.errors import PySparkException

    viewlet.register_format(spark)
    batches: list[list[tuple[Any, ...]]] = []

    def feed(reader: Any, **options: str) -> Any:
        known = reader.format("viewlet").option("view", "bag").option("readChangeFeed", "true")
        return known.options(**options).load(str(tmp_path / "state"))

    def follow() -> list[tuple[Any, ...]]:
        batches.clear()
        query = feed(spark.readStream).writeStream.foreachBatch(lambda batch, _: batches.append(rows_of(shown(batch))))
        query = query.option("checkpointLocation", str(tmp_path / "progress")).trigger(availableNow=True).start()
        query.awaitTermination()
        return [row for batch in batches for row in batch]

    def shown(frame: Any) -> Any:
        return frame.select("shop", "price", "_change_type", "_commit_version")

    with pytest.raises(PySparkException, match="keeps no changes of 'bag'"):
        feed(spark.read)
    db.changes("bag")
    db.delete("sales", ROWS[2:3])
    assert follow() == [("b", Decimal("-3.50"), "delete", 2)]
    db._host.cluster.inline_bytes = 0
    db.insert("sales", [(5, "a", *ROWS[0][2:]), (6, "a", *ROWS[0][2:]), (7, "b", *ROWS[0][2:])])
    db.delete("sales", ROWS[3:4])
    third = [("a", Decimal("1.25"), "insert", 3)] * 2 + [("b", Decimal("1.25"), "insert", 3)]
    assert sorted(follow(), key=repr) == [*third, (None, None, "delete", 4)]
    assert rows_of(shown(feed(spark.read, startingVersion="3", endingVersion="3"))) == third
    deleted = feed(spark.read, columns="_commit_version, a.b", where="_change_type = 'delete'")
    assert rows_of(deleted) == [(2, "b"), (4, None)]
    assert feed(spark.read).schema.simpleString() == (
        "struct<a.b:string,shop:string,at:timestamp_ntz,price:decimal(38,2),day:date,open:boolean,"
        "_change_type:string,_commit_version:bigint,_commit_timestamp:timestamp>"
    )
    with pytest.raises(PySparkException, match="a stream has no end: leave the option 'endingVersion' out"):
        feed(spark.readStream, endingVersion="3").writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "ended")
        ).start().awaitTermination()
    found = db.changes("bag").groupBy("_epoch").sum("_multiplicity")
    assert rows_of(found) == [(2, -1), (3, 3), (4, -1)]
    db.forget_changes("bag", until=2)
    with pytest.raises(PySparkException, match=r"begin with .option.'startingVersion', 3"):
        feed(spark.read, startingVersion="1").count()
    assert feed(spark.read).count() == 4
