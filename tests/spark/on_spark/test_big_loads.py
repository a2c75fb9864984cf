"""Views that begin with a lot of rows: loaded by Spark SQL, and maintained from there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet import DataError
from viewlet.connection.spark_facade import SparkConnection
from viewlet.spark.plan import partitioning
from viewlet.spark.run.execution import loader
from viewlet.spark.run.load import load_plan
from viewlet.spark.run.state.partition import forget
from viewlet.spark.run.state.segment_files import LoadedViews

STREAMS = """
    CREATE STREAM orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL, note VARCHAR);
    CREATE STREAM items (id BIGINT NOT NULL, price INTEGER NOT NULL, comment VARCHAR);
"""
TABLES = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR NOT NULL, note VARCHAR);
    CREATE TABLE items (id BIGINT NOT NULL, price INTEGER NOT NULL, comment VARCHAR);
"""
VIEWS = {
    "revenue": "SELECT customer, SUM(price) AS total, COUNT(*) AS n FROM orders JOIN items USING (id) GROUP BY 1",
    "prices": "SELECT COUNT(*) AS n, SUM(price) AS total FROM items",
    "dear": "SELECT id, price FROM items WHERE price > (SELECT AVG(price) FROM items)",
}
ORDERS = [(i, "abc"[i % 3], None) for i in range(30)]
ITEMS = [(i % 40, (7 * i) % 19, "no one reads this") for i in range(90)]


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loader, "LOAD_FROM_BYTES", 0)
    monkeypatch.setattr(loader, "LOAD_FROM_ROWS", 0)
    monkeypatch.setattr(loader, "UNKNOWN_BYTES", 1 << 70)
    yield
    forget()


def frames(spark: Any) -> dict[str, Any]:
    return {
        "orders": spark.createDataFrame(ORDERS, "id bigint, customer string, note string"),
        "items": spark.createDataFrame(ITEMS, "id bigint, price int, comment string"),
    }


def in_process(tables: str) -> Any:
    db = viewlet.connect(engine="interpreter")
    db.execute(tables + ";".join(f"CREATE MATERIALIZED VIEW {name} AS {sql}" for name, sql in VIEWS.items()))
    db.apply({"orders": ORDERS, "items": ITEMS})
    return db


def declare(db: SparkConnection) -> None:
    db.execute(";".join(f"CREATE MATERIALIZED VIEW {name} AS {sql}" for name, sql in VIEWS.items()))


def same(db: SparkConnection, expected: Any) -> None:
    for name in VIEWS:
        assert sorted(db.view(name).rows()) == sorted(expected.view(name).rows()), name


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_streams_are_loaded_and_maintained(engine: str, spark: Any, tmp_path: Path) -> None:
    expected = in_process(STREAMS)
    db = viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=3, engine=engine)
    assert isinstance(db, SparkConnection)
    db.execute(STREAMS)
    declare(db)
    told: list[Any] = []
    db.view("prices").subscribe(lambda epoch, changes: told.append(changes))
    db.apply(frames(spark))
    (batch,) = db.stats()["batches"]  # type: ignore[misc]
    assert (batch["stages"], "load" in batch["seconds"]) == (0, True)
    assert len(told) == 1
    same(db, expected)
    more = [(3, 5, "x"), (41, 2, None)]
    for data in (more, spark.createDataFrame(more, "id bigint, price int, comment string")):
        db.insert("items", data)
        expected.insert("items", more)
        same(db, expected)
    db.close()
    forget()
    again = viewlet.connect(spark=spark, checkpoint=tmp_path, engine=engine)
    same(again, expected)
    again.delete("items", more)
    expected.delete("items", more)
    same(again, expected)
    assert list(tmp_path.glob("load-*"))
    again.checkpoint()
    assert not list(tmp_path.glob("load-*"))
    same(again, expected)
    again.close()


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_views_over_tables_that_are_there(engine: str, spark: Any, tmp_path: Path) -> None:
    expected = in_process(TABLES)
    db = viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=2, engine=engine)
    assert isinstance(db, SparkConnection)
    db.execute(TABLES)
    for name, frame in frames(spark).items():
        db.insert(name, frame)
    declare(db)
    same(db, expected)
    with pytest.raises(DataError, match="duplicate key"):
        db.insert("orders", ORDERS[:1])
    with pytest.raises(DataError, match="not there"):
        db.delete("items", [(1, 1_000, None)])
    same(db, expected)
    db.delete("items", ITEMS[:5])
    expected.delete("items", ITEMS[:5])
    same(db, expected)
    db.close()
    forget()
    again = viewlet.connect(spark=spark, checkpoint=tmp_path, engine=engine)
    assert isinstance(again, SparkConnection)
    same(again, expected)
    again.close()


JOINED = """
    CREATE TABLE customer (c BIGINT PRIMARY KEY, name VARCHAR NOT NULL, nation BIGINT);
    CREATE TABLE orders (o BIGINT PRIMARY KEY, c BIGINT NOT NULL, day DATE NOT NULL);
    CREATE TABLE items (o BIGINT, line INTEGER, price DECIMAL(9,2) NOT NULL, note VARCHAR, PRIMARY KEY (o, line));
    CREATE TABLE notes (o BIGINT NOT NULL, text VARCHAR);
"""
QUERIES = {
    "spent": "SELECT c, name, SUM(price) AS s, COUNT(*) AS n FROM customer JOIN orders USING (c) JOIN items USING (o) "
    "WHERE day < DATE '2024-01-20' GROUP BY c, name",
    "noted": "SELECT nation, COUNT(text) AS n FROM customer JOIN orders USING (c) JOIN notes USING (o) GROUP BY nation",
    "daily": "SELECT day, MAX(price) AS m, COUNT(DISTINCT c) AS n FROM orders JOIN items USING (o) GROUP BY day",
    "whole": "SELECT o, c, day, line, price FROM orders JOIN items USING (o) WHERE price > 3",
}


@pytest.mark.slow
def test_tables_and_views_are_loaded_at_once_and_maintained(spark: Any, tmp_path: Path) -> None:
    """What Spark SQL computes from the rows that are there is what views have: after the load, and after changes."""
    choose = random.Random(3)
    day = date(2024, 1, 1)
    rows: dict[str, list[tuple[Any, ...]]] = {
        "customer": [(c, f"n{c % 7}", c % 3 or None) for c in range(20)],
        "orders": [(o, choose.randrange(25), day + timedelta(o % 30)) for o in range(90)],
        "items": [(choose.randrange(99), i, Decimal(i) / 4, None if i % 5 else "x") for i in range(200)],
        "notes": [(choose.randrange(90), choose.choice(["a", None])) for _ in range(60)],
    }
    types = {
        "customer": "c bigint, name string, nation bigint",
        "orders": "o bigint, c bigint, day date",
        "items": "o bigint, line int, price decimal(9,2), note string",
        "notes": "o bigint, text string",
    }

    def right(db: Any) -> None:
        for name, present in rows.items():
            spark.createDataFrame(present, types[name]).createOrReplaceTempView(name)
            assert Counter(db.table(name).rows()) == Counter(present), name
        for name, sql in QUERIES.items():
            expected = Counter(map(tuple, spark.sql(sql).collect()))
            assert Counter(db.view(name).rows()) == expected, name

    views = ";".join(f"CREATE MATERIALIZED VIEW {name} AS {sql}" for name, sql in QUERIES.items())
    with viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=3, engine="interpreter") as db:
        db.execute(JOINED + views)
        frames = {name: spark.createDataFrame(present, types[name]) for name, present in rows.items()}
        doubled = frames["items"].union(frames["items"].limit(1))
        with pytest.raises(DataError, match=r"duplicate key \(o, line\) in items"):
            db.apply({**frames, "items": doubled})
        with pytest.raises(DataError, match="price"):
            db.apply({**frames, "items": frames["items"].selectExpr("o", "line", "NULLIF(price, 7) AS price", "note")})
        assert (db.epoch, db.view("spent").rows(), list(tmp_path.glob("load-*"))) == (0, [], [])
        db.apply(frames)
        (batch,) = db.stats()["batches"]  # type: ignore[misc]
        assert (batch["stages"], batch["epoch"]) == (0, 1)
        assert len(list(tmp_path.glob("load-*"))) == 1
        right(db)
    for is_saved in (False, True):
        forget()
        with viewlet.connect(spark=spark, checkpoint=tmp_path, engine="interpreter") as db:
            for number in range(2):
                gone = {name: choose.sample(present, 5) for name, present in rows.items()}
                less = {name: [(*row, -1) for row in some] for name, some in gone.items()}
                db.apply({n: spark.createDataFrame(some, f"{types[n]}, _multiplicity int") for n, some in less.items()})
                for name, some in gone.items():
                    for row in some:
                        rows[name].remove(row)
                more: dict[str, list[tuple[Any, ...]]] = {
                    "customer": [(row[0], "new", 1) for row in gone["customer"]],
                    "orders": [(row[0], row[1] + 1, day) for row in gone["orders"]],
                    "items": [(*row[:2], Decimal(number), "y") for row in gone["items"]],
                    "notes": [gone["notes"][0]] * 2,
                }
                db.apply(more)
                for name, some in more.items():
                    rows[name] += some
            right(db)
            if not is_saved:
                db.checkpoint()
                assert not list(tmp_path.glob("load-*"))


def test_a_load_that_is_refused_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    db = viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=2, engine="compiled")
    db.execute(TABLES)
    twice = spark.createDataFrame([*ORDERS, ORDERS[0]], "id bigint, customer string, note string")
    with pytest.raises(DataError, match="duplicate key"):
        db.insert("orders", twice)
    with pytest.raises(DataError, match="price"):
        db.insert("items", spark.createDataFrame([(1, None, "x")], "id bigint, price int, comment string"))
    assert not list(tmp_path.glob("load-*"))
    assert db.epoch == 0
    db.insert("orders", frames(spark)["orders"])
    assert db.stats()["tables"]["orders"]["rows"] == len(ORDERS)  # type: ignore[index]
    db.close()


def test_layers_of_outer_joins_are_loaded_and_maintained(spark: Any, tmp_path: Path) -> None:
    tables = "".join(f"CREATE TABLE t{i} (k BIGINT, v DECIMAL(6,2));" for i in range(4))
    query = (
        "SELECT t0.k AS a, t1.v AS b, t2.v AS c, t3.k AS d FROM t0 FULL JOIN t1 ON t0.k = t1.k "
        "FULL JOIN t2 ON t1.v = t2.v FULL JOIN t3 ON t2.k = t3.k"
    )
    rows = {f"t{i}": [(n * (i + 1) % 7 or None, f"{n % 5}.50") for n in range(20)] for i in range(4)}
    more = {f"t{i}": [(n % 9, f"{n}.50") for n in range(i, i + 4)] for i in range(4)}
    expected = viewlet.connect(engine="interpreter")
    expected.execute(tables + f"CREATE MATERIALIZED VIEW q AS {query}")
    db = viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=3)
    db.execute(tables)
    for each in (expected, db):
        each.apply(rows)
    db.execute(f"CREATE MATERIALIZED VIEW q AS {query}")
    assert isinstance(db, SparkConnection)
    assert "load" in db._session._database.host.cluster.batches[-1].seconds  # type: ignore[union-attr]
    for changes in ({}, more):
        for each in (expected, db):
            each.apply(changes)
        assert Counter(db.view("q").rows()) == Counter(expected.view("q").rows())
    db.close()


def homes(db: Any, view: str) -> dict[str, str]:
    found: dict[str, str] = db.view(view).stats()["homes"]
    return {name: at for name, at in found.items() if name.startswith(view)}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_load_puts_few_groups_at_the_driver(
    engine: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knew how many customers there are; the load has counted them, and batches need a stage less."""
    monkeypatch.setattr(partitioning, "SMALL_ROWS", 5)
    expected, few = in_process(STREAMS), {"revenue_orders_items": "local"}
    db: Any = viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=3, engine=engine)
    db.execute(STREAMS)
    declare(db)
    before = homes(db, "revenue")
    assert before["revenue_orders_items"] == "[customer]"
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(db._host.cluster.checkpoint, "commit", _fail)
        with pytest.raises(RuntimeError, match="no more"):
            db.apply(frames(spark))
    assert homes(db, "revenue") == before
    assert db.view("revenue").rows() == []
    db.apply(frames(spark))
    after = homes(db, "revenue")
    assert after == {**before, **few}
    more = [(3, 5, "x"), (41, 2, None)]
    db.insert("items", more)
    expected.insert("items", more)
    assert db.stats()["batches"][-1]["stages"] == 1
    same(db, expected)
    viewlet.register_format(spark)
    read = spark.read.format("viewlet").option("view", "revenue").load(str(tmp_path))
    assert sorted(map(tuple, read.collect())) == sorted(expected.view("revenue").rows())
    db.close()
    for is_saved in (False, True):
        forget()
        with viewlet.connect(spark=spark, checkpoint=tmp_path, engine=engine) as again:
            assert homes(again, "revenue") == after
            same(again, expected)
            again.insert("items", more)
            expected.insert("items", more)
            same(again, expected)
            if not is_saved:
                again.checkpoint()


def _fail(*_: object) -> None:
    raise RuntimeError("no more")


def test_a_view_over_tables_with_few_groups_begins_at_the_driver(spark: Any, tmp_path: Path) -> None:
    expected = in_process(TABLES)
    with viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=2, engine="compiled") as db:
        db.execute(TABLES)
        for name, frame in frames(spark).items():
            db.insert(name, frame)
        declare(db)
        after = homes(db, "revenue")
        assert after["revenue_orders_items"] == "local"
        same(db, expected)
    forget()
    with viewlet.connect(spark=spark, checkpoint=tmp_path, engine="compiled") as db:
        assert homes(db, "revenue") == after
        db.delete("items", ITEMS[:5])
        expected.delete("items", ITEMS[:5])
        same(db, expected)


@pytest.mark.parametrize("why", ["many", "followed"])
def test_a_load_leaves_groups_in_partitions(
    why: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many groups; and few whose changes are followed, which a batch cannot begin to tell from another place."""
    if why == "many":
        for limit in ("SMALL_ROWS", "FEW_ROWS"):
            monkeypatch.setattr(partitioning, limit, 2)
    with viewlet.connect(spark=spark, checkpoint=tmp_path, partitions=2) as db:
        db.execute(STREAMS)
        declare(db)
        if why == "followed":
            db.changes("revenue")
        db.apply(frames(spark))
        assert homes(db, "revenue")["revenue_orders_items"] == "[customer]"
        same(db, in_process(STREAMS))


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("share", [0.75, 0.0])
def test_rows_of_different_keys_are_added_up_where_they_belong(
    engine: str, share: float, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not group what has nearly as many keys as rows; a share of 0 says that of everything."""
    monkeypatch.setattr(load_plan, "APART_FROM_BYTES", 0)
    monkeypatch.setattr(load_plan, "APART_SHARE", share)
    rows = [(i % 70 if i % 9 else None, "abc"[i % 3], i - 40, i / 7 if i % 5 else None) for i in range(90)]
    schema = "id bigint, name string, price int, weight double"
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "rows"))
    declared = """
        CREATE STREAM s (id BIGINT, name VARCHAR, price INTEGER, weight DOUBLE);
        CREATE MATERIALIZED VIEW ids AS
        SELECT id, name, SUM(price) AS total, SUM(weight) AS weight, COUNT(*) AS n FROM s GROUP BY id, name;
        CREATE MATERIALIZED VIEW names AS SELECT name, SUM(price) AS total FROM s GROUP BY name
    """
    expected = viewlet.connect(engine="interpreter")
    expected.execute(declared)
    expected.insert("s", rows)
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state", partitions=3, engine=engine) as db:
        stream, _, views = declared.partition(";")
        db.execute(stream)
        db.expect_rows({"s": 1e9, "s.id": 1e8, "s.name": 1e8})
        db.execute(views)
        db.changes("ids")
        db.apply({"s": spark.read.parquet(str(tmp_path / "rows"))})
        assert "load" in db.stats()["batches"][-1]["seconds"]  # type: ignore[index]
        (step,) = (step for step in db._host.cluster.checkpoint.history.steps if step.head.loads)  # type: ignore[attr-defined]
        loaded = {
            name: LoadedViews.of_json(str(tmp_path / "state"), known).rows for name, known in step.head.loads.items()
        }
        assert loaded == {"ids": 90, "names": 3 if share else 90}
        _equal(db, expected)
        kept = db.changes("ids").toArrow().drop_columns(["_epoch"]).to_pylist()
        assert len(kept) == len(expected.view("ids").rows())
        for data in (db, expected):
            data.insert("s", [(3, "a", 5, 0.5), (None, "b", None, None)])
        _equal(db, expected)
    forget()
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "state", engine=engine) as again:
        _equal(again, expected)
        again.checkpoint()
        _equal(again, expected)


def _equal(db: Any, expected: Any) -> None:
    """Spark rounds sums of doubles."""
    for name in ("ids", "names"):
        found, known = (
            sorted((tuple(round(x, 9) if isinstance(x, float) else x for x in row) for row in rows), key=repr)
            for rows in (db.view(name).rows(), expected.view(name).rows())
        )
        assert found == known
