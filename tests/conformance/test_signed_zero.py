"""A computed -0.0 equals 0.0: in groups, joins, set operations and lookups of every engine."""

from __future__ import annotations

import pytest

import viewlet

QUERIES = (
    "SELECT a * z AS p, COUNT(*) AS n FROM r GROUP BY a * z",
    "SELECT DISTINCT a * z AS p FROM r",
    "SELECT z AS p FROM r EXCEPT SELECT -0e0 AS p FROM r",
    "SELECT z AS p FROM r INTERSECT SELECT a * z AS p FROM r",
    "SELECT r.a, q.n FROM r JOIN (SELECT a * z AS p, COUNT(*) AS n FROM r GROUP BY a * z) AS q ON r.z = q.p",
    "SELECT a FROM r WHERE z IN (SELECT -1 * z FROM r)",
    "SELECT COUNT(DISTINCT y * a) AS n, SUM(DISTINCT y * a) AS s FROM r",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_both_zeros_are_one_key(sql: str) -> None:
    databases = [viewlet.connect(engine=engine) for engine in ("interpreter", "compiled")]
    for db in databases:
        db.execute("CREATE TABLE r (a INTEGER, z DOUBLE, y REAL)")
        db.insert("r", [(-1, 0.0, 0.0), (2, 0.0, 0.0)])
        db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
        db.insert("r", [(-3, -0.0, 0.0), (1, 0.5, -0.25)])
        db.delete("r", [(2, 0.0, 0.0)])
    expected, actual = (sorted(db.view("v").rows()) for db in databases)
    assert actual == expected
