"""CREATE TABLE AS: columns, types and rows of a query, as one step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from tests.sql.hosts import Open, opener, ordered
from viewlet.errors import SchemaError, SqlError, StateError, UnsupportedError, ViewletError

R = "CREATE TABLE r (a INTEGER, b VARCHAR); INSERT INTO r VALUES (1, 'x'), (2, NULL), (2, NULL), (NULL, '')"
QUERIES = (
    "SELECT a, b FROM r",
    "SELECT b, SUM(a) AS s, AVG(a) AS m, COUNT(*) AS n FROM r GROUP BY b",
    "SELECT a, row_number() OVER (ORDER BY a) AS n FROM r QUALIFY n < 3",
    "SELECT 1.50 AS d, TRUE AS t, DATE '2020-01-01' AS day, TIMESTAMP '2020-01-01 10:00' AS at, NULL AS no",
    "SELECT CAST(1 AS TINYINT) AS i, CAST(2 AS FLOAT) AS f, 3 AS k, 2::UBIGINT AS u",
    "VALUES (1, 'a'), (2, 'b')",
    "FROM r",
    "WITH c AS (SELECT a FROM r) SELECT a + 1 AS x FROM c UNION ALL SELECT 7",
    "SELECT * FROM r WHERE FALSE",
)


@pytest.fixture(params=["memory", "directory", "spark"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return opener(request.param, tmp_path)


def test_the_rows_are_those_of_the_query(opened: Open) -> None:
    oracle = duckdb.connect()
    with opened() as db:
        for each in (db, oracle):
            each.execute(R)
        expected = {}
        for number, query in enumerate(QUERIES):
            oracle.execute(f"CREATE TABLE t{number} AS {query}")
            expected[f"t{number}"] = ordered(oracle.execute(f"FROM t{number}").fetchall())
            assert db.execute(f"CREATE TABLE t{number} AS {query}") == len(expected[f"t{number}"])
            assert ordered(db.table(f"t{number}").rows()) == expected[f"t{number}"], query
        is_kept, epoch = "durability" in db.stats(), db.epoch
    if is_kept:
        with opened() as db:
            assert db.epoch == epoch
            assert {name: ordered(db.table(name).rows()) for name in expected} == expected


def test_names_and_no_data(opened: Open) -> None:
    with opened() as db:
        db.execute(f'{R}; CREATE TABLE t (x, "Y y") AS SELECT a, b, a AS c FROM r WITH NO DATA')
        assert list(db.table("t").columns) == ["x", "Y y", "c"]
        assert db.table("t").rows() == []
        db.execute("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS other")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS x FROM t; INSERT INTO t SELECT a, b, a FROM r")
        assert db.view("v").rows() == [(5,)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE TABLE r AS SELECT 1 AS a", SchemaError, "already a table"),
        ("CREATE TABLE t AS SELECT [1, 2] AS l", UnsupportedError, "CAST 'l'"),
        ("CREATE TABLE t (a, A) AS SELECT 1, 2", SqlError, "two columns are named 'a'"),
        ("CREATE TABLE t AS SELECT nobody FROM r", SqlError, "nobody"),
        ("CREATE TABLE t (a, b) AS SELECT 1", SqlError, "2 names for 1 columns"),
        ("CREATE TABLE t (a INTEGER) AS SELECT 1", SqlError, "types from the query"),
        ("CREATE STREAM t AS SELECT 1", ViewletError, "STREAM|stream"),
        ("CREATE TABLE t AS SELECT 'x'::BLOB AS b", UnsupportedError, "CAST 'b'"),
    ],
)
def test_refusals(sql: str, error: type[Exception], message: str) -> None:
    db = viewlet.connect()
    db.execute(R)
    with pytest.raises(error, match=message):
        db.execute(sql)
    assert db.tables == ("r",)
    assert db.epoch == 1


def test_a_full_disk_leaves_neither_table_nor_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from viewlet.runtime.durable.store import StateStore

    with viewlet.connect(tmp_path) as db:
        db.execute(R)
        with monkeypatch.context() as patch:

            def full(*arguments: Any, **more: Any) -> None:
                raise StateError("no space left")

            patch.setattr(StateStore, "commit", full)
            with pytest.raises(StateError, match="no space left"):
                db.execute("CREATE TABLE t AS FROM r")
        assert (db.tables, db.epoch) == (("r",), 1)
        db.execute("CREATE TABLE t AS FROM r")
    with viewlet.connect(tmp_path) as db:
        assert (len(db.table("t")), db.epoch) == (4, 2)
