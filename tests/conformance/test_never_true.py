"""Conditions that are never true, seen only when code is generated, leave loops without a body."""

from __future__ import annotations

import pytest

import viewlet

NEVER = "(CAST(NULL AS BOOLEAN) OR (NULL AND c IS NULL))"


@pytest.mark.parametrize("strategy", ["recompute", "first-order", "higher-order", "view-tree"])
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT a, COUNT(*) AS n FROM s WHERE {NEVER} GROUP BY a",
        f"SELECT s.a, SUM(c) AS n FROM s JOIN r ON s.a = r.b WHERE {NEVER} GROUP BY s.a",
        f"SELECT COUNT(*) AS n FROM s WHERE {NEVER}",
    ],
)
def test_a_condition_that_never_holds(strategy: str, sql: str) -> None:
    databases = [viewlet.connect(engine=engine) for engine in ("interpreter", "compiled")]
    for db in databases:
        db.execute("CREATE TABLE s (a INTEGER, c BIGINT)")
        db.execute("CREATE TABLE r (b INTEGER)")
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {sql}")
        db.insert("s", [(1, 2), (1, None)])
        db.insert("r", [(1,)])
    expected, actual = (db.view("v").rows() for db in databases)
    assert actual == expected
