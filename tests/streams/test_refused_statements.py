"""Statements about streams that fuzzing found: each is refused by an error that points at it, or means what it says."""

from __future__ import annotations

import pytest

import viewlet
from tests.streams.model import at

VIEW = "CREATE VIEW v AS INITIALIZE v[i] AS SELECT g, x FROM {} UPDATE v[j] AS SELECT g, x FROM {}"
MATCH = (
    "CREATE VIEW v AS SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES {} AS n PATTERN (a b) {})"
)
SESSION = (
    "CREATE VIEW v AS SELECT g, {} AS n FROM SESSION(m PARTITION BY g, INTERVAL '2' MINUTE) GROUP BY g, window_start"
)
STREAM = "CREATE STREAM s (ts TIMESTAMP, x BIGINT) PARTITION LENGTH "
REFUSED = {
    VIEW.format("m[i]", "v[j-1]"): "nothing says when",
    VIEW.format("m[i]", "m[j IF CLOSED]"): "nothing says when",
    VIEW.format("m[i IF CLOSED]", "m[j]"): "nothing says when",
    VIEW.format("m[i]", "m[j .. j-1]"): "ends before it begins",
    VIEW.format("m[i]", f"m[j+{'1' * 5000}]"): "at most 15 digits",
    VIEW.format("m[i]", "v[j-1] UNION ALL SELECT g, g FROM m[j] UNION ALL SELECT g, x + 1 FROM v[j-1]"): "UPDATE",
    MATCH.format("COUNT(*)", "DEFINE b AS b.ts > a.x"): "a TIMESTAMP is not compared with a number",
    MATCH.format("COUNT(*)", "DEFINE b AS b.g = a.x + 1"): "a VARCHAR is not compared with a number",
    MATCH.format("COUNT(*)", "DEFINE b AS a.x + 1"): "a condition is expected",
    MATCH.format("COUNT(*)", "DEFINE b AS a.g AND b.x > 1"): "conditions, not a VARCHAR",
    MATCH.format("COUNT(*)", "DEFINE b AS b.x > SUM(a.g)"): "SUM takes numbers",
    MATCH.format("COUNT(+)", "DEFINE b AS x > 1"): "line 1",
    MATCH.format(f"PREV(x, {'1' * 5000})", "DEFINE b AS x > 1"): "whole number",
    SESSION.format("NATURAL COUNT(*)"): "syntax error",
    SESSION.format("STRUCT(1) MIN(*)"): "syntax error",
    VIEW.format("m[i] FETCH FIRST 3 ROWS WITH TIES", "m[j]"): "syntax error",
    VIEW.format("m[i] ORDER BY x FETCH FIRST 10 PERCENT ROWS ONLY", "m[j]"): "syntax error",
    VIEW.format("m[i] FOR UPDATE", "m[j]"): "syntax error",
    VIEW.format("m[i]", "m[j] WITH (NOLOCK)"): "syntax error",
    VIEW.format("m[i]", "m[j] CLUSTER BY x"): "syntax error",
    "CREATE VIEW v AS SELECT LISTAGG(g, ',' ON OVERFLOW TRUNCATE) AS n FROM m [WINDOW 5 MINUTES]": "syntax error",
    "CREATE VIEW v AS SELECT SUM(x) AS n FROM m WITH (NOLOCK) PATTERN [a, b+] WHERE a.x > 1": "syntax error",
    MATCH.format("COUNT(*)", "DEFINE b AS b.x DIV 2 = 1"): "syntax error",
    MATCH.format("COUNT(*)", "DEFINE b AS b.x > 1 FROM r"): "one expression is expected",
    SESSION.format("LISTAGG(g, ',' ON OVERFLOW TRUNCATE)"): "syntax error",
    STREAM + "² BY ts": "line 1",
    STREAM + "9" * 5000 + " BY ts": "at most ten digits",
    STREAM + "60 BY ts RETAIN INTERVAL '1e400' DAY": "interval",
    STREAM + "60 BY ts RETAIN INTERVAL '' DAY": "interval",
    STREAM + "60 BY ts RETAIN INTERVAL '1 2 3' DAY": "interval",
    STREAM + "60 BY ts LATENESS INTERVAL '9e300' DAY": "interval",
}


@pytest.fixture
def db() -> viewlet.Connection:
    found = viewlet.connect()
    found.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
    return found


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(db: viewlet.Connection, number: int, capfd: pytest.CaptureFixture[str]) -> None:
    statement, reason = list(REFUSED.items())[number]
    with pytest.raises(viewlet.SqlError) as refused:
        db.execute(statement)
    assert reason in str(refused.value)
    assert not db.views
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", ['"$part0_0"', '"$part0_start"', '"$rows"', '"$part1_0"'])
def test_texts_like_our_marks_are_texts(db: viewlet.Connection, text: str) -> None:
    hidden = "".join(f"\\x{ord(character):02x}" for character in text)
    name = text.replace('"', '""')
    db.execute(f'CREATE STREAM "{name}" (ts TIMESTAMP, g VARCHAR) PARTITION LENGTH 60 BY ts')
    for view, literal in (("plain", f"'{text}'"), ("escaped", f"E'{hidden}'")):
        query = f'SELECT {literal} AS l, a.g FROM m[i] AS a CROSS JOIN "{name}"[i] AS b'
        later = query.replace("[i]", "[j]")
        db.execute(f"CREATE VIEW {view} AS INITIALIZE {view}[i] AS {query} UPDATE {view}[j] AS {later}")
    db.execute(
        f"CREATE VIEW run AS SELECT g, '{text}' AS l, COUNT(*) AS n FROM m PATTERN [a] WHERE a.g <> '{text}' GROUP BY g"
    )
    for stream, rest in (("m", (1,)), (text, ())):
        db.insert(stream, [(at(0), "a", *rest), (at(61), "b", *rest)])
    assert db.view("plain").rows() == db.view("escaped").rows() == [(text, "a", at(0))]
    assert db.view("run").rows() == [("a", text, 1, at(0))]


def test_comparisons_of_likes_are_accepted(db: viewlet.Connection) -> None:
    define = (
        "DEFINE b AS b.ts < a.ts + INTERVAL '5' MINUTE AND b.g = a.g AND (b.x > a.x OR a.x IS NULL) AND NOT b.x = 9"
    )
    db.execute(MATCH.format("COUNT(*)", define))
    db.insert("m", [(at(0), "a", 1), (at(1), "a", 2), (at(61), "a", 0)])
    assert [row[:2] for row in db.view("v").rows()] == [("a", 2)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s.setting FROM m[i], (WITH pg_settings AS (SELECT 'a' AS setting) SELECT 1 AS b) AS q, pg_settings s",
        "WITH b AS (SELECT * FROM pg_settings), pg_settings AS (SELECT x FROM m[i]) SELECT * FROM b",
        "SELECT x FROM m[i] WHERE x IN (WITH pg_settings AS (SELECT 1 AS a) SELECT a FROM pg_settings) "
        "UNION ALL SELECT 1 FROM pg_settings",
        "SELECT s.setting FROM m[i], pg_catalog.pg_settings AS s",
    ],
)
def test_a_query_elsewhere_hides_no_table_of_the_host(query: str) -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
    with pytest.raises(viewlet.SqlError, match=r"no table or view 'pg_settings'|in no database and no schema"):
        db.execute(f"CREATE VIEW v AS INITIALIZE v[i] AS {query} UPDATE v[i] AS {query} PARTITION LENGTH 60")


def test_queries_of_a_with_clause_are_seen_inside_it() -> None:
    db = viewlet.connect()
    db.execute("""CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts;
        CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (7)""")
    query = """WITH a AS (SELECT x FROM m[i]), t AS (SELECT a + 1 AS a FROM t), b AS (SELECT A.x + T.a AS y FROM A, T)
        SELECT y FROM B WHERE y IN (SELECT y FROM b UNION (WITH c AS (SELECT y FROM b) SELECT y FROM c))"""
    db.execute(f"CREATE VIEW v AS INITIALIZE v[i] AS {query} UPDATE v[i] AS {query} PARTITION LENGTH 60")
    db.insert("m", [("2026-01-01 00:00:00", "g", 1), ("2026-01-01 00:01:00", "g", 2)])
    assert [row[0] for row in db.view("v").rows()] == [9]
