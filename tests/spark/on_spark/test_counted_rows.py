"""Large frames for view trees: Spark counts rows that repeat, and sends each of them once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewlet
from tests.spark.test_ring_views import same_table
from viewlet import DataError
from viewlet.spark.run.execution import cluster, frame_change, loader
from viewlet.spark.run.load import repeated_rows
from viewlet.spark.run.load.repeated_rows import counted_rows, keys_per_row
from viewlet.spark.run.state.partition import forget

SCHEMA = """
    CREATE {kind} sales
    (id BIGINT, shop BIGINT, units INTEGER, paid DOUBLE, price DECIMAL(9,2), day DATE, note VARCHAR);
    CREATE {kind} shops (shop BIGINT, city VARCHAR);
"""
VIEWS = {
    "sums": "SELECT COFACTOR(units, paid, price) FROM sales NATURAL JOIN shops",
    "exact": "SELECT COFACTOR(units, paid, exact => true) FROM sales NATURAL JOIN shops",
    "categories": "SELECT city, COFACTOR(paid, CATEGORICAL(note), CATEGORICAL(day)) AS c "
    "FROM sales NATURAL JOIN shops WHERE units > 1 GROUP BY city",
    "listed": "SELECT FACTORIZED shop, paid, price, day, note, city FROM sales NATURAL JOIN shops",
}
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("shop", pa.int64()),
        ("units", pa.int32()),
        ("paid", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("note", pa.string()),
    ]
)
SHOPS = [(i, "Oslo" if i % 2 else None) for i in range(4)] + [(1, "Rome")]


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loader, "LOAD_FROM_BYTES", 0)
    monkeypatch.setattr(frame_change, "SMALL_BYTES", -1)
    monkeypatch.setattr(repeated_rows, "COUNT_FROM_BYTES", 0)
    yield
    forget()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How many rows of each frame Spark sends, None where it counts none."""
    found: list[int | None] = []

    def noted(frame: Any) -> Any | None:
        counted = counted_rows(frame)
        found.append(None if counted is None else counted.count())
        return counted

    monkeypatch.setattr(cluster, "counted_rows", noted)
    return found


def sales(count: int, seed: int) -> Any:
    """Rows of which no two are equal, and few differ in more than their number; NULLs and zeros of both signs."""
    chance = random.Random(seed)
    kinds = [
        (
            chance.choice([None, 0, 1, 2, 3]),
            chance.choice([None, 1, 2, 7]),
            chance.choice([None, 0.0, -0.0, 0.1, 1e9]),
            chance.choice([None, Decimal("0.10"), Decimal("2.50")]),
            chance.choice([None, date(2026, 1, 1), date(2026, 3, 5)]),
            chance.choice([None, "", "a", "A", "a "]),
        )
        for _ in range(25)
    ]
    rows = [(i, *chance.choice(kinds)) for i in range(count)]
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), COLUMNS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def stored(spark: Any, rows: Any, path: Path) -> Any:
    pq.write_table(rows, path)
    return spark.read.parquet(str(path))


def same(db: Any, expected: Any) -> None:
    for name in ("sums", "exact"):
        same_table(db.view(name).cofactor(), expected.view(name).cofactor())
    assert db.view("exact").cofactor().sums.tolist() == expected.view("exact").cofactor().sums.tolist()
    found, known = db.view("categories").cofactor(), expected.view("categories").cofactor()
    assert found.keys() == known.keys()
    for key in known:
        same_table(found[key], known[key])
    assert sorted(db.view("listed").rows(), key=repr) == sorted(expected.view("listed").rows(), key=repr)


def declared(db: Any, kind: str) -> Any:
    db.execute(SCHEMA.format(kind=kind))
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def joined(rows: Any) -> tuple[Any, ...]:
    """What DuckDB counts and adds up."""
    shops = pa.table(dict(zip(("shop", "city"), map(list, zip(*SHOPS, strict=True)), strict=True)))
    assert shops.num_rows == len(SHOPS)
    found: list[tuple[Any, ...]] = duckdb.sql(
        "SELECT COUNT(*), SUM(units), SUM(units * units) FROM rows JOIN shops USING (shop) "
        "WHERE units IS NOT NULL AND paid IS NOT NULL"
    ).fetchall()
    return found[0]


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize("engine", ["interpreter", "auto"])
def test_trees_are_loaded_with_each_row_once(
    engine: str, kind: str, spark: Any, tmp_path: Path, sent: list[int | None]
) -> None:
    rows, more = sales(400, 1), sales(300, 2)
    expected = declared(viewlet.connect(engine="interpreter"), kind)
    expected.apply({"sales": rows, "shops": SHOPS})
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "db", partitions=3, engine=engine) as db:
        declared(db, kind)
        shops = spark.createDataFrame(SHOPS, "shop bigint, city string")
        db.apply({"sales": stored(spark, rows, tmp_path / "sales.parquet"), "shops": shops})
        distinct = duckdb.sql("SELECT DISTINCT * EXCLUDE id FROM rows").fetchall()
        assert sent == [len(distinct), None]
        same(db, expected)
        table = db.view("exact").cofactor()
        assert (table.count, table.sums[0], table.matrix[0][0]) == joined(rows)
        for each in (db, expected):
            each.insert("sales", more)
            each.delete("sales", rows.slice(0, 50))
        same(db, expected)
    forget()
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "db", engine=engine) as again:
        same(again, expected)
        again.delete("sales", stored(spark, more, tmp_path / "more.parquet"))
        expected.delete("sales", more)
        (counted,) = sent[2:]
        assert (counted is None) == (kind == "TABLE")  # which keeps whole rows
        same(again, expected)
        again.checkpoint()
        same(again, expected)


def test_a_value_that_does_not_fit_is_refused_as_before(spark: Any, tmp_path: Path, sent: list[int | None]) -> None:
    rows = pa.table({"shop": pa.array([1] * 64, pa.int64()), "paid": [0.5] * 62 + [float("nan")] * 2})
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "db", partitions=2) as db:
        db.execute("CREATE STREAM t (shop BIGINT, paid DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT COFACTOR(shop, paid) FROM t")
        with pytest.raises(DataError, match="NaN"):
            db.insert("t", stored(spark, rows, tmp_path / "rows.parquet"))
        db.insert("t", stored(spark, rows.slice(0, 62), tmp_path / "fine.parquet"))
        assert sent == [2, 1]
        assert db.view("v").cofactor().count == 62


def test_rows_that_say_their_number_or_hardly_repeat_are_sent(
    spark: Any, tmp_path: Path, sent: list[int | None]
) -> None:
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "db", partitions=2) as db:
        db.execute("CREATE STREAM t (a BIGINT, b DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT COFACTOR(a, b) FROM t")
        numbers = pa.array([1] * 64, pa.int64())
        weights = pa.table({"a": numbers, "b": [0.5] * 64, "_multiplicity": pa.array([3] * 63 + [-1], pa.int64())})
        db.apply({"t": stored(spark, weights, tmp_path / "weights.parquet")})
        assert (sent, db.view("v").cofactor().count) == ([], 188)
        different = pa.table({"a": pa.array(range(64), pa.int64()), "b": [0.5] * 64})
        db.insert("t", stored(spark, different, tmp_path / "different.parquet"))
        assert (sent, db.view("v").cofactor().count) == ([None], 252)


def test_values_that_only_spark_takes_for_equal_are_not_counted(spark: Any, tmp_path: Path) -> None:
    frame = stored(spark, pa.table({"s": ["a", "A"] * 32}), tmp_path / "rows.parquet")
    assert counted_rows(frame).count() == 2
    assert counted_rows(frame.selectExpr("s COLLATE UTF8_LCASE AS s")) is None


def test_few_keys_of_many_rows_repeat_though_none_is_looked_at(spark: Any) -> None:
    frame = spark.range(100).selectExpr("CAST(0 AS BIGINT) AS k")
    assert keys_per_row(frame, 0) == 0.01
    assert keys_per_row(frame, 1 << 50) == 0.0
