"""Ranges over views that batches change: an ordered index must not be older than its rows."""

from __future__ import annotations

from pathlib import Path

import viewlet
from viewlet.connection.spark_facade import connect_inline

DECLARATIONS = """
    CREATE STREAM accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL);
    CREATE STREAM orders (account BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW rich AS
    SELECT COUNT(*) AS n, SUM(balance) AS total FROM accounts a
    WHERE balance > (SELECT AVG(balance) FROM accounts) AND NOT EXISTS (SELECT * FROM orders WHERE account = a.id)
"""
MANY = 400
"""More rows than are quicker visited one by one than kept in order."""


def test_a_range_sees_what_later_batches_added(tmp_path: Path) -> None:
    with (
        connect_inline(tmp_path, 2, sync=False, engine="compiled") as db,
        viewlet.connect(engine="interpreter") as other,
    ):
        for each in (db, other):
            each.execute(DECLARATIONS)
            each.insert("accounts", [(i, 10 * i) for i in range(MANY)])
        for step in range(3):
            for each in (db, other):
                each.insert("accounts", [(MANY + 10 * step + i, 9_000 + 100 * step + i) for i in range(10)])
                each.delete("accounts", [(i, 10 * i) for i in range(MANY - 20 * step - 20, MANY - 20 * step)])
                each.insert("orders", [(300 - step,)])
            assert db.view("rich").rows() == other.view("rich").rows()
