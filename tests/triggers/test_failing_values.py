"""A value that fails for some rows is computed for the rows of a join alone, however the join is maintained."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.errors import DataError

STRATEGIES = ("auto", "first-order", "higher-order", "view-tree", "recompute")
TABLES = "CREATE TABLE t (k INTEGER, v VARCHAR, b BIGINT); CREATE TABLE u (k INTEGER, w INTEGER)"
FINE, BAD, OTHER = (1, "5", 7), (2, "x", 2**63 - 1), (1, 3)
NUMBER = "CAST(t.v AS INTEGER)"
QUERIES = {
    "row": f"SELECT u.w, {NUMBER} AS c FROM t JOIN u ON t.k = u.k",
    "sum": f"SELECT u.k, SUM({NUMBER}) AS c, COUNT(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY u.k",
    "group": f"SELECT {NUMBER} AS c, SUM(u.w) AS w FROM t JOIN u ON t.k = u.k GROUP BY {NUMBER}",
    "product": f"SELECT SUM({NUMBER} * u.w) AS c FROM t JOIN u ON t.k = u.k",
    "addend": f"SELECT SUM({NUMBER} + u.w) AS c FROM t JOIN u ON t.k = u.k",
    "branch": f"SELECT SUM(CASE WHEN u.w > 0 THEN {NUMBER} ELSE u.w END) AS c FROM t JOIN u ON t.k = u.k",
    "greatest": f"SELECT MAX({NUMBER}) AS c FROM t JOIN u ON t.k = u.k",
    "filtered": f"SELECT u.k, SUM({NUMBER}) AS c FROM t JOIN u ON t.k = u.k WHERE u.w > 0 GROUP BY u.k",
    "inequality": f"SELECT COUNT(*) AS n, SUM({NUMBER}) AS c FROM t, u WHERE t.k < u.w - 1",
    "outer": f"SELECT u.k, {NUMBER} AS c FROM u LEFT JOIN t ON t.k = u.k",
    "exists": f"SELECT SUM({NUMBER}) AS c FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "in": f"SELECT {NUMBER} AS c FROM t WHERE t.k IN (SELECT u.k FROM u)",
    "correlated": f"SELECT u.k, (SELECT SUM({NUMBER}) FROM t WHERE t.k = u.k) AS c FROM u",
    "three": f"SELECT u.k, SUM({NUMBER}) AS c FROM t JOIN u ON t.k = u.k JOIN u o ON u.w = o.w GROUP BY u.k",
    "narrower": "SELECT u.k, SUM(CAST(t.b AS SMALLINT)) AS c FROM t JOIN u ON t.k = u.k GROUP BY u.k",
    "root": "SELECT SUM(SQRT(1 - t.k)) AS c FROM t JOIN u ON t.k = u.k",
    "logarithm": "SELECT SUM(LN(2 - t.k)) AS c FROM t JOIN u ON t.k = u.k",
}


def oracle(name: str, t: list[Any], u: list[Any]) -> list[Any]:
    """What DuckDB answers; it computes the values of a correlated subquery late only as the query is written."""
    connection = duckdb.connect()
    connection.execute("SET ieee_floating_point_ops = false")
    if name == "correlated":
        connection.execute("PRAGMA disable_optimizer")
    connection.execute(TABLES)
    for table, rows in (("t", t), ("u", u)):
        for row in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return sorted(connection.execute(QUERIES[name]).fetchall())


@pytest.mark.parametrize(
    ("engine", "strategy", "names"),
    [*(("interpreter", strategy, tuple(QUERIES)) for strategy in STRATEGIES), ("compiled", "auto", ("sum", "group"))],
)
def test_a_row_that_joins_nothing_does_not_fail(engine: str, strategy: str, names: tuple[str, ...]) -> None:
    db = viewlet.connect(engine=engine)
    db.execute(TABLES)
    db.insert("t", [BAD])
    for name in names:
        db.execute(f"CREATE MATERIALIZED VIEW {name}_ WITH (strategy = '{strategy}') AS {QUERIES[name]}")
    present: dict[str, list[Any]] = {"t": [BAD], "u": []}
    changes = [("t", FINE, 1), ("u", OTHER, 1), ("t", BAD, -1), ("t", BAD, 1), ("u", OTHER, -1), ("u", OTHER, 1)]
    for table, row, count in changes:
        if count > 0:
            present[table].append(row)
            db.insert(table, [row])
        else:
            present[table].remove(row)
            db.delete(table, [row])
        for name in names:
            assert sorted(db.view(f"{name}_").rows()) == oracle(name, **present), (name, table, row, count)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", sorted({*QUERIES} - {"filtered", "inequality"}))
def test_a_row_that_joins_fails_and_the_batch_is_refused(name: str, strategy: str) -> None:
    db = viewlet.connect(engine="interpreter")
    db.execute(TABLES)
    db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {QUERIES[name]}")
    db.insert("t", [FINE, BAD])
    db.insert("u", [OTHER])
    before = db.view("q").rows()
    with pytest.raises(duckdb.Error):
        oracle(name, [FINE, BAD], [OTHER, (2, 1)])
    with pytest.raises(DataError):
        db.insert("u", [(2, 1)])
    assert db.view("q").rows() == before
