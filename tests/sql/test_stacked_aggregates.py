"""Aggregates of aggregates: layers where every level would repeat the ones below, and the rows of DuckDB."""

from __future__ import annotations

import random

import pytest

from tests.sql.test_common_tables import layered
from tests.sql.test_outer_joins import play_batches
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.traverse import size


def stacked(levels: int, source: str = "t0", last: str = "k") -> str:
    """Each level aggregates the one below; `last` is what the outermost one groups by."""
    query = f"SELECT k, v, n, SUM(n) AS s, COUNT(*) AS c FROM {source} GROUP BY k, v, n"
    for level in range(1, levels):
        keys = "k, v" if level < levels - 1 else last
        query = f"SELECT {keys}, SUM(s) AS s, MAX(c) AS c FROM ({query}) q{level} GROUP BY {keys}"
    return query


AS_COMMON_TABLES = (
    "WITH a AS (SELECT k, v, n, SUM(n) AS s, COUNT(*) AS c FROM t0 GROUP BY k, v, n), "
    "b AS (SELECT k, v, SUM(s) AS s, AVG(c) AS c FROM a GROUP BY k, v), "
    "d AS (SELECT k, v, SUM(s) AS s, MAX(c) AS c FROM b GROUP BY k, v), "
    "e AS (SELECT k, v, SUM(s) AS s, MIN(c) AS c FROM d GROUP BY k, v), "
    "f AS (SELECT k, 7 AS seven, SUM(s) AS s, MIN(c) AS c FROM e GROUP BY k) "
    "SELECT k, seven, SUM(s) AS s, SUM(c + 1) AS c FROM f GROUP BY k, seven"
)
QUERIES = {
    "derived tables": stacked(6),
    "common tables": AS_COMMON_TABLES,
    "under joins": (
        f"SELECT t1.k, SUM(i.s) AS s, COUNT(*) AS n FROM ({stacked(6)}) i JOIN t1 ON i.k = t1.k "
        "LEFT JOIN t2 ON t1.v = t2.v AND i.s > t2.n GROUP BY t1.k"
    ),
    "of joins": f"SELECT k, s FROM ({stacked(6, '(SELECT t0.k, t1.v, t1.n FROM t0 JOIN t1 ON t0.k = t1.k) j')}) i",
}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("name", QUERIES)
def test_they_agree_with_duckdb(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    assert play_batches(QUERIES[name], 3, random.Random(name), engine, "auto")


def test_a_level_adds_its_own_size() -> None:
    def nodes(levels: int) -> int:
        definition = layered(stacked(levels)).definition
        assert isinstance(definition, LayeredQuery)
        return sum(size(each.expr) for each in (definition.result, *(layer.query for layer in definition.layers)))

    assert nodes(12) - nodes(8) < 4 * 60


def test_a_few_levels_are_one_expression() -> None:
    assert not isinstance(layered(stacked(3)).definition, LayeredQuery)


def test_levels_that_read_the_row_around_them_are_no_layers() -> None:
    inner = stacked(6, "(SELECT k, v, n FROM t0 WHERE t0.v < t1.v) j")
    query = f"SELECT n, (SELECT SUM(s) FROM ({inner}) i) AS s FROM t1"
    assert play_batches(query, 2, random.Random(5), "interpreter", "auto") == []
