"""What each kind of statement becomes."""

from __future__ import annotations

import duckdb
import pytest

from tests.sql.harness import Database, tables
from viewlet.algebra.evaluate import evaluate
from viewlet.sql import (
    CreateTable,
    CreateView,
    Drop,
    Explain,
    Modify,
    Select,
    Statement,
    bind_query,
    parse_statements,
    split_statements,
)
from viewlet.types import Column, Datum, SqlType, TableKind


def one(sql: str) -> Statement:
    (statement,) = parse_statements(sql, tables())
    return statement


def test_tables_streams_and_static_tables() -> None:
    kinds = [("TABLE", TableKind.TABLE), ("STREAM", TableKind.STREAM), ("STATIC TABLE", TableKind.STATIC)]
    for words, kind in kinds:
        statement = one(f"CREATE {words} IF NOT EXISTS t (a INT)")
        assert isinstance(statement, CreateTable)
        assert statement.if_not_exists
        assert statement.table.kind is kind


def test_keys_and_checks() -> None:
    statement = one('CREATE TABLE t (K BIGINT PRIMARY KEY, "Q" TEXT NOT NULL, n DECIMAL(9,2) CHECK (n >= 0))')
    assert isinstance(statement, CreateTable)
    table = statement.table
    assert table.primary_key == ("k",)
    assert table.non_negative == {"n"}
    assert [(c.name, str(c.type), c.type.nullable) for c in table.columns] == [
        ("k", "BIGINT", False),
        ("Q", "VARCHAR", False),
        ("n", "DECIMAL(9,2)", True),
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("INT", "INTEGER"),
        ("INT8", "BIGINT"),
        ("LONG", "BIGINT"),
        ("FLOAT", "REAL"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("NUMERIC(12, 4)", "DECIMAL(12,4)"),
        ("STRING", "VARCHAR"),
        ("CHAR(3)", "VARCHAR"),
        ("BOOL", "BOOLEAN"),
        ("DATETIME", "TIMESTAMP"),
        ("SHORT", "SMALLINT"),
    ],
)
def test_type_synonyms(written: str, meant: str) -> None:
    statement = one(f"CREATE TABLE t (a {written})")
    assert isinstance(statement, CreateTable)
    assert str(statement.table.columns[0].type) == meant


def test_views_and_their_options() -> None:
    statement = one("CREATE OR REPLACE MATERIALIZED VIEW V WITH (strategy = 'first-order') AS SELECT a AS x FROM r")
    assert isinstance(statement, CreateView)
    assert (statement.name, statement.strategy, statement.or_replace) == ("v", "first-order", True)
    assert statement.sources == {"r"}
    assert statement.select_sql == "SELECT a AS x FROM r"
    assert statement.result.columns == (Column("x", SqlType(statement.result.columns[0].type.kind)),)


def test_later_statements_see_earlier_ones() -> None:
    script = "CREATE VIEW v(k) AS SELECT a FROM r; CREATE VIEW w AS SELECT k + 1 AS l FROM v; DROP VIEW v"
    first, second, third = parse_statements(script, tables())
    assert isinstance(second, CreateView)
    assert second.sources == {"v"}
    assert third == Drop(("v",), "VIEW")
    assert isinstance(first, CreateView)


def test_explain() -> None:
    assert one("EXPLAIN v") == Explain("v")
    assert one("EXPLAIN (triggers) v") == Explain("v", "triggers")
    statement = one("EXPLAIN (algebra) SELECT a FROM r")
    assert isinstance(statement, Explain)
    assert isinstance(statement.target, CreateView)
    assert statement.target.select_sql == "SELECT a FROM r"


def test_semicolons_in_strings_and_comments_do_not_split() -> None:
    texts = [raw.text for raw in split_statements("SELECT ';' AS a; -- one; two\n ; SELECT 2 AS b;")]
    assert texts == ["SELECT ';' AS a", "SELECT 2 AS b"]
    assert one("SELECT ';' AS a;") == Select("SELECT ';' AS a")


def test_changes_become_queries() -> None:
    duck = duckdb.connect()
    duck.execute("CREATE TABLE r (a INTEGER, b INTEGER, d DECIMAL(10,2), t VARCHAR, dt DATE)")
    duck.execute("INSERT INTO r VALUES (1, 2, 3.5, 'x', NULL), (5, 6, NULL, 'y', NULL)")

    insert = one("INSERT INTO r (t, b) SELECT 'z', MAX(b) FROM r")
    assert isinstance(insert, Modify)
    assert duck.execute(insert.changes_sql).fetchall() == [(None, 6, None, "z", None)]

    delete = one("DELETE FROM r AS q WHERE q.a > 1")
    assert isinstance(delete, Modify)
    assert duck.execute(delete.changes_sql).fetchall() == [(5, 6, None, "y", None)]

    update = one("UPDATE r SET b = a + 1.4, t = upper(t) WHERE t = 'y'")
    assert isinstance(update, Modify)
    assert duck.execute(update.changes_sql).fetchall() == [(5, 6, None, "y", None, 5, 6, None, "Y", None)]


ORDERED = [
    "SELECT a, b FROM r ORDER BY a, b DESC",
    "SELECT a AS k, b FROM r ORDER BY k DESC NULLS FIRST, 2",
    "SELECT b FROM r ORDER BY a * -1, b, d NULLS FIRST LIMIT 4 OFFSET 1",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY a ORDER BY SUM(b) DESC, a LIMIT 3",
    "SELECT DISTINCT a FROM r ORDER BY a DESC LIMIT 2",
    "SELECT a FROM r UNION SELECT c FROM s ORDER BY 1 NULLS FIRST LIMIT 5",
    "SELECT -a AS a FROM r ORDER BY a",
    "SELECT a, b FROM r ORDER BY b, (SELECT COUNT(*) FROM s WHERE s.a = r.a), a",
    'SELECT t AS "T", b FROM r ORDER BY "T", b FETCH FIRST 3 ROWS ONLY',
]


@pytest.mark.parametrize("sql", ORDERED)
def test_order_and_limit(sql: str) -> None:
    database = Database(7)
    query = bind_query(sql, database.catalog).query
    counts = evaluate(query.expr, query.output, database.state)
    rows = [row for row, count in counts.items() for _ in range(int(count))]
    for key in reversed(query.order):
        position = query.output.index(key.var)
        rows.sort(key=lambda row: _rank(row[position]), reverse=key.descending)
        rows.sort(key=lambda row: (row[position] is None) != key.nulls_first)
    visible = [tuple(row[query.output.index(c.var)] for c in query.columns) for row in rows]
    end = None if query.limit is None else query.offset + query.limit
    assert visible[query.offset : end] == database.duck.execute(sql).fetchall()


def _rank(value: Datum) -> tuple[bool, Datum]:
    return (value is not None, value)


def test_plain_columns_keep_their_variables() -> None:
    query = bind_query("SELECT custkey FROM o", parse("CREATE TABLE o (custkey BIGINT, total BIGINT)")).query
    assert [column.var.name for column in query.columns] == ["custkey"]


def parse(sql: str):  # type: ignore[no-untyped-def]
    return {each.table.name: each.table for each in parse_statements(sql, {}) if isinstance(each, CreateTable)}
