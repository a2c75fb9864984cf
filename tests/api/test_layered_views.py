"""Long chains of outer joins are kept in layers: everything that a view can do works for them as for any other."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet import DataError
from viewlet.connection import facade
from viewlet.hosts.catalogue import Catalogue

TABLES = [f"CREATE TABLE t{i} (k BIGINT, v BIGINT)" for i in range(4)]
QUERY = """
    SELECT t0.v AS a, t1.v AS b, t2.v AS c, t3.v AS d
    FROM t0 FULL JOIN t1 ON t0.k = t1.k FULL JOIN t2 ON t1.k = t2.k FULL JOIN t3 ON t2.k = t3.k
"""
VIEW = f"CREATE MATERIALIZED VIEW q AS {QUERY}"
ENGINES = ("interpreter", "compiled")


@pytest.fixture(autouse=True)
def _plain_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")


def rows_of(seed: int, count: int = 6) -> dict[str, list[tuple[int | None, int]]]:
    rng = random.Random(seed)
    return {f"t{i}": [(rng.choice((None, 1, 2, 3, 4)), rng.randint(0, 9)) for _ in range(count)] for i in range(4)}


def declare(db: Any, *statements: str) -> None:
    for statement in (*TABLES, *statements):
        db.execute(statement)


def assert_right(db: Any) -> None:
    expected = db.execute(QUERY).to_pylist()
    assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_view_over_rows_that_are_there_continues_in_a_directory(engine: str, tmp_path: Path) -> None:
    with viewlet.connect(tmp_path, engine=engine) as db:
        declare(db)
        db.apply(rows_of(1))
        db.execute(VIEW)
        assert_right(db)
        db.apply(rows_of(2))
        db.checkpoint()
        db.apply(rows_of(3, 2))
    for seed in (4, 5):
        with viewlet.connect(tmp_path, engine=engine) as db:
            assert_right(db)
            db.delete("t1", db.execute("SELECT * FROM t1 LIMIT 3"))
            db.apply(rows_of(seed, 3))
            assert_right(db)
            db.checkpoint()


def test_a_view_that_was_declared_without_layers_goes_on_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before there were any: over streams nothing but its state has the rows."""
    with monkeypatch.context() as earlier:
        earlier.setattr(facade, "Catalogue", lambda known, layered: Catalogue(known))
        with viewlet.connect(tmp_path, engine="interpreter") as db:
            for statement in (*(table.replace("TABLE", "STREAM") for table in TABLES), VIEW):
                db.execute(statement)
            db.apply(rows_of(1))
            before = Counter(db.view("q").rows())
    for seed in (2, 3):
        with viewlet.connect(tmp_path, engine="interpreter") as db:
            assert Counter(db.view("q").rows()) == before
            db.apply(rows_of(seed, 3))
            before = Counter(db.view("q").rows())
            db.checkpoint()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_that_fails_leaves_all_layers_as_they_were(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with viewlet.connect(engine=engine) as db:
        declare(db, VIEW)
        db.apply(rows_of(1))
        before = Counter(db.view("q").rows())
        with monkeypatch.context() as patch:
            patch.setattr("viewlet.connection.journal.InMemory.batch", _refuse)
            with pytest.raises(DataError, match="no batch"):
                db.apply(rows_of(2))
        assert Counter(db.view("q").rows()) == before
        db.apply(rows_of(3))
        assert_right(db)


def _refuse(*args: object) -> None:
    raise DataError("no batch today")


@pytest.mark.parametrize("engine", ENGINES)
def test_subscribers_and_views_over_it_hear_of_its_changes(engine: str) -> None:
    with viewlet.connect(engine=engine) as db:
        declare(db, VIEW, "CREATE MATERIALIZED VIEW totals AS SELECT a, COUNT(*) AS n, SUM(d) AS s FROM q GROUP BY a")
        told: Counter[tuple[object, ...]] = Counter()

        def note(epoch: int, changes: Any) -> None:
            for *row, count in (tuple(each.values()) for each in changes.to_pylist()):
                told[tuple(row)] += count

        db.view("q").subscribe(note)
        for seed in range(4):
            db.apply(rows_of(seed, 3))
            db.delete("t0", db.execute("SELECT * FROM t0 LIMIT 2"))
        assert_right(db)
        assert +told == Counter(db.view("q").rows())
        totals = db.execute(f"SELECT a, COUNT(*) AS n, SUM(d) AS s FROM ({QUERY}) GROUP BY a").to_pylist()
        assert Counter(db.view("totals").rows()) == Counter(tuple(row.values()) for row in totals)


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_a_busy_view_moves_to_generated_code(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 20)
    with viewlet.connect() as db, viewlet.connect(engine="interpreter") as plain:
        for each in (db, plain):
            for number, statement in enumerate(TABLES):
                each.execute(statement.replace("TABLE", kind if number % 2 else "TABLE"))
            each.execute(VIEW)
        for seed in range(4):
            for each in (db, plain):
                each.apply(rows_of(seed))
            db.settle()
        assert db.view("q").stats()["engine"] == "compiled"
        assert Counter(db.view("q").rows()) == Counter(plain.view("q").rows())


def test_it_explains_every_layer() -> None:
    with viewlet.connect(engine="interpreter") as db:
        declare(db, VIEW)
        for stage in ("algebra", "views", "triggers", "passes", "rows", "cost"):
            text = db.explain("q", stage=stage)
            assert [line for line in text.splitlines() if line and not line.startswith(" ")] == [
                "joined1:",
                "joined2:",
                "result:",
            ]
        assert "def on_" in db.explain("q", stage="code")
        assert "joined2:" in db.execute(f"EXPLAIN {QUERY}").column("explain").to_pylist()
        assert "interpreter" in db.explain("q")


def test_a_table_may_be_called_like_a_layer() -> None:
    with viewlet.connect(engine="interpreter") as db:
        declare(db, "CREATE TABLE joined1 (k BIGINT, v BIGINT)", VIEW.replace("t3", "joined1"))
        db.apply({**{name: rows for name, rows in rows_of(1).items() if name != "t3"}, "joined1": rows_of(1)["t3"]})
        expected = db.execute(QUERY.replace("t3", "joined1")).to_pylist()
        assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in expected)
