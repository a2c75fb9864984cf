"""Under the strategy `recompute` the compiled engine keeps rows in views; sums over them share payloads with counts."""

from __future__ import annotations

import pytest

import viewlet

QUERIES = (
    "SELECT STDDEV(b) AS s, COUNT(*) AS n FROM r",
    "SELECT SUM(b) AS s, COUNT(*) AS n, COUNT(b) AS m FROM r",
    "SELECT a, SUM(b) AS s, COUNT(*) AS n, AVG(a * b) AS m FROM r GROUP BY a",
    "SELECT b, SUM(b) AS s, COUNT(*) AS n FROM r GROUP BY b",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_counts_and_sums_of_one_view(sql: str) -> None:
    databases = [viewlet.connect(engine=engine) for engine in ("interpreter", "compiled")]
    for db in databases:
        db.execute("CREATE TABLE r (a INTEGER, b INTEGER)")
        db.insert("r", [(1, 2), (1, 3), (2, None)])
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'recompute') AS {sql}")
        db.insert("r", [(2, 5), (None, 3)])
        db.delete("r", [(1, 3)])
    expected, actual = (db.view("v").rows() for db in databases)
    assert sorted(actual, key=str) == sorted(expected, key=str)
