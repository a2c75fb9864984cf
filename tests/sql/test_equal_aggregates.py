"""Aggregates that are equal to what they are grouped by, or correlated with: the group is not lost in the equality."""

from __future__ import annotations

import random

import pytest

from tests.sql.test_outer_joins import play_batches

QUERIES = {
    "a group key": "SELECT k FROM t0 GROUP BY k HAVING MAX(n) = k",
    "a key that is not null": "SELECT n, COUNT(*) AS c FROM t0 GROUP BY n HAVING MIN(k) = n",
    "the aggregated key": "SELECT n, v FROM t0 GROUP BY n, v HAVING MAX(n) = n AND MIN(v) = v",
    "two keys": "SELECT k, v FROM t0 GROUP BY k, v HAVING MAX(n) = k AND MIN(n) = v",
    "a count": "SELECT k FROM t0 GROUP BY k HAVING COUNT(*) = k AND COUNT(DISTINCT n) = k",
    "a sum": "SELECT n FROM t0 GROUP BY n HAVING SUM(k) = n OR SUM(v) = n",
    "an average": "SELECT n, SUM(v) AS s FROM t0 GROUP BY n HAVING AVG(k) = n",
    "a variance": "SELECT v FROM t0 GROUP BY v HAVING VAR_POP(k) = v",
    "another aggregate": "SELECT k FROM t0 GROUP BY k HAVING MIN(n) = MAX(n) AND COUNT(*) = MIN(n)",
    "what it is correlated with": "SELECT k, v FROM t0 a WHERE v = (SELECT MIN(b.v) FROM t1 b WHERE b.k = a.v)",
    "what a count is correlated with": "SELECT n FROM t0 a WHERE n = (SELECT COUNT(*) FROM t1 b WHERE b.n = a.n)",
    "IN": "SELECT k, n FROM t0 a WHERE n IN (SELECT MAX(b.k) FROM t1 b WHERE b.n = a.n)",
    "NOT IN": "SELECT k, n FROM t0 a WHERE n NOT IN (SELECT MAX(b.k) FROM t1 b WHERE b.n = a.n)",
    "EXISTS": (
        "SELECT k, n FROM t0 a WHERE EXISTS (SELECT b.k FROM t1 b WHERE b.n = a.n GROUP BY b.k HAVING MIN(b.v) = a.n)"
    ),
    "a join on it": (
        "SELECT t1.k, t1.n FROM t1 JOIN (SELECT k, MAX(n) AS m FROM t0 GROUP BY k) q ON q.k = t1.n AND q.m = t1.n"
    ),
    "a join on the key and its count": (
        "SELECT q.k, q.c FROM t1 JOIN (SELECT k, COUNT(*) AS c FROM t0 GROUP BY k) q ON t1.n = q.c AND q.k = t1.n"
    ),
    "a join on the key and its sum": (
        "SELECT q.n, q.s, t1.v FROM t1 JOIN (SELECT n, SUM(v) AS s FROM t0 GROUP BY n) q ON t1.k = q.s AND q.n = t1.k"
    ),
    "a join of groups": (
        "SELECT q.k, p.c FROM (SELECT k, MAX(n) AS m FROM t0 GROUP BY k) q "
        "JOIN (SELECT n, COUNT(*) AS c FROM t1 GROUP BY n) p ON q.m = p.n AND p.c = q.k AND q.k = p.n"
    ),
    "above and below": (
        "SELECT s, COUNT(*) AS c FROM (SELECT k, SUM(n) AS s FROM t0 GROUP BY k HAVING MAX(n) = k) q "
        "GROUP BY s HAVING MAX(k) = s"
    ),
    "a difference": (
        "SELECT n FROM t1 EXCEPT SELECT n FROM t0 a WHERE n = (SELECT MAX(b.k) FROM t0 b WHERE b.n = a.n)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("name", QUERIES)
def test_they_agree_with_duckdb(name: str, engine: str) -> None:
    rng = random.Random(name + engine)
    for strategy in ("higher-order", rng.choice(("auto", "first-order", "view-tree", "recompute"))):
        play_batches(QUERIES[name], 2, rng, engine, strategy)
