"""A row that WHERE, HAVING or a join removes refuses no batch, whatever fails for it."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import viewlet

QUERIES = [
    "SELECT a.k, (SELECT b.v FROM b WHERE b.k = a.k) AS s FROM a WHERE a.x > 0",
    "SELECT a.k FROM a WHERE (SELECT b.v FROM b WHERE b.k = a.k) > 5 AND a.x > 0",
    "SELECT a.k, SUM(a.x) AS s, (SELECT b.v FROM b WHERE b.k = a.k) AS v FROM a GROUP BY a.k HAVING SUM(a.x) > 0",
    "SELECT a.k FROM a GROUP BY a.k HAVING (SELECT b.v FROM b WHERE b.k = a.k) > 5 AND SUM(a.x) > 0",
    "SELECT a.k, SUM((SELECT b.v FROM b WHERE b.k = a.k)) AS s FROM a WHERE a.x > 0 GROUP BY a.k",
    "SELECT a.k, (SELECT b.v FROM b WHERE b.k = a.k) AS s FROM a JOIN b ON a.x = b.v",
    "SELECT DISTINCT (SELECT b.v FROM b WHERE b.k = a.k) AS s FROM a WHERE a.x > 0",
    "SELECT a.k FROM a WHERE a.x > 0 EXCEPT SELECT (SELECT b.v FROM b WHERE b.k = a.k) AS s FROM a WHERE a.x > 0",
    "SELECT a.k, SUM(CAST(a.t AS INTEGER)) AS s FROM a WHERE a.x > 0 GROUP BY a.k",
    "SELECT a.k, COUNT(*) AS s FROM a WHERE a.x > 0 GROUP BY a.k HAVING MAX(CAST(a.t AS INTEGER)) > 0",
    "SELECT a.k, CAST(MAX(a.t) AS INTEGER) AS s FROM a GROUP BY a.k HAVING MIN(a.x) > 0",
    "SELECT q.k, CAST(q.t AS INTEGER) AS s FROM (SELECT a.k, a.t FROM a WHERE a.x > 0) q",
    "SELECT a.k FROM a WHERE sqrt(a.x) > 0 AND a.x > 0",
    "SELECT a.k, sqrt(SUM(a.x)) AS s FROM a GROUP BY a.k HAVING SUM(a.x) > 0",
    "SELECT SUM(a.y * a.y) AS s FROM a WHERE a.y < 10",
    "SELECT a.k, CAST(a.y AS SMALLINT) AS s FROM a WHERE a.y < 10",
]
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "a": [(1, 1, "1", 3), (2, -1, "x", 10**18), (3, 2, "7", 4)],  # the second row fails everywhere
    "b": [(1, 7), (2, 5), (2, 6), (3, None)],
}
TABLES = ["CREATE TABLE a (k BIGINT{0}, x BIGINT{0}, t VARCHAR, y BIGINT)", "CREATE TABLE b (k BIGINT{0}, v BIGINT)"]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("sql", QUERIES)
def test_it_is_not_computed_for_them(sql: str, engine: str) -> None:
    with duckdb.connect() as oracle:
        for statement, (name, rows) in zip(TABLES, ROWS.items(), strict=True):
            oracle.execute(statement.format(""))
            oracle.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        expected = sorted(oracle.execute(sql).fetchall(), key=str)
    for strategy, nullable in (("auto", ""), ("recompute", ""), ("first-order", " NOT NULL"), ("higher-order", "")):
        with viewlet.connect(engine=engine) as db:
            for statement in TABLES:
                db.execute(statement.format(nullable))
            db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {sql}")
            for name in ("b", "a"):
                db.insert(name, ROWS[name])
            assert sorted(db.view("v").rows(), key=str) == expected
            db.delete("a", ROWS["a"][1:2])
            db.insert("a", ROWS["a"][1:2])
            assert sorted(db.view("v").rows(), key=str) == expected
