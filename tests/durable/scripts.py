"""A small history of a database, and its states as a database in memory goes through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import viewlet

Step = Callable[[viewlet.Connection], Any]
State = tuple[Any, ...]


def _sql(text: str) -> Step:
    return lambda db: db.execute(text)


def _apply(batch: dict[str, Any], batch_id: int | None = None) -> Step:
    return lambda db: db.apply(batch, batch_id=batch_id)


def rates(first: int, count: int) -> pa.Table:
    return pa.table({"name": [f"n{i % 3}" for i in range(first, first + count)], "rate": pa.array([0.5] * count)})


HISTORY: list[Step] = [
    _sql("CREATE TABLE item (k BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(9,2), day DATE)"),
    _sql("CREATE STREAM feed (name VARCHAR, rate DOUBLE)"),
    _sql("CREATE MATERIALIZED VIEW spend (who, total) AS SELECT name, SUM(price) FROM item GROUP BY name"),
    _sql("CREATE MATERIALIZED VIEW rated AS SELECT name, SUM(rate) AS s, COUNT(*) AS n FROM feed GROUP BY name"),
    _apply({"item": [(1, "n1", "1.50", "2026-01-01"), (2, "n2", "2.00", None)]}, batch_id=1),
    _apply({"feed": rates(0, 5), "item": [(3, "n1", "7.25", None)]}, batch_id=2),
    _sql("CREATE MATERIALIZED VIEW top AS SELECT who, total FROM spend ORDER BY total DESC, who LIMIT 1"),
    lambda db: db.checkpoint(),
    lambda db: db.update("item", [(2, "n2", "2.00", None)], [(2, "n3", "20.00", "2026-02-01")]),
    _apply({"feed": rates(5, 4)}, batch_id=3),
    _sql("DROP VIEW top"),
    _sql("CREATE STATIC TABLE fixed (a INTEGER)"),
    _apply({"fixed": [(1,), (1,)]}),
    lambda db: db.checkpoint(),
    _sql("DROP TABLE fixed"),
    lambda db: db.delete("item", [(1, "n1", "1.50", "2026-01-01")]),
]
LONG_HISTORY: list[Step] = [
    *HISTORY,
    _sql("ALTER TABLE item ADD COLUMN size INTEGER DEFAULT 1"),
    _sql("CREATE OR REPLACE MATERIALIZED VIEW spend (who, total) AS SELECT name, SUM(size) FROM item GROUP BY 1"),
    _sql("CREATE TABLE copied AS SELECT who, total FROM spend"),
    _sql("BEGIN; INSERT INTO item VALUES (4, 'n4', 1, NULL, 2); DELETE FROM copied WHERE who = 'n1'; COMMIT"),
    _sql("CREATE TABLE numbered (k INTEGER UNIQUE, n INTEGER DEFAULT 3)"),
    _sql("INSERT INTO numbered (k) VALUES (7), (8)"),
    _sql("ALTER TABLE item ALTER COLUMN size TYPE BIGINT"),
    _sql("DROP TABLE copied"),
]


def state_of(db: viewlet.Connection) -> State:
    tables = [name for name in db.tables if db.stats()["tables"][name]["kind"] != "STREAM"]  # type: ignore[index]
    rows = {name: db.table(name).rows() for name in tables} | {name: db.view(name).rows() for name in db.views}
    return db.epoch, db.tables, db.views, rows


def states(engine: str) -> list[State]:
    """Before the first step of the long history, and after each."""
    db = viewlet.connect(engine=engine)
    found = [state_of(db)]
    for step in LONG_HISTORY:
        step(db)
        found.append(state_of(db))
    return found


def abandon(db: viewlet.Connection) -> None:
    """What the end of the process does to a connection: it lets go of the lock, and nothing else."""
    journal: Any = db._session.database().journal
    journal.storage.close()
