"""Values of types without NULL, where a trigger meets NULL in rows and groups before it sees that they do not count."""

from __future__ import annotations

import pytest

import viewlet

QUERIES = (
    "SELECT q.n FROM (SELECT MIN(g) AS m, n FROM l GROUP BY n) AS q WHERE q.m IN ('a', 'b', 'c') AND q.m > 'a'",
    "SELECT q.n, UPPER(q.m) AS u FROM (SELECT MAX(g) AS m, n FROM l GROUP BY n) AS q",
    "SELECT q.n FROM (SELECT MIN('a_b') AS m, n FROM l GROUP BY n) AS q WHERE q.m LIKE 'a%' EXCEPT SELECT n FROM l",
    "SELECT q.n, q.m + 1 AS p FROM (SELECT MIN(h) AS m, n FROM l GROUP BY n) AS q WHERE q.m * 2 > 1",
    "SELECT q.k, COUNT(*) AS n FROM l JOIN (SELECT DISTINCT 'b' AS k FROM l) AS q ON l.v = q.k"
    " WHERE l.v IN ('a', 'b', q.k) OR l.v LIKE 'c%' GROUP BY q.k",
    "SELECT q.k, COUNT(*) AS n FROM l JOIN (SELECT DISTINCT 'b' AS k FROM l) AS q ON l.v = q.k"
    " WHERE q.k >= 'a' GROUP BY q.k",
)


@pytest.mark.parametrize("strategy", ["recompute", "first-order", "higher-order", "view-tree"])
@pytest.mark.parametrize("sql", QUERIES)
def test_both_engines_agree(strategy: str, sql: str) -> None:
    databases = [viewlet.connect(engine=engine) for engine in ("interpreter", "compiled")]
    results = []
    for db in databases:
        db.execute("CREATE TABLE l (n BOOLEAN NOT NULL, h INTEGER NOT NULL, g VARCHAR NOT NULL, v VARCHAR)")
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {sql}")
        seen = []
        for delta in ({"insert": [(True, 1, "a", None), (False, 2, "b", "b")]}, {"delete": [(False, 2, "b", "b")]}):
            for way, rows in delta.items():
                getattr(db, way)("l", rows)
            seen.append(sorted(db.view("v").rows()))
        db.insert("l", [(False, 3, "c", "b"), (False, 3, "c", None)])
        results.append([*seen, sorted(db.view("v").rows())])
    assert results[1] == results[0]
