"""State that moves at a snapshot: what has become large, and what has stayed small; without Spark."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet import DataError, StateError, UnsupportedError, ViewletError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.hosts import spark as host
from viewlet.spark.plan import partitioning
from viewlet.spark.run import unit_registry
from viewlet.spark.run.execution import snapshot_tasks
from viewlet.spark.run.state.partition import forget

DECLARED = """
    CREATE TABLE shops (id BIGINT NOT NULL, city VARCHAR NOT NULL, PRIMARY KEY (id));
    CREATE STREAM sales (shop BIGINT NOT NULL, item VARCHAR, price DOUBLE NOT NULL)
"""
VIEWS = {
    "items": "SELECT item, SUM(price) AS total, COUNT(*) AS n FROM sales GROUP BY item",
    "cities": "SELECT city, item, COUNT(*) AS n FROM shops JOIN sales ON shop = id GROUP BY city, item",
    "dearest": "SELECT item, MAX(price) AS price FROM sales GROUP BY item",
}
KERNELS = ("interpreter", "compiled")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Thirty rows are many, and five are few."""
    for module in (partitioning, unit_registry, host):
        monkeypatch.setattr(module, "DRIVER_ROWS", 30)
    monkeypatch.setattr(partitioning, "SMALL_ROWS", 5)
    monkeypatch.setattr(host, "FEW_ROWS", 5)
    yield
    forget()


def opened(folder: Path, kernel: str = "interpreter") -> SparkConnection:
    return connect_inline(folder, 3, sync=False, engine=kernel)


def homes(db: SparkConnection, view: str) -> dict[str, str]:
    found: Any = db.view(view).stats()["homes"]
    return {name: at for name, at in found.items() if name.startswith(view)}


class Model:
    """The tables in DuckDB, and the changes that make a random batch."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sales: list[tuple[int, str | None, float]] = []
        self.shops = [(id, f"city {id % 3}") for id in range(9)]

    def batch(self, items: int, rows: int) -> list[dict[str, Any]]:
        """Sales of some of the items, and a fifth of them taken back."""
        choose = self.random
        new: list[tuple[int, str | None, float]] = [
            (choose.randrange(9), choose.choice([None, *(f"item {i}" for i in range(items))]), choose.randrange(99) / 4)
            for _ in range(rows)
        ]
        old = choose.sample(self.sales, min(len(self.sales), rows // 5))
        for sale in old:
            self.sales.remove(sale)
        self.sales += new
        signed = [(sale, 1) for sale in new] + [(sale, -1) for sale in old]
        return [
            {"shop": shop, "item": item, "price": price, "_multiplicity": sign} for (shop, item, price), sign in signed
        ]

    def expected(self, *views: str) -> list[list[tuple[Any, ...]]]:
        """What DuckDB says that some views hold."""
        with duckdb.connect() as db:
            db.execute("CREATE TABLE shops (id BIGINT, city VARCHAR)")
            db.execute("CREATE TABLE sales (shop BIGINT, item VARCHAR, price DOUBLE)")
            for name, rows in (("shops", self.shops), ("sales", self.sales)):
                if rows:
                    values = ", ".join(map(str, rows)).replace("None", "NULL")
                    db.execute(f"INSERT INTO {name} VALUES {values}")
            return [sorted(db.execute(VIEWS[view]).fetchall(), key=repr) for view in views]


def check(db: SparkConnection, model: Model, views: Sequence[str] = tuple(VIEWS)) -> None:
    for view, expected in zip(views, model.expected(*views), strict=True):
        assert sorted(db.view(view).rows(), key=repr) == expected, view


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_becomes_large_leaves_the_driver(kernel: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Columns have more values than expected: after a batch a snapshot moves the groups, which stay maintained."""
    caplog.set_level(logging.INFO, "viewlet")
    model, told = Model(1), dict[tuple[Any, ...], int]()

    def follow(_: int, changes: Any) -> None:
        for *row, weight in (tuple(change.values()) for change in changes.to_pylist()):
            told[tuple(row)] = told.get(tuple(row), 0) + weight

    with opened(tmp_path, kernel) as db:
        db.execute(DECLARED)
        db.insert("shops", model.shops)
        db.expect_rows({"sales.item": 4, "shops.city": 3})
        for name, sql in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        db.view("items").subscribe(follow)
        assert set(homes(db, "items").values()) == {"local"}
        for items in (4, 4, 60, 60, 60):
            db.apply({"sales": model.batch(items, 80)})
            check(db, model)
        assert set(homes(db, "items").values()) == {"[item]"}
        assert "view items: items_sales has 49 rows" in caplog.text
        assert "and is now partitioned by [item]" in caplog.text
        assert {row for row, weight in told.items() if weight} == set(db.view("items").rows())
        assert db._host.cluster.sizes("items")["items_sales"] == len(db.view("items").rows())
        before = {view: homes(db, view) for view in VIEWS}
    forget()
    with opened(tmp_path, kernel) as db:
        assert {view: homes(db, view) for view in VIEWS} == before
        check(db, model)
        db.apply({"sales": model.batch(70, 50)})
        check(db, model)
        db.checkpoint()
        db.apply({"sales": model.batch(70, 50)})
    forget()
    with opened(tmp_path, kernel) as db:
        check(db, model)


@pytest.mark.parametrize("expected", [{}, {"sales.item": 1_000}], ids=["nothing", "many"])
def test_what_stays_small_moves_to_the_driver(expected: dict[str, float], tmp_path: Path) -> None:
    """When many changes have left few groups, the next snapshot moves them: batches need no stage for them then."""
    model, views = Model(2), ("items", "cities")
    with opened(tmp_path) as db:
        db.execute(DECLARED)
        db.insert("shops", model.shops)
        db.expect_rows(expected)
        for name in views:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        assert set(homes(db, "items").values()) == {"[item]"}
        db.apply({"sales": model.batch(3, 20)})
        db.checkpoint()
        assert set(homes(db, "items").values()) == {"[item]"}  # too few changes to say anything
        for _ in range(3):
            db.apply({"sales": model.batch(3, 20)})
        assert set(homes(db, "items").values()) == {"[item]"}  # no snapshot is written for them
        db.checkpoint()
        assert set(homes(db, "items").values()) == {"local"}
        db.apply({"sales": model.batch(3, 20)})
        check(db, model, views)
        for _ in range(2):  # and back, when it grows after all
            db.apply({"sales": model.batch(90, 90)})
            check(db, model, views)
        assert set(homes(db, "items").values()) == {"[item]"}


def test_kept_changes_follow_a_view_wherever_it_is(tmp_path: Path) -> None:
    """Files of changes are written by the driver, then by tasks, then by the driver again."""
    model = Model(7)
    with opened(tmp_path) as db:
        db.execute(DECLARED)
        db.expect_rows({"sales.item": 4})
        for name in ("items", "again"):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS['items']}")
            db.changes(name)
        places = []
        for items in (3, 90, 90, 90):
            db.apply({"sales": model.batch(items, 90)})
            places += homes(db, "items").values()
        db.delete("sales", model.sales[4:])
        del model.sales[4:]
        db.checkpoint()
        places += homes(db, "items").values()
        db.apply({"sales": model.batch(2, 5)})
        assert places == ["local", "[item]", "[item]", "[item]", "local"]
        for name in ("items", "again"):
            assert [followed(tmp_path, name)] == model.expected("items")
        db.execute("DROP VIEW items")
        db.apply({"sales": model.batch(90, 90)})
        db.apply({"sales": model.batch(90, 90)})
        assert [followed(tmp_path, "again")] == model.expected("items")


def followed(folder: Path, view: str) -> list[tuple[Any, ...]]:
    """The rows that the kept changes of a view add up to."""
    rows: dict[tuple[Any, ...], int] = {}
    for change in viewlet.changes_of(str(folder), view, since=0).to_pylist():
        weight = change["_multiplicity"] if "_multiplicity" in change else SIGNS[change["_change_type"]]
        row = tuple(value for name, value in change.items() if not name.startswith("_"))
        rows[row] = rows.get(row, 0) + weight
    return sorted((row for row, weight in rows.items() if weight), key=repr)


SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


def test_partition_by_has_the_last_word(tmp_path: Path) -> None:
    model = Model(3)
    with opened(tmp_path) as db:
        db.execute(DECLARED)
        db.partition_by("items_sales")
        db.execute(f"CREATE MATERIALIZED VIEW items AS {VIEWS['items']}")
        for _ in range(4):
            db.apply({"sales": model.batch(90, 90)})
        db.checkpoint()
        assert homes(db, "items") == {"items_sales": "local"}


def test_a_partitioning_that_was_asked_for_stays(tmp_path: Path) -> None:
    """The groups were partitioned in the same way before, by choice; what is asked for does not move to the driver."""
    model = Model(8)
    with opened(tmp_path) as db:
        db.execute(DECLARED)
        db.execute(f"CREATE MATERIALIZED VIEW items AS {VIEWS['items']}")
        assert homes(db, "items") == {"items_sales": "[item]"}
        db.execute("ALTER MATERIALIZED VIEW items PARTITION BY (item)")
        for _ in range(4):
            db.apply({"sales": model.batch(3, 20)})
        db.checkpoint()
        assert homes(db, "items") == {"items_sales": "[item]"}
    forget()
    with opened(tmp_path) as db:
        db.apply({"sales": model.batch(3, 20)})
        db.checkpoint()
        assert homes(db, "items") == {"items_sales": "[item]"}
        assert [sorted(db.view("items").rows(), key=repr)] == model.expected("items")


@pytest.mark.parametrize("task", ["SplitState", "WriteSnapshot"])
def test_a_move_that_fails_changes_nothing(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch that a snapshot follows is committed: it does not fail with the snapshot."""
    model = Model(4)
    with opened(tmp_path) as db:
        db.execute(DECLARED)
        db.expect_rows({"sales.item": 4})
        db.execute(f"CREATE MATERIALIZED VIEW items AS {VIEWS['items']}")
        with monkeypatch.context() as broken:
            broken.setattr(getattr(snapshot_tasks, task), "__call__", _fail)
            db.apply({"sales": model.batch(60, 90)})
            assert "no snapshot was written, the log continues: RuntimeError: no more" in caplog.text
            assert homes(db, "items") == {"items_sales": "local"}
            assert [sorted(db.view("items").rows(), key=repr)] == model.expected("items")
        db.apply({"sales": model.batch(60, 90)})
        assert homes(db, "items") == {"items_sales": "[item]"}
        assert [sorted(db.view("items").rows(), key=repr)] == model.expected("items")
        assert not [name for name in db._host.cluster.checkpoint.files.list() if name.startswith("moves-")]


def _fail(*_: object) -> None:
    raise RuntimeError("no more")


def test_a_move_that_is_interrupted_is_made_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception right after the manifest was written: the snapshot counts, and so do the new places."""
    model = Model(5)
    with opened(tmp_path) as db:
        db.execute(DECLARED)
        db.expect_rows({"sales.item": 4})
        db.execute(f"CREATE MATERIALIZED VIEW items AS {VIEWS['items']}")
        store = db._host.cluster.checkpoint._store
        with monkeypatch.context() as interrupted:
            interrupted.setattr(store, "remove_left_over", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                db.apply({"sales": model.batch(60, 90)})
        assert homes(db, "items") == {"items_sales": "[item]"}
        forget()  # nothing but the snapshot is left
        assert [sorted(db.view("items").rows(), key=repr)] == model.expected("items")
        db.apply({"sales": model.batch(60, 90)})
        assert [sorted(db.view("items").rows(), key=repr)] == model.expected("items")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kernel", KERNELS)
def test_another_partitioning_and_another_number_of_partitions(kernel: str, tmp_path: Path) -> None:
    """Between random batches, with restarts: rows stay right, and go where they are asked to."""
    model = Model(6)
    with opened(tmp_path, kernel) as db:
        db.execute(DECLARED)
        db.insert("shops", model.shops)
        for name, sql in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    before, rows = None, 60 if kernel == "interpreter" else 15
    for columns, partitions in (("city", 5), ("item", 1), ("item, city", 4), ("city", 2))[: rows // 7]:
        forget()
        with opened_anyhow(tmp_path, kernel) as db:
            if before is not None:
                check(db, model)
            assert before in (None, homes(db, "cities")["cities_shops_sales"])
            db.apply({"sales": model.batch(40, rows)})
            db.checkpoint()
            assert before in (None, homes(db, "cities")["cities_shops_sales"])
            db.execute(f"ALTER MATERIALIZED VIEW cities PARTITION BY ({columns})")
            before = homes(db, "cities")["cities_shops_sales"]
            assert before == f"[{columns}]"
            check(db, model)
            db.apply({"sales": model.batch(40, rows)})
            check(db, model)
            db.repartition(partitions)
            assert db.stats()["partitions"] == partitions
            assert f"{partitions} partitions" in db.explain("cities", stage="engine")
            check(db, model)
            assert sorted(db.table("shops").rows()) == model.shops
            db.apply({"sales": model.batch(40, rows)})
            with pytest.raises(DataError, match="duplicate key"):
                db.insert("shops", [(1, "again")])
            check(db, model)
            assert len(db.view("cities").stats()["partition_rows"]) == partitions  # type: ignore[arg-type]


def opened_anyhow(folder: Path, kernel: str) -> SparkConnection:
    """The number of partitions is the checkpoint's."""
    from viewlet.connection import spark_facade

    asked = spark_facade.Checkpoint(folder, sync=False)
    found = asked.setup(spark_facade.SETUP)
    asked.close()
    return connect_inline(folder, found or 3, sync=False, engine=kernel)


def test_what_cannot_be_altered(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        db.execute(DECLARED)
        db.execute(f"CREATE MATERIALIZED VIEW items AS {VIEWS['items']}")
        for sql, message in (
            ("ALTER VIEW items PARTITION BY (total)", "nothing that is kept for items has these columns as keys"),
            ("ALTER VIEW items PARTITION BY (itme)", "itme.*did you mean 'item'"),
            ("ALTER VIEW itmes PARTITION BY (item)", "itmes"),
            ("ALTER VIEW items PARTITION BY ()", "is expected"),
            ("ALTER VIEW items RENAME TO others", "is expected"),
        ):
            with pytest.raises(ViewletError, match=message):
                db.execute(sql)
        with pytest.raises(DataError, match="positive"):
            db.repartition(0)
        db.execute("CREATE MATERIALIZED VIEW model AS SELECT COFACTOR(shop, price) FROM sales")
        with pytest.raises(UnsupportedError, match="another number of partitions for view 'model'"):
            db.repartition(2)
        db.insert("sales", [(1, "a", 2.0)])
        assert db.view("items").rows() == [("a", 2.0, 1)]
    with pytest.raises(StateError, match=r"has 3 partitions; leave partitions=5 out, and call repartition\(5\)"):
        connect_inline(tmp_path, 5)
    with viewlet.connect() as local:
        local.execute(f"{DECLARED}; CREATE MATERIALIZED VIEW items AS {VIEWS['items']}")
        local.execute("ALTER MATERIALIZED VIEW items PARTITION BY (item)")


def test_hot_partitions_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all rows have one key of a table that says what to go by; other columns spread them."""
    monkeypatch.setattr("viewlet.spark.run.views.unit_view.HOT_ROWS", 20)
    with opened(tmp_path) as db:
        db.execute("CREATE STREAM clicks (site BIGINT NOT NULL, page BIGINT NOT NULL) PARTITION BY (site)")
        db.execute("CREATE MATERIALIZED VIEW pages AS SELECT site, page, COUNT(*) AS n FROM clicks GROUP BY site, page")
        db.insert("clicks", [(7, page) for page in range(90)] + [(site, 0) for site in range(6)])
        (hot,) = db.view("pages").stats()["hot_partitions"]  # type: ignore[misc]
        assert f"hot partition {hot}: 9" in db.explain("pages", stage="spark")
        db.execute("ALTER MATERIALIZED VIEW pages PARTITION BY (page)")
        db.insert("clicks", [(1, 1)])
        assert db.view("pages").stats()["hot_partitions"] == []
        assert len(db.view("pages").rows()) == 97
