"""Views read views: changes travel in the order of declaration, within one batch."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import viewlet
from viewlet import Connection


def test_a_tower_of_views(db: Connection) -> None:
    db.execute(
        """
        CREATE MATERIALIZED VIEW named AS SELECT name, total, n FROM spend JOIN customer USING (custkey);
        CREATE MATERIALIZED VIEW overall AS SELECT SUM(total) AS total, SUM(n) AS n FROM named;
        CREATE MATERIALIZED VIEW share AS
            SELECT name, named.n FROM named, overall WHERE named.total * 2 > overall.total;
        """
    )
    assert db.view("overall").rows() == [(Decimal("16.00"), 3)]
    assert db.view("share").rows() == [("Ada", 2)]
    seen: list[tuple[int, list[Any]]] = []
    for name in ("overall", "share"):
        db.view(name).subscribe(lambda epoch, changes: seen.append((epoch, changes.to_pylist())))
    db.apply({"orders": [(4, 9, None, 100)], "customer": [(9, "Cyd")]})
    assert db.view("share").rows() == [("Cyd", 1)]
    assert db.view("overall").rows() == [(Decimal("116.00"), 4)]
    assert [epoch for epoch, _ in seen] == [3, 3]
    assert seen[1][1] == [
        {"name": "Ada", "n": 2, "_multiplicity": -1},
        {"name": "Cyd", "n": 1, "_multiplicity": 1},
    ]


def test_a_view_joined_with_its_own_source(db: Connection) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW part AS SELECT orderkey, spend.total FROM orders JOIN spend USING (custkey) "
        "WHERE orders.total * 2 >= spend.total"
    )
    assert db.view("part").rows() == [(1, Decimal("15.00")), (3, Decimal("1.00"))]
    db.update("orders", [(1, 7, "2026-01-02", "10.50")], [(1, 8, "2026-01-02", "10.50")])
    assert db.view("part").rows() == [(1, Decimal("11.50")), (2, Decimal("4.50"))]


def test_a_view_over_a_limited_view_sees_its_first_rows(db: Connection) -> None:
    db.execute(
        """
        CREATE MATERIALIZED VIEW top AS SELECT orderkey, total FROM orders ORDER BY total DESC LIMIT 2;
        CREATE MATERIALIZED VIEW top_sum AS SELECT SUM(total) AS total, COUNT(*) AS n FROM top;
        """
    )
    assert db.view("top_sum").rows() == [(Decimal("15.00"), 2)]
    db.insert("orders", [(4, 8, None, 100)])
    assert db.view("top_sum").rows() == [(Decimal("110.50"), 2)]
    db.delete("orders", [(4, 8, None, 100), (1, 7, "2026-01-02", "10.50")])
    assert db.view("top_sum").rows() == [(Decimal("5.50"), 2)]
    db.delete("orders", [(3, 8, "2026-01-03", 1)])
    assert db.view("top_sum").rows() == [(Decimal("4.50"), 1)]


def test_a_limit_cuts_through_duplicates() -> None:
    db = viewlet.connect()
    db.execute(
        """
        CREATE TABLE t (a BIGINT);
        CREATE MATERIALIZED VIEW firsts AS SELECT a FROM t ORDER BY a LIMIT 2 OFFSET 1;
        CREATE MATERIALIZED VIEW total AS SELECT SUM(a) AS s, COUNT(*) AS n FROM firsts;
        """
    )
    db.insert("t", [(1,), (1,), (1,), (1,)])
    assert db.view("firsts").rows() == [(1,), (1,)]
    db.delete("t", [(1,), (1,)])
    assert db.view("total").rows() == [(1, 1)]
    db.insert("t", [(5,)])
    assert db.view("firsts").rows() == [(1,), (5,)]
    assert db.view("total").rows() == [(6, 2)]


@pytest.mark.parametrize("strategy", ["recompute", "first-order", "higher-order", "view-tree"])
def test_late_views_over_views_start_right(db: Connection, strategy: str) -> None:
    db.execute(
        f"CREATE MATERIALIZED VIEW counts WITH (strategy = '{strategy}') AS "
        "SELECT n, COUNT(*) AS customers FROM spend GROUP BY n"
    )
    assert db.view("counts").rows() == [(1, 1), (2, 1)]
    db.insert("orders", [(4, 8, None, 100)])
    assert db.view("counts").rows() == [(2, 2)]
