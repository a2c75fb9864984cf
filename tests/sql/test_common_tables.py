"""Common table expressions that are used several times: one layer where they are large, and the rows of DuckDB."""

from __future__ import annotations

import random

import pytest

from tests.sql.test_outer_joins import TABLES, play_batches
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.nodes import Rel
from viewlet.algebra.traverse import size, walk
from viewlet.sql import CreateTable, CreateView, bind_statement, parse_statements, split_statements

PADDED = (
    "WITH w AS (SELECT t0.k, t1.v, COUNT(*) AS c, NULL AS z, t0.k + 1 AS next FROM t0 FULL JOIN t1 ON t0.k = t1.k "
    "WHERE t0.n IN (SELECT n FROM t2 WHERE t2.v <> t1.v) GROUP BY t0.k, t1.v)"
)
QUERIES = {
    "in correlated subqueries": (
        f"{PADDED} SELECT t3.n, (SELECT MAX(a.c) FROM w a LEFT JOIN w b ON a.k = b.next WHERE b.v <= t3.v) AS m "
        "FROM t3 WHERE t3.k NOT IN (SELECT w.next FROM w WHERE w.v <> t3.n)"
    ),
    "joined with themselves": (
        f"{PADDED} SELECT a.k, b.c, a.z, COALESCE(w.z, a.c) AS s "
        "FROM w a FULL JOIN w b ON a.k = b.next JOIN w ON w.k = a.k"
    ),
    "of other ones": (
        f"{PADDED}, x AS (SELECT a.k, b.v FROM w a LEFT JOIN w b ON a.k = b.next), "
        "y(p) AS (SELECT v FROM x EXCEPT SELECT k FROM x) "
        "SELECT y.p, COUNT(*) AS n FROM y, x WHERE y.p = x.v GROUP BY y.p"
    ),
}


def layered(sql: str) -> CreateView:
    created = parse_statements(";".join(TABLES), {})
    schemas = {each.table.name: each.table for each in created if isinstance(each, CreateTable)}
    bound = bind_statement(next(split_statements(f"CREATE MATERIALIZED VIEW q AS {sql}")), schemas, layered=True)
    assert isinstance(bound, CreateView)
    return bound


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("name", QUERIES)
def test_they_agree_with_duckdb(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    assert play_batches(QUERIES[name], 4, random.Random(name), engine, "auto")


def test_every_use_of_a_large_one_reads_one_layer() -> None:
    definition = layered(QUERIES["in correlated subqueries"]).definition
    assert isinstance(definition, LayeredQuery)
    (layer,) = (
        each for each in definition.layers if "t0" in {n.name for n in walk(each.query.expr) if isinstance(n, Rel)}
    )
    parts = [definition.result, *(each.query for each in definition.layers)]
    atoms = [
        node for part in parts for node in walk(part.expr) if isinstance(node, Rel) and node.name == layer.table.name
    ]
    assert len(set(atoms)) >= 3
    assert [column.name.split("_")[0] for column in layer.table.columns] == ["k", "v", "count", "next"]


def test_more_uses_make_the_query_longer_by_what_they_read() -> None:
    def nodes(uses: int) -> int:
        read = " AND ".join(f"t3.k NOT IN (SELECT w.next FROM w WHERE w.v > {i})" for i in range(uses))
        definition = layered(f"{PADDED} SELECT n FROM t3 WHERE {read}").definition
        assert isinstance(definition, LayeredQuery)
        return sum(size(each.expr) for each in (definition.result, *(layer.query for layer in definition.layers)))

    assert nodes(16) - nodes(8) < 8 * 15


@pytest.mark.parametrize(
    "sql",
    [
        "WITH w AS (SELECT k, SUM(v) AS s FROM t0 GROUP BY k) SELECT k FROM w WHERE s = (SELECT MAX(s) FROM w)",
        f"{PADDED} SELECT k, c FROM w WHERE k > 1",
    ],
    ids=["small", "used once"],
)
def test_others_are_written_in_place_of_their_names(sql: str) -> None:
    assert not isinstance(layered(sql).definition, LayeredQuery)


def test_one_that_reads_the_row_around_it_is_no_layer() -> None:
    inner = PADDED.replace("t2.v <> t1.v", "t2.v <> t1.v AND t2.v < t3.v")
    sql = f"SELECT n, (SELECT COUNT(*) FROM ({inner} SELECT a.k FROM w a, w b WHERE a.k = b.next) q) AS c FROM t3"
    assert play_batches(sql, 4, random.Random(3), "interpreter", "auto") == []
