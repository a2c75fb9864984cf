"""Wrong SQL: the class of the error, the fragment it points at, and what it says."""

from __future__ import annotations

import pytest

from tests.sql.harness import tables
from viewlet.errors import SqlError, UnsupportedError
from viewlet.sql import parse_statements

WRONG = [
    # syntax
    ("SELECT FROM WHERE", "WHERE", "syntax error"),
    ("SELECT a b c FROM r", "c", "syntax error"),
    ("CREATE VIEW v AS SELECT 1 +", "+", "missing"),
    ("SELECT 'abc", "'abc", "not closed"),
    ("FOO BAR BAZ", "BAZ", "syntax error"),
    ("CREATE VIEW v AS SELECT a FROM FROM r", None, "in FROM"),
    ("CREATE VIEW v AS SELECT ALL, a FROM r", ",", "missing before the comma"),
    ("CREATE VIEW v AS SELECT a,, b FROM r", ",", "missing before the comma"),
    ("CREATE VIEW v AS SELECT a FROM r WHERE a IN (, 1)", ",", "missing before the comma"),
    ("CREATE VIEW v AS SELECT COUNT(,) AS n FROM r", ",", "missing before the comma"),
    ("CREATE TABLE t (a INTEGER,, b INTEGER)", ",", "missing before the comma"),
    ("INSERT INTO u VALUES (, 1)", ",", "missing before the comma"),
    ("CREATE VIEW v AS FROM r |> SELECT a", "|>", "|> is not supported"),
    ("CREATE VIEW v AS SELECT a FROM (FROM r |> WHERE a > 1) q", "|>", "|> is not supported"),
    ("CREATE VIEW v AS SELECT DATEDIFF(MONTH, dt, dt) AS n FROM r", None, "the unit in quotes, a start and an end"),
    ("CREATE VIEW v AS SELECT DATEDIFF(dt, dt) AS n FROM r", None, "the unit in quotes, a start and an end"),
    ("CREATE VIEW v AS SELECT DATE_DIFF('month', dt, dt, dt) AS n FROM r", None, "the unit in quotes"),
    # names
    ("CREATE VIEW v AS SELECT (SELECT MAX(b) AS c FROM r WHERE b = c) AS m FROM s", "c", "an alias, which WHERE does"),
    ("CREATE VIEW v AS SELECT a FROM rr", "rr", "table 'rr' does not exist; did you mean 'r'?"),
    ("CREATE VIEW v AS SELECT r.zz FROM r", "r.zz", "column 'zz' does not exist"),
    ("CREATE VIEW v AS SELECT ok FROM r JOIN u ON okk", "okk", "did you mean 'ok'?"),
    ("CREATE VIEW v AS SELECT q.a FROM r", "q.a", "table 'q' does not exist"),
    ("CREATE VIEW v AS SELECT q.* FROM r", "q.*", "table 'q' does not exist"),
    ("CREATE VIEW v AS SELECT a FROM r, s", "a", "ambiguous: r.a, s.a"),
    ("CREATE VIEW v AS SELECT r.a FROM r, r", "r", "used twice"),
    ("CREATE VIEW v AS SELECT a, b AS a FROM r", "b AS a", "two columns are called 'a'"),
    ("CREATE VIEW v AS SELECT * FROM r, s", "*", "give one an alias"),
    ("CREATE VIEW v AS SELECT a FROM r JOIN s USING (b)", "b", "column 'b' does not exist"),
    ("CREATE VIEW v AS WITH q AS (SELECT 1 AS x), q AS (SELECT 2 AS x) SELECT x FROM q", "q", "twice"),
    ("CREATE VIEW v(x, y) AS SELECT a FROM r", None, "2 column names for 1 columns"),
    ("CREATE VIEW v AS SELECT a FROM r ORDER BY 2", "2", "not in the select list"),
    # types
    ("CREATE VIEW v AS SELECT t + 1 AS x FROM r", "t + 1", "+ needs numbers, not VARCHAR"),
    ("CREATE VIEW v AS SELECT a FROM r WHERE t = a", "t = a", "VARCHAR and INTEGER do not go together"),
    ("CREATE VIEW v AS SELECT a FROM r WHERE dt > '1995-13-01'", "dt > '1995-13-01'", "not a date: '1995-13-01'"),
    ("CREATE VIEW v AS SELECT DATE '2020-02-30' AS d", "'2020-02-30'", "not a date"),
    ("CREATE VIEW v AS SELECT CAST('x' AS INTEGER) AS d", "'x'", "not a number: 'x'"),
    ("CREATE VIEW v AS SELECT a FROM r WHERE b", "b", "a condition is needed, not INTEGER"),
    ("CREATE VIEW v AS SELECT a FROM r WHERE a = 1 AND b + 1", "b + 1", "a condition is needed"),
    ("CREATE VIEW v AS SELECT SUM(t) AS s FROM r", "SUM(t)", "needs a number, not VARCHAR"),
    ("CREATE VIEW v AS SELECT upper(a) AS u FROM r", "upper(a)", "a VARCHAR is needed"),
    ("CREATE VIEW v AS SELECT CASE WHEN a = 1 THEN 2 ELSE ok END AS k FROM u", None, "do not go together"),
    ("CREATE VIEW v AS SELECT CAST(dt AS INTEGER) AS k FROM r", "dt", "cannot be cast"),
    ("CREATE VIEW v AS SELECT dt + dt AS k FROM r", "dt + dt", "is not defined"),
    ("CREATE VIEW v AS SELECT a FROM r UNION ALL SELECT t FROM r", None, "column 1 of UNION"),
    # aggregates and grouping
    ("CREATE VIEW v AS SELECT a FROM r WHERE SUM(b) > 1", "SUM(b)", "not allowed in WHERE"),
    ("CREATE VIEW v AS SELECT a, b FROM r GROUP BY a", "b", "must appear in GROUP BY"),
    ("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM r", "a", "must appear in GROUP BY"),
    ("CREATE VIEW v AS SELECT SUM(COUNT(*)) AS n FROM r", "COUNT(*)", "inside another aggregate"),
    ("CREATE VIEW v AS SELECT a FROM r GROUP BY SUM(b)", "SUM(b)", "not allowed in GROUP BY"),
    ("CREATE VIEW v AS SELECT r.a FROM r JOIN s ON COUNT(*) > 1", "COUNT(*)", "not allowed in a join condition"),
    ("CREATE VIEW v AS SELECT SUM(*) AS n FROM r", "SUM(*)", "takes 1 argument"),
    ("CREATE VIEW v AS SELECT length(t, t) AS n FROM r", None, "length"),
    ("CREATE VIEW v AS SELECT iff(a) AS n FROM r", "iff(a)", "takes 3 arguments, not 1"),
    ("CREATE VIEW v AS SELECT DISTINCT a FROM r ORDER BY b", "b", "must name a selected column"),
    # subqueries and set operations
    ("CREATE VIEW v AS SELECT a FROM r WHERE a IN (SELECT a, c FROM s)", None, "one column, not 2"),
    ("CREATE VIEW v AS SELECT a, b FROM r UNION SELECT a FROM s", None, "queries with 2 and 1 columns"),
    # declarations
    ("CREATE VIEW v WITH (strategy = 'magic') AS SELECT a FROM r", "'magic'", "auto, recompute, first-order"),
    ("CREATE VIEW v WITH (speed = 'high') AS SELECT a FROM r", "'high'", "unknown option 'speed'"),
    ("CREATE TABLE t (a INTEGER, a INTEGER)", "a", "declared twice"),
    ("CREATE TABLE t (a INTEGER, PRIMARY KEY (b))", "b", "does not exist"),
    ("CREATE TABLE t (a INTEGER) PARTITION BY (b)", "b", "column 'b' does not exist"),
    ("CREATE TABLE t (a INTEGER) PARTITION BY (bucket(4, a))", None, "names of columns"),
    ("CREATE MATERIALIZED VIEW v PARTITION BY (c) AS SELECT a FROM r", "c", "column 'c' does not exist"),
    ("CREATE TABLE t (a DECIMAL(50,2))", None, "DECIMAL(50,2) does not exist"),
    ("INSERT INTO r (a, zz) VALUES (1, 2)", "zz", "column 'zz' does not exist"),
    ("INSERT INTO r (a, b) VALUES (1, 2, 3)", "1, 2, 3", "3 values for 2 columns"),
    ("INSERT INTO nowhere VALUES (1)", "nowhere", "table 'nowhere' does not exist"),
    ("UPDATE r SET zz = 1", "zz", "column 'zz' does not exist"),
    ("CREATE VIEW v AS SELECT a FROM r LIMIT -1", "1", "LIMIT and OFFSET take a whole number"),
]

UNSUPPORTED = [
    ("CREATE VIEW v AS SELECT row_number() OVER (ORDER BY a) AS n FROM r", "row_number", "window function"),
    ("CREATE VIEW v AS SELECT SUM(a) OVER () AS n FROM r", "SUM(a", "window function"),
    ("CREATE VIEW v AS WITH RECURSIVE q AS (SELECT 1 AS x) SELECT x FROM q", None, "WITH RECURSIVE"),
    ("CREATE VIEW v AS SELECT r.a FROM r, LATERAL (SELECT 1 AS x) AS q", None, "LATERAL"),
    ("CREATE VIEW v AS SELECT unnest([1, 2]) AS x", "unnest([1, 2", "unnest"),
    ("CREATE VIEW v AS SELECT a FROM r QUALIFY row_number() OVER () = 1", None, "QUALIFY"),
    ("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((a), ())", "a", "GROUPING SETS"),
    ("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM r GROUP BY ROLLUP (a)", "a", "ROLLUP"),
    ("CREATE VIEW v AS SELECT a FROM r TABLESAMPLE 10%", None, "TABLESAMPLE"),
    ("CREATE VIEW v AS SELECT random() AS x FROM r", "random", "random()"),
    ("CREATE VIEW v AS SELECT now() AS x FROM r", "now", "now()"),
    ("CREATE VIEW v AS SELECT CURRENT_DATE AS x FROM r", None, "CURRENT_DATE"),
    ("CREATE VIEW v AS SELECT a FROM (SELECT a FROM r ORDER BY a LIMIT 3) AS q", "3", "LIMIT in a subquery"),
    ("CREATE VIEW v AS SELECT [1, 2] AS x", "1, 2", "array"),
    ("CREATE VIEW v AS SELECT {'x': 1} AS x", None, "struct"),
    ("CREATE VIEW v AS SELECT DISTINCT ON (a) a, b FROM r", "a", "DISTINCT ON"),
    ("CREATE VIEW v AS SELECT median(a) AS m FROM r", "median(a)", "median"),
    ("CREATE VIEW v AS SELECT list(a) AS m FROM r", "list(a)", "aggregate"),
    ("CREATE VIEW v AS SELECT * EXCLUDE (a) FROM r", None, "EXCEPT"),
    ("CREATE VIEW v AS SELECT a FROM r ASOF JOIN s ON r.a >= s.a", "s", "ASOF JOIN"),
    ("CREATE VIEW v AS SELECT TRY_CAST(t AS INTEGER) AS x FROM r", "t", "TRY_CAST"),
    ("CREATE VIEW v AS SELECT INTERVAL 1 DAY AS x", "INTERVAL", "INTERVAL as a value"),
    ("CREATE VIEW v AS SELECT a FROM range(10) AS t(a)", None, "table function"),
    ("CREATE VIEW v AS SELECT a FROM other.r", "other.r", "schema name"),
    ("CREATE TABLE t (a INTEGER[])", "a", "type INT[]"),
    ("CREATE TABLE t (a BLOB)", "a", "type"),
    ("CREATE TABLE t (a VARCHAR COLLATE nocase)", "a", "constraint COLLATE"),
    ("CREATE VIEW v AS SELECT (SELECT SUM(r.b) FROM s) AS x FROM r", "SUM(r.b)", "outer"),
]


def _error(sql: str) -> SqlError:
    with pytest.raises(SqlError) as caught:
        list(parse_statements(sql, tables()))
    return caught.value


@pytest.mark.parametrize(("sql", "fragment", "message"), WRONG)
def test_wrong_sql_is_named_and_pointed_at(sql: str, fragment: str | None, message: str) -> None:
    error = _error(sql)
    assert type(error) is SqlError
    assert message in str(error)
    assert error.fragment
    if fragment is not None:
        assert error.fragment == fragment


@pytest.mark.parametrize(("sql", "fragment", "construct"), UNSUPPORTED)
def test_unsupported_constructs_are_named_and_pointed_at(sql: str, fragment: str | None, construct: str) -> None:
    error = _error(sql)
    assert isinstance(error, UnsupportedError)
    assert construct in error.construct
    assert error.fragment
    if fragment is not None:
        assert fragment in error.fragment


def test_spans_count_from_the_start_of_the_script() -> None:
    script = "SELECT 1;\n\nCREATE VIEW v AS\nSELECT nope FROM r;"
    error = _error(script)
    assert error.fragment == "nope"
    assert "line 4: SELECT nope FROM r;" in str(error)


def test_rewritten_statements_keep_their_positions() -> None:
    error = _error("CREATE STATIC TABLE t (a INTEGER, PRIMARY KEY (zz))")
    assert error.fragment == "zz"
    error = _error("CREATE STREAM t (a INTEGER, PRIMARY KEY (zz))")
    assert error.fragment == "zz"
