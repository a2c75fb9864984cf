"""Queries whose changes would be too large in one piece: layers, and the rows of DuckDB."""

from __future__ import annotations

import random
from math import inf

import pytest

from tests.sql.test_common_tables import layered
from tests.sql.test_outer_joins import length_of_triggers, play_batches
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.sql import layers

CORRELATED = (
    "SELECT 1 AS one FROM t0 b FULL JOIN t1 c ON b.v IS NOT NULL WHERE c.v IN ("
    "SELECT MIN(g.v) FROM t2, t0 e FULL JOIN (SELECT t1.v, t2.k FROM t1 JOIN t2 ON t1.n = t2.n) g ON e.k = g.k "
    "WHERE b.v > 0 GROUP BY e.n)"
)
COMPARED = (
    "SELECT MIN(b.n) FILTER (WHERE a.v > b.v) AS m, a.k FROM t0 c RIGHT JOIN (t1 a RIGHT JOIN t1 b ON a.v = 1) "
    "ON c.k = b.k WHERE b.n >= a.n GROUP BY a.k EXCEPT ALL SELECT DISTINCT n, k FROM t2"
)
QUERIES = {
    "no column is read": f"SELECT COUNT(*) AS c, SUM(a.v) AS s, MAX(a.n) AS m FROM t0 a, ({CORRELATED}) d",
    "beside outer joins": (
        f"SELECT DISTINCT d.m FROM ({COMPARED}) d, t2 e, (SELECT t2.n AS x FROM t2 NATURAL FULL JOIN t0) f"
    ),
}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("name", QUERIES)
def test_they_agree_with_duckdb(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    assert play_batches(QUERIES[name], 3, random.Random(name), engine, "auto")


@pytest.mark.parametrize("name", QUERIES)
def test_programs_are_smaller_than_those_of_one_expression(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_layers = length_of_triggers(QUERIES[name], "view-tree")
    monkeypatch.setattr(layers, "LARGE_CHANGES", inf)
    assert 4 * in_layers < length_of_triggers(QUERIES[name], "view-tree")


def test_an_expression_that_vanishes_is_not_cut() -> None:
    """What is large before it is simplified need not be after."""
    assert not isinstance(layered(f"{QUERIES['beside outer joins']} WHERE 1 = 2").definition, LayeredQuery)
