"""Nothing the parser hands over is left unread: it is used, in the sense DuckDB gives it, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from tests.sql import test_translation
from tests.sql.harness import Database, tables
from viewlet.errors import SqlError, UnsupportedError
from viewlet.sql import bind_query, bind_statement, parse_statements, split_statements
from viewlet.sql.function_names import UNSUPPORTED_NODES
from viewlet.sql.parser import quiet
from viewlet.sql.scalars import HANDLERS
from viewlet.sql.source import Source
from viewlet.sql.syntax import FLAGS, UNDERSTOOD, find_unread

SOURCE = Source("x", 0, "x")


def every_class() -> list[type[exp.Expr]]:
    found: list[type[exp.Expr]] = []
    pending: list[type[exp.Expr]] = [exp.Expression]
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        found.append(cls)
    return sorted(set(found), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", list(UNDERSTOOD), ids=lambda cls: cls.__name__)
def test_every_other_argument_of_a_node_is_refused(cls: type[exp.Expr]) -> None:
    names = {*cls.arg_types, "something_new"}
    for name in names - UNDERSTOOD[cls]:
        for value in (True, "text", exp.var("x"), [exp.var("x")]):
            unread = find_unread(cls(**{name: value}), SOURCE)
            assert isinstance(unread, UnsupportedError), f"{name} of {cls.__name__} is ignored"
        for nothing in (None, False, []):
            assert find_unread(cls(**{name: nothing}), SOURCE) is None


def test_every_other_class_of_nodes_is_refused() -> None:
    classes = every_class()
    assert len(classes) > 500
    for cls in classes:
        if cls in UNDERSTOOD or cls in HANDLERS or cls in UNSUPPORTED_NODES or cls is exp.IndexParameters:
            continue
        with quiet():
            assert find_unread(exp.Paren(this=cls()), SOURCE) is not None, cls.__name__


def test_an_argument_is_declared_only_if_the_parser_has_it() -> None:
    for cls, names in UNDERSTOOD.items():
        assert names <= {*cls.arg_types, "this"}, cls.__name__


class Recording(dict[str, Any]):
    """Arguments of a node that note which of them are asked for by name."""

    def __init__(self, owner: type[exp.Expr], args: dict[str, Any], seen: set[tuple[type[exp.Expr], str]]) -> None:
        super().__init__(args)
        self.owner, self.seen = owner, seen

    def __getitem__(self, name: str) -> Any:
        self.seen.add((self.owner, name))
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add((self.owner, name))
        return super().get(name, default)


STATEMENTS = [
    "CREATE TABLE x (a DECIMAL(3,1) NOT NULL, b VARCHAR(3) NULL, c BIGINT CHECK (c >= 0), PRIMARY KEY (a))",
    "CREATE TABLE IF NOT EXISTS x (a BIGINT PRIMARY KEY) PARTITION BY (a)",
    "CREATE TABLE x (a BIGINT, CONSTRAINT k PRIMARY KEY (a), CONSTRAINT c CHECK (a >= 0))",
    "CREATE OR REPLACE MATERIALIZED VIEW x (p) WITH (strategy = 'recompute') AS SELECT a FROM r",
    "DROP TABLE IF EXISTS r RESTRICT",
    "DROP MATERIALIZED VIEW x",
    "INSERT INTO r (a, b) WITH q AS (SELECT 1 AS x, 2 AS y) SELECT x, y FROM q",
    "WITH q AS (SELECT 1 AS x, 2 AS y) INSERT INTO r (a, b) SELECT x, y FROM q",
    "DELETE FROM r AS q WHERE q.a = 1",
    "UPDATE r SET a = 1, b = 2 WHERE a = 3",
    "CREATE VIEW x AS SELECT COFACTOR(a, CATEGORICAL(b), degree => 2) AS c FROM r GROUP BY ALL",
    "CREATE VIEW x AS SELECT COFACTOR(a, b, degree := 2) AS c FROM r",
    "CREATE VIEW x AS SELECT a FROM r ORDER BY a DESC NULLS FIRST OFFSET 1 ROWS FETCH FIRST 3 ROWS ONLY",
    "CREATE VIEW x AS (SELECT a FROM r) UNION ALL (SELECT a FROM s) ORDER BY 1 LIMIT 3 OFFSET 1",
    "CREATE VIEW x AS SELECT a FROM r EXCEPT ALL SELECT a FROM s ORDER BY a LIMIT 2 OFFSET 1",
    "CREATE VIEW x AS WITH q AS MATERIALIZED (SELECT a FROM r) SELECT a FROM q INTERSECT SELECT a FROM s LIMIT 2",
    "CREATE VIEW x AS SELECT q.p, q.o FROM (r JOIN u USING (a)) AS q(p, o)",
    "CREATE VIEW x AS SELECT n FROM (VALUES (1), (2)) AS t(n)",
    "CREATE VIEW x AS VALUES (1, 2)",
    "CREATE VIEW x AS SELECT a FROM r WHERE a > ANY (SELECT a FROM s) OR a < ALL (SELECT a FROM u)",
    "CREATE VIEW x AS SELECT COUNT(DISTINCT a) FILTER (WHERE b > 1) AS n FROM r",
    "CREATE VIEW x AS SELECT date_trunc('month', dt) AS m, date_diff('day', dt, dt) AS d FROM r",
    "CREATE VIEW x AS SELECT TRIM(LEADING 'a' FROM t) AS t, t NOT LIKE 'a%' ESCAPE '\\' AS l, t ILIKE 'A' AS i FROM r",
]


def test_every_declared_argument_is_read_by_the_binder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus reaches every argument that is listed as understood, and some code asks for it by name."""
    from viewlet.sql import bind

    seen: set[tuple[type[exp.Expr], str]] = set()
    present: set[tuple[type[exp.Expr], str]] = set()
    parse = bind.parse

    def recording_parse(*args: Any, **kwargs: Any) -> exp.Expr:
        node = parse(*args, **kwargs)
        for part in node.walk():
            present.update((type(part), name) for name, value in part.args.items() if value)
            part.args = Recording(type(part), part.args, seen)
        return node

    monkeypatch.setattr(bind, "parse", recording_parse)
    catalog = tables()
    for sql in STATEMENTS:
        bind_statement(next(split_statements(sql)), catalog)
    for sql in test_translation.QUERIES:
        bind_query(sql, catalog)
    ignored = {(cls, name) for cls, names in FLAGS.items() for name in names} | {
        (exp.CTE, "materialized"),
        (exp.ColumnConstraint, "this"),
        (exp.Constraint, "this"),
        (exp.Drop, "restrict"),
        (exp.Drop, "materialized"),
        (exp.Fetch, "direction"),
        (exp.LimitOptions, "rows"),
    }
    declared = {(cls, name) for cls, names in UNDERSTOOD.items() for name in names} - ignored
    declared = {(cls, name) for cls, name in declared if cls not in (exp.And, exp.Or)}  # flattened as a whole
    unread = {(cls.__name__, name) for cls, name in (declared & present) - seen}
    assert not unread
    assert len(declared & present) > 120


REFUSED = [
    "SELECT a FROM r FOR SYSTEM_TIME AS OF '2020-01-01'",
    "SELECT a FROM r FOR SYSTEM_TIME BETWEEN '2020-01-01' AND '2021-01-01'",
    "SELECT a FROM r VERSION AS OF 3",
    "SELECT a FROM r TIMESTAMP AS OF '2020-01-01'",
    "SELECT a FROM r AT (VERSION => 1)",
    "SELECT a FROM r AT (TIMESTAMP => '2020-01-01')",
    "SELECT a FROM r BEFORE (STATEMENT => 'x')",
    "SELECT t SIMILAR TO 'a%' AS x FROM r",
    "SELECT t SIMILAR TO 'a%' ESCAPE '!' AS x FROM r",
    "SELECT t NOT SIMILAR TO 'a%' ESCAPE '!' AS x FROM r",
    "SELECT t GLOB 'a*' AS x FROM r",
    "SELECT t ~ 'a' AS x FROM r",
    "SELECT d DIV 2 AS x FROM r",
    "SELECT a DIV d AS x FROM r",
    "SELECT (d) DIV (2) AS x FROM r",
    "SELECT x DIV 2 AS y FROM s",
    "SELECT a FROM r TABLESAMPLE 10%",
    "SELECT a FROM r USING SAMPLE 3",
    "SELECT a FROM r, LATERAL (SELECT c FROM s WHERE s.a = r.a) AS l",
    "SELECT a FROM r QUALIFY row_number() OVER () = 1",
    "SELECT SUM(a) OVER w AS x FROM r WINDOW w AS (PARTITION BY b)",
    "SELECT a FROM r FOR UPDATE",
    "SELECT a FROM r FOR SHARE",
    "SELECT a FROM r ORDER BY a FETCH FIRST 3 ROWS WITH TIES",
    "SELECT a FROM r ORDER BY a LIMIT 10%",
    "SELECT t COLLATE nocase AS x FROM r",
    "SELECT a FROM r ORDER BY t COLLATE nocase",
    "SELECT FIRST(a) AS x FROM r",
    "SELECT SUM(a IGNORE NULLS) AS x FROM r",
    "SELECT SUM(a IGNORE NULLS) FILTER (WHERE b > 1) AS x FROM r",
    "SELECT FIRST_VALUE(a RESPECT NULLS) AS x FROM r",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) AS x FROM r",
    "SELECT STRING_AGG(t, ',' ORDER BY t) AS x FROM r",
    "SELECT SUM(a ORDER BY b) AS x FROM r",
    "SELECT COUNT(DISTINCT a, b) AS x FROM r",
    "SELECT DISTINCT ON (a) a, b FROM r",
    "SELECT a INTO z FROM r",
    "SELECT a FROM ONLY r",
    "SELECT a FROM r PARTITION (p0)",
    "SELECT a FROM r AS q (p, o) TABLESAMPLE 10%",
    "WITH RECURSIVE q AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM q) SELECT x FROM q",
    "SELECT a FROM r UNION BY NAME SELECT a FROM s",
    "SELECT a FROM r UNION ALL BY NAME SELECT a FROM s",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY ROLLUP (a)",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY CUBE (a)",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY GROUPING SETS ((a), ())",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY a WITH ROLLUP",
    "SELECT * FROM r PIVOT (SUM(a) FOR b IN (1, 2))",
    "SELECT TRY_CAST(t AS BIGINT) AS x FROM r",
    "SELECT CAST(t AS DATE FORMAT 'YYYY') AS x FROM r",
    "SELECT CAST(a AS VARCHAR) COLLATE nocase AS x FROM r",
    "SELECT dt + INTERVAL '1-2' YEAR TO MONTH AS x FROM r",
    "SELECT INTERVAL 1 DAY AS x FROM r",
    "SELECT EXTRACT(TIMEZONE FROM dt) AS x FROM r",
    "SELECT a FROM r ASOF JOIN s ON r.a >= s.a",
    "SELECT a FROM r POSITIONAL JOIN s",
    "SELECT * EXCLUDE (a) FROM r",
    "SELECT * REPLACE (1 AS a) FROM r",
    "SELECT * RENAME (a AS z) FROM r",
    "SELECT * LIKE 'a%' FROM r",
    "SELECT COLUMNS('a.*') FROM r",
    "SELECT a BETWEEN SYMMETRIC 3 AND 1 AS x FROM r",
    "SELECT (a, b) = (1, 2) AS x FROM r",
    "SELECT a FROM r WHERE a IN UNNEST([1, 2])",
    "SELECT t AT TIME ZONE 'UTC' AS x FROM r",
    "SELECT a[1] AS x FROM r",
    "SELECT a FROM r CONNECT BY a = b",
    "SELECT a FROM r CLUSTER BY a",
    "SELECT a FROM r SORT BY a",
    "SELECT a FROM r DISTRIBUTE BY a",
    "SELECT TOP 3 a FROM r",
    "SELECT ROUND(d, 1, 1) AS x FROM r",
    "SELECT STRPOS(t, 'a', 2) AS x FROM r",
    "SELECT MIN(a, 3) AS x FROM r",
    "SELECT main.r.a FROM r",
    "SELECT a FROM main.r",
    "SELECT ANY_VALUE(a) AS x FROM r",
    "SELECT GROUPING(a) AS x FROM r GROUP BY a",
    "SELECT a FROM r WITH ORDINALITY",
    "SELECT a FROM r JOIN s USING (a) TABLESAMPLE 5",
    "SELECT JSON_EXTRACT(t, '$.a') AS x FROM r",
    "SELECT CURRENT_DATE AS x FROM r",
    "SELECT a FROM r LIMIT 3 BY a",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_views_do_not_mean_is_refused(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind_query(sql, tables())
    assert caught.value.fragment


STATEMENTS_REFUSED = [
    "CREATE TABLE x (a BIGINT GENERATED BY DEFAULT AS ROW START)",
    "CREATE TABLE x (a VARCHAR COLLATE nocase)",
    "CREATE TABLE x (a BIGINT COMMENT 'x')",
    "CREATE TABLE x (a BIGINT, PRIMARY KEY (a DESC))",
    "CREATE TABLE x (a BIGINT PRIMARY KEY DESC)",
    "CREATE TABLE x (a BIGINT) WITH (fillfactor = 3)",
    "CREATE TABLE x (a BIGINT) COMMENT 'x'",
    "CREATE TABLE x (a BIGINT) ENGINE = InnoDB",
    "CREATE TABLE x (a BIGINT) INHERITS (r)",
    "CREATE TABLE x LIKE r",
    "CREATE TABLE x CLONE r",
    "CREATE OR REPLACE STREAM x (a BIGINT)",
    "CREATE VIEW x (p BIGINT) AS SELECT a FROM r",
    "CREATE VIEW x AS SELECT a FROM r WITH NO DATA",
    "CREATE VIEW x COMMENT 'y' AS SELECT a FROM r",
    "CREATE MATERIALIZED VIEW x WITH (strategy = 'auto', strategy = 'recompute') AS SELECT a FROM r",
    "CREATE SCHEMA x",
    "CREATE FUNCTION f(x) AS x + 1",
    "ALTER TABLE r SET SCHEMA z",
    "INSERT INTO r (a) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT OR REPLACE INTO r (a) VALUES (1)",
    "INSERT OR IGNORE INTO r (a) VALUES (1)",
    "INSERT OVERWRITE TABLE r SELECT * FROM r",
    "INSERT INTO r PARTITION (a = 1) SELECT * FROM r",
    "INSERT INTO r (a BIGINT) VALUES (1)",
    "UPDATE ONLY r SET a = 1",
    "DELETE FROM r LIMIT 3",
    "DELETE FROM r FOR SYSTEM_TIME AS OF '2020-01-01'",
    "GRANT SELECT ON r TO x",
]


@pytest.mark.parametrize("sql", STATEMENTS_REFUSED)
def test_statements_with_more_than_we_read_are_refused(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        list(parse_statements(sql, tables()))
    assert caught.value.fragment


AGREE = [
    "SELECT a FROM r WHERE t LIKE 'b!%c' ESCAPE '!'",
    "SELECT a FROM r WHERE t NOT LIKE 'b!%c' ESCAPE '!'",
    "SELECT a FROM r WHERE NOT t LIKE 'b%' AND t ILIKE 'B%'",
    "SELECT a // 2 AS x, (a - 5) // 2 AS y, a // 0 AS z FROM r",
    "SELECT d // 2 AS x, a // d AS y FROM r",
    "SELECT x // 2 AS y FROM s",
    "SELECT a % 2 AS x, d % 1.5 AS y FROM r",
    "SELECT a FROM r ORDER BY a NULLS FIRST",
    "SELECT COUNT(a) FILTER (WHERE b > 1) AS n, SUM(d) FILTER (WHERE b > 1) AS s FROM r",
    "WITH q AS MATERIALIZED (SELECT a FROM r) SELECT a FROM q",
    "WITH q AS NOT MATERIALIZED (SELECT a FROM r) SELECT a FROM q",
    "WITH q(p) AS (SELECT a FROM r) SELECT p FROM q",
    "SELECT dt + INTERVAL 1 DAY AS a, dt + INTERVAL '2' MONTH AS b, dt + INTERVAL '1 year 2 days' AS c FROM r",
    "SELECT dt + INTERVAL (a) DAY AS x, dt - INTERVAL '1 week' AS y FROM r",
    "SELECT EXTRACT(YEAR FROM dt) AS y, EXTRACT(dow FROM dt) AS w, EXTRACT('month' FROM dt) AS m FROM r",
    "SELECT q.p, q.o FROM (r JOIN u ON r.a = u.a) AS q(p, o)",
    'SELECT "a", R.B FROM "r"',
    'SELECT A AS "Upper" FROM R',
    "SELECT a IS NOT NULL AS x, (a = 1) IS NOT TRUE AS y, (a = 1) IS FALSE AS z FROM r",
    "SELECT a IS DISTINCT FROM b AS x, a IS NOT DISTINCT FROM b AS y FROM r",
    "SELECT CAST(a AS DECIMAL(10,2)) AS x, a::VARCHAR AS y FROM r",
    "SELECT TRIM(BOTH 'a' FROM t) AS x, TRIM(TRAILING 'b' FROM t) AS y, TRIM(t) AS z FROM r",
    "SELECT a FROM r EXCEPT ALL SELECT a FROM s",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY ALL",
    "SELECT a FROM r SEMI JOIN s USING (a)",
    "SELECT t || 'x' || NULL AS x, CONCAT(t, 'x', NULL) AS y FROM r",
    "SELECT LEAST(a, b, NULL) AS x, GREATEST(a, b) AS y FROM r",
    "SELECT 12345678901234567890.12345678901234567890123 AS x FROM r",
    "SELECT a, (SELECT MAX(b) AS c FROM r HAVING c > 1) AS m FROM s",
    "SELECT a, (SELECT MAX(q.y) FROM (SELECT b AS c, c + 1 AS y FROM r) AS q) AS m FROM s",
    "SELECT a, EXISTS (SELECT b AS c FROM r GROUP BY c HAVING c > 2) AS m FROM s",
    "SELECT ROUND(b, -1) AS x, ROUND(d, -1) AS y, ROUND(e, -2) AS z FROM u JOIN (SELECT d FROM r) AS q ON TRUE",
]


@pytest.mark.parametrize("sql", AGREE)
def test_what_is_read_means_what_duckdb_says(sql: str) -> None:
    for seed in range(3):
        database = Database(seed)
        assert database.actual(sql) == database.expected(sql)
