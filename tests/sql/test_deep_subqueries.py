"""Subqueries with aggregates nested in each other: layers, and the rows of DuckDB."""

from __future__ import annotations

import random
from math import inf

import pytest

from tests.sql.test_common_tables import layered
from tests.sql.test_outer_joins import length_of_triggers, play_batches
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.sql import layers

DEEP = (
    "SELECT MAX(t1.n) AS m FROM t1 LEFT JOIN t2 ON t1.k = t2.k "
    "WHERE t1.v IN (SELECT MIN(t0.v) FROM t0 WHERE t0.n <= (SELECT MAX(n) FROM t2) GROUP BY t0.k) GROUP BY t1.v"
)
PAIRS = DEEP.replace("SELECT MAX(t1.n) AS m", "SELECT t1.v, MAX(t1.n) AS m", 1)
QUERIES = {
    "in": f"SELECT k, COUNT(*) AS c, SUM(n) AS s FROM t0 WHERE n IN ({DEEP}) GROUP BY k",
    "not in": f"SELECT k, COUNT(*) AS c FROM t0 WHERE n NOT IN ({DEEP}) GROUP BY k",
    "rows": f"SELECT k, SUM(n) AS s FROM t0 WHERE (v, n) IN ({PAIRS}) GROUP BY k",
    "quantified": f"SELECT k, SUM(n) AS s FROM t0 WHERE n < ALL ({DEEP}) GROUP BY k",
    "exists": f"SELECT k, SUM(n) AS s FROM t0 WHERE EXISTS ({DEEP}) GROUP BY k",
    "value": f"SELECT k, v, n - (SELECT SUM(m) FROM ({DEEP}) d) AS s FROM t0",
    "both sides": (
        f"SELECT k, COUNT(*) AS c FROM t0 WHERE n IN ({DEEP}) OR v > (SELECT MIN(m) FROM ({DEEP}) d) GROUP BY k"
    ),
}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("name", QUERIES)
def test_they_agree_with_duckdb(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    assert play_batches(QUERIES[name], 3, random.Random(name), engine, "auto")


def test_subqueries_that_read_the_row_around_them_are_no_layers() -> None:
    query = QUERIES["in"].replace("t1.k = t2.k", "t1.k = t2.k AND t2.n = t0.n")
    assert play_batches(query, 3, random.Random(8), "interpreter", "auto") == []


def test_two_levels_are_one_expression() -> None:
    query = "SELECT k FROM t0 WHERE n IN (SELECT MAX(n) FROM t1 WHERE v > (SELECT MIN(v) FROM t2) GROUP BY k)"
    assert not isinstance(layered(query).definition, LayeredQuery)


def test_statements_are_smaller_than_those_of_one_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change of an aggregate holds what it aggregates twice, that of one inside another four times, and so on."""
    in_layers = length_of_triggers(QUERIES["rows"], "higher-order")
    monkeypatch.setattr(layers, "DEEP_SUBQUERY", 100)
    monkeypatch.setattr(layers, "LARGE_CHANGES", inf)
    assert 3 * in_layers < length_of_triggers(QUERIES["rows"], "higher-order")
