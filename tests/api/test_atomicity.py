"""A batch happens as a whole or not at all, wherever it fails."""

from __future__ import annotations

from typing import Any

import pytest

import viewlet
from viewlet import Connection, DataError
from viewlet.engine.maintained_view import MaintainedView
from viewlet.triggers.interpreter import Interpreter

VIEWS = """
CREATE MATERIALIZED VIEW named AS SELECT name, SUM(orders.total) AS t, AVG(orders.total) AS a, MIN(orderdate) AS d
    FROM orders JOIN customer USING (custkey) GROUP BY name;
CREATE MATERIALIZED VIEW top WITH (strategy = 'recompute') AS
    SELECT orderkey, total FROM orders ORDER BY total DESC LIMIT 2;
CREATE MATERIALIZED VIEW over_top AS SELECT COUNT(*) AS n, SUM(total) AS t FROM top;
CREATE MATERIALIZED VIEW lonely AS SELECT name FROM customer
    WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.custkey = customer.custkey);
"""
BATCH = {
    "orders": [
        {"orderkey": 1, "custkey": 7, "orderdate": "2026-01-02", "total": "10.50", "_multiplicity": -1},
        {"orderkey": 9, "custkey": 9, "orderdate": "2025-01-02", "total": "77.00", "_multiplicity": 1},
    ],
    "customer": [(9, "Cyd"), (10, "Dan")],
}


def state(db: Connection) -> dict[str, Any]:
    """Everything a user can see."""
    relations = [db.table(name) for name in db.tables] + [db.view(name) for name in db.views]
    return {relation.name: (relation.rows(), relation.stats()) for relation in relations} | {"epoch": db.epoch}


@pytest.fixture
def shop(db: Connection) -> Connection:
    db.execute(VIEWS)
    return db


def test_a_batch_with_one_bad_table_changes_nothing(shop: Connection) -> None:
    before = state(shop)
    with pytest.raises(DataError, match="Bob"):
        shop.apply(
            {"orders": BATCH["orders"], "customer": [{"custkey": 8, "name": "Bobby"}, {"custkey": 8, "name": "Bob"}]}
        )
    assert state(shop) == before


@pytest.mark.parametrize("method", ["apply", "finish"])
@pytest.mark.parametrize("call", range(1, 9))
def test_a_failure_inside_the_engine_rolls_everything_back(
    shop: Connection, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    before = state(shop)
    original, calls = getattr(Interpreter, method), 0

    def fail_late(self: Interpreter, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = original(self, *arguments)
        if calls == call:
            raise DataError("simulated")
        return answer

    monkeypatch.setattr(Interpreter, method, fail_late)
    try:
        shop.apply(BATCH)
    except DataError:
        assert state(shop) == before
    else:
        assert calls < call
    monkeypatch.undo()
    if state(shop) == before:
        shop.apply(BATCH)
    fresh = viewlet.connect()
    fresh.execute(
        "CREATE TABLE orders (orderkey BIGINT PRIMARY KEY, custkey BIGINT, orderdate DATE, total DECIMAL(15,2))"
    )
    fresh.execute("CREATE TABLE customer (custkey BIGINT PRIMARY KEY, name VARCHAR NOT NULL)")
    for name in ("orders", "customer"):
        fresh.insert(name, shop.table(name).to_arrow())
    fresh.execute(VIEWS)
    for name in fresh.views:
        assert shop.view(name).rows() == fresh.view(name).rows()


def test_a_failure_while_publishing_rolls_back_too(shop: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(shop)
    original = MaintainedView.publish

    def fail(self: MaintainedView, change: Any) -> None:
        original(self, change)
        if self.name == "top":
            raise KeyboardInterrupt

    monkeypatch.setattr(MaintainedView, "publish", fail)
    with pytest.raises(KeyboardInterrupt):
        shop.apply(BATCH)
    monkeypatch.undo()
    assert state(shop) == before
    shop.apply(BATCH)
    assert shop.view("over_top").rows()[0][0] == 2


def test_an_overflow_in_a_view_refuses_the_batch() -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE t (g BIGINT, x BIGINT); CREATE MATERIALIZED VIEW s AS SELECT g, SUM(x) AS x FROM t GROUP BY g"
    )
    db.insert("t", [(1, 2**63 - 1)])
    before = state(db)
    with pytest.raises(DataError, match="BIGINT"):
        db.insert("t", [(1, 1), (2, 5)])
    assert state(db) == before
    db.insert("t", [(1, -1), (2, 5)])
    assert db.view("s").rows() == [(1, 2**63 - 2), (2, 5)]


def test_a_view_that_cannot_be_filled_is_not_declared() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (x BIGINT)")
    db.insert("t", [(2**63 - 1,), (1,)])
    before = state(db)
    with pytest.raises(DataError, match="BIGINT"):
        db.execute("CREATE MATERIALIZED VIEW s AS SELECT SUM(x) AS x FROM t")
    assert state(db) == before


def test_a_script_stops_at_its_first_error(db: Connection) -> None:
    with pytest.raises(viewlet.SchemaError, match="nowhere"):
        db.execute(
            "INSERT INTO customer VALUES (9, 'Cyd'); DROP TABLE nowhere; INSERT INTO customer VALUES (10, 'Dan')"
        )
    assert db.table("customer").rows() == [(7, "Ada"), (8, "Bob"), (9, "Cyd")]
