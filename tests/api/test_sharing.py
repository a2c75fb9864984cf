"""Views with the same query share one engine, in this process and on partitions: per batch, in state, and in files."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet import DataError
from viewlet.connection.facade import Connection
from viewlet.connection.spark_facade import connect_inline
from viewlet.engine.declaration import declared_by
from viewlet.engine.maintainer import Maintainer, maintainers
from viewlet.engine.shape import shape_of
from viewlet.spark.run.state.partition import forget

TABLES = """
    CREATE STREAM orders (id BIGINT NOT NULL, customer BIGINT NOT NULL);
    CREATE TABLE items (id BIGINT NOT NULL, price BIGINT)
"""
SAME = (
    "SELECT customer, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY customer",
    "SELECT o.customer AS who, SUM(i.price) AS revenue FROM orders o JOIN items AS i USING (id) GROUP BY o.customer",
    "SELECT x.customer, SUM(price) AS t FROM orders AS x JOIN items USING (id) GROUP BY x.customer",
)
OTHERS = (
    "SELECT customer, SUM(price + 1) AS total FROM orders JOIN items USING (id) GROUP BY customer",
    "SELECT customer, MAX(price) AS total FROM orders JOIN items USING (id) GROUP BY customer",
    "SELECT SUM(price) AS total, customer FROM orders JOIN items USING (id) GROUP BY customer",
    f"{SAME[0]} ORDER BY total LIMIT 3",
    SAME[0].replace("JOIN", "LEFT JOIN"),
)
Open = Callable[[], Connection]


@pytest.fixture(params=["interpreter", "compiled", "partitions"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """A database in a directory, to be opened again and again."""

    def opened() -> Connection:
        forget()
        if request.param == "partitions":
            return connect_inline(tmp_path / "state", 2, sync=False)
        return viewlet.connect(tmp_path / "state", engine=request.param)

    yield opened
    forget()


def shared(db: Connection) -> list[Maintainer]:
    return maintainers(db._session.database().views.values())


def declare(db: Connection, *names: str) -> None:
    for number, name in enumerate(names):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {SAME[number % len(SAME)]}")


class Model:
    """Random changes, and what DuckDB makes of the tables after them."""

    def __init__(self) -> None:
        self.random = random.Random(5)
        self.rows: dict[str, list[tuple[int, int | None]]] = {"orders": [], "items": []}

    def apply(self, db: Connection) -> None:
        batch: dict[str, list[dict[str, Any]]] = {}
        for name, columns in (("orders", ("id", "customer")), ("items", ("id", "price"))):
            rows, new = self.rows[name], [(self.random.randrange(9), self.random.randrange(4)) for _ in range(6)]
            old = self.random.sample(rows, min(3, len(rows)))
            for row in old:
                rows.remove(row)
            rows += new
            signed = [(row, 1) for row in new] + [(row, -1) for row in old]
            batch[name] = [{**dict(zip(columns, row, strict=True)), "_multiplicity": sign} for row, sign in signed]
        db.apply(batch)

    def expected(self, sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as db:
            for name, columns in (("orders", "id BIGINT, customer BIGINT"), ("items", "id BIGINT, price BIGINT")):
                db.execute(f"CREATE TABLE {name} ({columns})")
                db.execute(f"INSERT INTO {name} VALUES {', '.join(map(str, self.rows[name]))}")
            return sorted(db.execute(sql).fetchall(), key=repr)

    def check(self, db: Connection) -> None:
        expected = self.expected(SAME[0])
        for name in db.views:
            if name != "other":
                assert sorted(db.view(name).rows(), key=repr) == expected, name


def test_shapes() -> None:
    with viewlet.connect() as db:
        db.execute(TABLES)
        schemas = db._session.database().catalogue.schemas()
        found = [shape_of(declared_by(f"CREATE VIEW v AS {sql}", schemas)) for sql in (*SAME, *OTHERS)]
    assert None not in found
    assert len(set(found[: len(SAME)])) == 1
    assert len(set(found)) == 1 + len(OTHERS)


def test_views_with_the_same_query_have_one_engine(make: Open) -> None:
    """They come and go, are followed, and continue in the same way when the directory is opened again."""
    model, told = Model(), dict[str, dict[tuple[Any, ...], int]]()

    def follow(db: Connection, name: str) -> None:
        def hear(_: int, changes: Any) -> None:
            for change in changes.to_pylist():
                *row, weight = change.values()
                known = told.setdefault(name, {})
                known[tuple(row)] = known.get(tuple(row), 0) + weight

        db.view(name).subscribe(hear)

    with make() as db:
        db.execute(TABLES)
        declare(db, "a", "b", "c")
        db.execute(f"CREATE MATERIALIZED VIEW other AS {OTHERS[0]}")
        assert len(shared(db)) == 2
        assert list(db.view("b").columns) == ["who", "revenue"]
        assert db.view("b").stats()["shared_with"] == ["a", "c"]
        assert "shared with view a, c" in db.explain("b", stage="engine")
        follow(db, "a")
        follow(db, "c")
        for _ in range(3):
            model.apply(db)
            model.check(db)
        for name in ("a", "c"):
            assert sorted(row for row, weight in told[name].items() if weight) == sorted(db.view(name).rows())
        db.execute("DROP VIEW a")
        model.apply(db)
        model.check(db)
        assert db.view("b").stats()["shared_with"] == ["c"]
        db.checkpoint()
        model.apply(db)
    with make() as db:
        assert len(shared(db)) == 2
        assert db.view("c").stats()["shared_with"] == ["b"]
        model.check(db)
        model.apply(db)
        model.check(db)
    with make() as db:  # from the log, without a snapshot in between
        model.check(db)
        db.execute("DROP VIEW b; DROP VIEW c")
        assert [each.name for each in shared(db)] == ["other"]
        db.execute("DROP VIEW other")


def test_a_name_is_free_when_its_view_is_gone(make: Open) -> None:
    """The engine that was declared under it continues for another view."""
    model = Model()
    with make() as db:
        db.execute(TABLES)
        declare(db, "a", "b")
        model.apply(db)
        db.execute("DROP VIEW a; CREATE MATERIALIZED VIEW a AS SELECT price, COUNT(*) AS n FROM items GROUP BY price")
        counted = "SELECT price, COUNT(*) AS n FROM items GROUP BY price"
        for _ in range(2):
            model.apply(db)
            assert sorted(db.view("a").rows(), key=repr) == model.expected(counted)
            assert sorted(db.view("b").rows(), key=repr) == model.expected(SAME[0])
    for step in range(3):
        with make() as db:
            assert sorted(db.view("a").rows(), key=repr) == model.expected(counted)
            assert sorted(db.view("b").rows(), key=repr) == model.expected(SAME[0])
            model.apply(db)
            if step == 0:
                db.checkpoint()
                model.apply(db)


def test_a_view_is_replaced_by_an_equal_one(make: Open) -> None:
    model = Model()
    with make() as db:
        db.execute(TABLES.replace("CREATE STREAM", "CREATE TABLE"))
        declare(db, "a", "b")
        model.apply(db)
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW a AS {SAME[2]}")
        assert len(shared(db)) == 1
        model.apply(db)
        model.check(db)
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW a AS {OTHERS[0]}")
        assert len(shared(db)) == 2
        assert db.view("b").stats()["shared_with"] == []
        model.apply(db)
        assert sorted(db.view("a").rows(), key=repr) == model.expected(OTHERS[0])
        assert sorted(db.view("b").rows(), key=repr) == model.expected(SAME[0])
    with make() as db:
        assert sorted(db.view("a").rows(), key=repr) == model.expected(OTHERS[0])
        assert sorted(db.view("b").rows(), key=repr) == model.expected(SAME[0])


def test_a_batch_that_fails_leaves_all_as_they_were(make: Open) -> None:
    model = Model()
    with make() as db:
        db.execute(TABLES + "; CREATE TABLE once (id BIGINT NOT NULL, PRIMARY KEY (id))")
        declare(db, "a", "b")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM once")
        model.apply(db)
        before = db.view("a").rows()
        with pytest.raises(DataError):
            db.apply({"items": [(1, 1)], "orders": [(1, 1)], "once": [(1,), (1,)]})
        assert db.view("a").rows() == db.view("b").rows() == before
        db.execute("DROP VIEW n")
        model.apply(db)
        model.check(db)


def test_a_declaration_that_fails_shares_nothing(make: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with make() as db:
        db.execute(TABLES)
        declare(db, "a")
        journal = db._session.database().journal
        with monkeypatch.context() as broken:
            broken.setattr(journal, "declare", _fail)
            with pytest.raises(RuntimeError):
                declare(db, "b")
        assert db.view("a").stats()["shared_with"] == []
        declare(db, "c")
        assert db.view("a").stats()["shared_with"] == ["c"]


def _fail(*_: object) -> None:
    raise RuntimeError("no")


def test_views_over_views_share_too(make: Open) -> None:
    """In this process; on partitions they read the tables under the views, each for itself."""
    model = Model()
    with make() as db:
        db.execute(TABLES)
        declare(db, "a")
        for name in ("x", "y"):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT total, COUNT(*) AS n FROM a GROUP BY total")
        for _ in range(3):
            model.apply(db)
            assert sorted(db.view("x").rows(), key=repr) == sorted(db.view("y").rows(), key=repr)
            inner = f"SELECT total, COUNT(*) AS n FROM ({SAME[0]}) GROUP BY total"
            assert sorted(db.view("x").rows(), key=repr) == model.expected(inner)


def test_the_background_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine that several views share moves to compiled code, and all of them follow."""
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 20)
    model = Model()
    with viewlet.connect() as db:
        db.execute(TABLES)
        declare(db, "a", "b", "c")
        for _ in range(4):
            model.apply(db)
        assert len(db._session.database().compilations()) == 1
        assert db.settle(timeout=60)
        assert {db.view(name).stats()["engine"] for name in "abc"} == {"compiled"}
        assert len(shared(db)) == 1
        model.apply(db)
        model.check(db)


def test_work_does_not_grow_with_the_number_of_equal_views(make: Open) -> None:
    """Fifty equal views: one engine, one state, one snapshot of it; a change is counted once."""
    model = Model()
    with make() as db:
        db.execute(TABLES)
        declare(db, *(f"v{i}" for i in range(50)))
        model.apply(db)
        model.check(db)
        (only,) = shared(db)
        assert len(only.views) == 50
        assert only.work.batches == 1
        db.checkpoint()
    with make() as db:
        assert len(shared(db)) == 1
        model.apply(db)
        model.check(db)
