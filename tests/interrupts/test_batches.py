"""An exception at any line or instruction of a batch leaves the database before it or after it, on every engine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from tests.interrupts.harness import COMPLETE, Timer, Trial, check_all, same_when_reopened
from viewlet.changes import arrow_reader
from viewlet.tables import store as table_store

VIEWS = """
    CREATE MATERIALIZED VIEW totals AS
        SELECT city, COUNT(*) AS n, SUM(price) AS total, MAX(id) AS last FROM sales GROUP BY city;
    CREATE MATERIALIZED VIEW sold AS
        SELECT i.colour, SUM(s.price) AS total FROM sales s JOIN items i ON s.item = i.item GROUP BY i.colour
"""
OVER_VIEWS = """;
    CREATE MATERIALIZED VIEW largest AS SELECT city, total FROM totals WHERE total > 3;
    CREATE MATERIALIZED VIEW first AS SELECT id, price FROM sales ORDER BY price DESC, id LIMIT 3;
    CREATE MATERIALIZED VIEW above AS
        SELECT city, SUM(price) AS total FROM sales WHERE price * 4 > (SELECT SUM(price) FROM sales) GROUP BY city
"""
RINGS = """
    CREATE MATERIALIZED VIEW moments AS
        SELECT city, COFACTOR(price, weight) AS c FROM sales JOIN items USING (item) GROUP BY city;
    CREATE MATERIALIZED VIEW pairs AS SELECT FACTORIZED id, item, colour FROM sales JOIN items USING (item)
"""
SHARING = """
    CREATE MATERIALIZED VIEW dropped AS
        SELECT i.weight, SUM(s.price) AS total FROM sales s JOIN items i ON s.item = i.item GROUP BY i.weight;
    CREATE MATERIALIZED VIEW sold AS
        SELECT i.colour, SUM(s.price) AS total FROM sales s JOIN items i ON s.item = i.item GROUP BY i.colour;
    CREATE MATERIALIZED VIEW dear AS
        SELECT i.colour, SUM(s.price) AS total FROM sales s JOIN items i ON s.item = i.item GROUP BY i.colour
        HAVING SUM(s.price) > 4;
    DROP VIEW dropped
"""
"""The first view keeps what the others borrow, and they borrow from each other."""
FIRST = {
    "items": [(1, "red", 0.5), (2, "blue", 1.5)],
    "sales": [(1, 1, "Rome", 5), (2, 2, "Oslo", 2), (3, 1, "Oslo", 3)],
}


def signed(columns: str, signs: dict[int, list[tuple[Any, ...]]]) -> list[dict[str, Any]]:
    names = [*columns.split(), "_multiplicity"]
    return [dict(zip(names, (*row, sign), strict=True)) for sign, rows in signs.items() for row in rows]


SALES, ITEMS = "id item city price", "item colour weight"
NEW_ITEMS = [(3, "green", 2.0), (4, "red", 4.0)]
NEW_SALES = [(10 + i, 1 + i % 4, f"city {i}", i) for i in range(1, 7)]
OLD_SALES = [(2, 2, "Oslo", 2)]


def batch(sign: int) -> dict[str, Any]:
    return {
        "items": signed(ITEMS, {sign: NEW_ITEMS}),
        "sales": signed(SALES, {sign: NEW_SALES, -sign: OLD_SALES}),
    }


def good(sign: int) -> dict[str, Any]:
    return {"sales": signed(SALES, {sign: [(50, 1, "Rome", 7), (51, 2, "Bern", 1)]})}


def trial(engine: str, kind: str, views: str, path: Path | None = None, listens: bool = True) -> Trial:
    def make() -> viewlet.Connection:
        db = viewlet.connect(path, engine=engine, fsync=False)
        key = " PRIMARY KEY" if kind == "TABLE" else " NOT NULL"
        db.execute(f"CREATE {kind} sales (id BIGINT{key}, item BIGINT, city VARCHAR, price BIGINT)")
        db.execute(f"CREATE {kind} items (item BIGINT{key}, colour VARCHAR, weight DOUBLE)")
        db.execute(views)
        return db

    return Trial(make, FIRST, batch(1), batch(-1), good(1), good(-1), listens)


ENGINES, KINDS = ("interpreter", "compiled"), ("TABLE", "STREAM")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_at_any_line(engine: str, kind: str) -> None:
    assert check_all(trial(engine, kind, VIEWS + OVER_VIEWS)), "no interruption came after the commit"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_at_any_instruction(engine: str, kind: str) -> None:
    check_all(trial(engine, kind, VIEWS), 25, opcodes=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_views_that_borrow_stored_views(engine: str, kind: str) -> None:
    tried = trial(engine, kind, SHARING)
    assert any(tried.db.view(name).stats()["borrowed"] for name in tried.db.views)
    check_all(tried)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_trees_over_rings(engine: str, kind: str) -> None:
    check_all(trial(engine, kind, RINGS), 30)


def test_another_exception_than_ctrl_c() -> None:
    check_all(trial("interpreter", "TABLE", VIEWS), 20, error=MemoryError)


@pytest.mark.parametrize("engine", ENGINES)
def test_in_a_directory(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "db"
    opened = trial(engine, "TABLE", VIEWS, path)
    check_all(opened, 20, look=lambda each: same_when_reopened(each, path, engine))
    before = opened.state()
    opened.db.close()
    again = viewlet.connect(path, engine=engine)
    assert {name: sorted(again.view(name).rows(), key=repr) for name in again.views} == {
        name: rows for name, rows in before.items() if name in again.views
    }
    again.close()


def as_arrow(batch: dict[str, Any]) -> dict[str, Any]:
    return {table: pa.Table.from_pylist(rows) for table, rows in batch.items()}


@pytest.mark.parametrize("opcodes", [False, True])
def test_tables_in_flat_arrays(opcodes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_store, "flat_from", lambda: 1)
    monkeypatch.setattr(arrow_reader, "FEW_ROWS", 0)

    def make() -> viewlet.Connection:
        db = viewlet.connect(engine="compiled")
        db.execute("CREATE TABLE sales (id BIGINT PRIMARY KEY, item BIGINT, city VARCHAR, price BIGINT)")
        db.execute("CREATE TABLE items (item BIGINT NOT NULL, colour VARCHAR, weight DOUBLE)")
        db.execute(VIEWS)
        first = [signed(ITEMS, {1: FIRST["items"]}), signed(SALES, {1: FIRST["sales"]})]
        db.apply(as_arrow({"items": first[0], "sales": first[1]}))
        return db

    sides = [as_arrow(each) for each in (batch(1), batch(-1))] + [good(1), good(-1)]
    tried = Trial(make, {}, *sides)
    with tried.db._session.open() as database:
        assert all(table.store.is_flat for table in database.tables.values())
    check_all(tried, 25 if opcodes else 40, opcodes=opcodes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_signals(engine: str, kind: str) -> None:
    tried, random = trial(engine, kind, VIEWS, listens=False), Random(1)
    started = time.perf_counter()
    tried.db.apply(tried.batch)
    seconds = time.perf_counter() - started
    tried.db.apply(tried.opposite)
    for number in range(1_000 if COMPLETE else 12):
        tried.attempt(Timer(random.uniform(1e-4, 1.2 * seconds)), f"signal {number}")


def test_in_partitions(tmp_path: Path) -> None:
    """Tasks run in this process. One view is read from what is kept for another."""
    from viewlet.connection.spark_facade import connect_inline

    large = "SELECT city, SUM(price) AS total FROM sales GROUP BY city HAVING SUM(price) > 3"

    def make() -> viewlet.Connection:
        db = connect_inline(tmp_path / "db", 2, sync=False)
        db.execute("CREATE TABLE sales (id BIGINT NOT NULL, item BIGINT, city VARCHAR, price BIGINT)")
        db.execute("CREATE TABLE items (item BIGINT NOT NULL, colour VARCHAR, weight DOUBLE)")
        db.execute(VIEWS)
        db.execute(f"CREATE MATERIALIZED VIEW large AS {large}")
        assert db.view("large").stats()["state_shared_with"] == ["totals"]
        return db

    check_all(Trial(make, FIRST, batch(1), batch(-1), good(1), good(-1)), 12)


@pytest.mark.slow
def test_with_numba() -> None:
    """The same with compiled code: a call of it is one step."""
    pytest.importorskip("numba")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__, "-k", "compiled"]
    done = subprocess.run(command, env=os.environ | {"VIEWLET_JIT": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
