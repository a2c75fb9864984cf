"""Expressions and queries whose meaning differs between databases; on every host a view has what it has on DuckDB."""

from __future__ import annotations

from decimal import Decimal

import pytest

import viewlet
from tests.streams.model import at
from viewlet import DataError, UnsupportedError

DOUBLES = (
    *(2.5, -2.5, 3.5, 1.25, 0.15, 1.005, 2.675, 0.5, 0.49999999999999994, 3.7, -1e-5, -0.0, 0.0, 99999.995, None),
    *(123456789.0, 1e-7, 0.0001, 0.00012345, 1e15, 1.5e15, 1234567890123456.5, 1e16, 6.02e23, 1e-300),
)
SMALL = "CASE WHEN ABS(d) < 1e9 THEN d END"
EXPRESSIONS = (
    *("ROUND(d)", "ROUND(d, 1)", "ROUND(d, -1)", "ROUND(x)", "ROUND(x, -1)", "ROUND(c)", "ROUND(c, 1)"),
    *("CAST(d AS VARCHAR)", "'a' || d", "CONCAT('a', d, g)", "CONCAT_WS('-', g, d, x > 3)", "(x > 2) || 'z'"),
    *(f"CAST({SMALL} AS {type})" for type in ("BIGINT", "INTEGER", "DECIMAL(20,2)", "DECIMAL(20,0)")),
    *("CAST(c AS BIGINT)", "CAST(c AS VARCHAR)", "CAST(x > 3 AS VARCHAR)", "CAST(ts AS VARCHAR)", "d / 3"),
    *("EXTRACT(dow FROM ts)", "EXTRACT(isodow FROM ts)", "dayofweek(ts)", "isodow(ts)", "second(ts)"),
    *(
        "x / (x - 17)",
        "d / (x - 17)",
        "x // (x - 17)",
        "x % (x - 17)",
        "d / 0",
        "c / (x - 17)",
        "(x + 17) % 0",
        "x / 2",
    ),
    *("LOG(ABS(d) + 1)", "LN(ABS(d) + 1)", "SQRT(ABS(d))", "CAST(CAST(ts AS VARCHAR) AS TIMESTAMP)"),
    *(
        "CAST('2020-01-02' AS DATE)",
        "CAST(CAST(CAST(ts AS DATE) AS VARCHAR) AS DATE)",
        "SUBSTR(g || 'xyz', 2, 2)",
        "LEFT(g || 'xyz', 2)",
    ),
    *(
        f"SUBSTR(g || 'wxyz', {start}, {n})"
        for start in ("x // 37 - 9", "-3", "0", "2")
        for n in ("x % 7 - 3", "-2", "3")
    ),
    *("SUBSTR(g || 'wxyz', x // 37 - 9)", "SUBSTR(g || 'wxyz', -3)", "SUBSTR(g || 'wxyz', NULLIF(x, 17), 2)"),
    *(
        f"{side}(g || 'wxyz', {n})"
        for side in ("LEFT", "RIGHT")
        for n in ("x // 37 - 9", "-2", "-9", "0", "NULLIF(x, 17)")
    ),
    *("c / 3", "RIGHT(g || 'xyz', 2)", "REGEXP_REPLACE(g || 'aba', '[ab]', '-', 'g')"),
    *("EXTRACT(second FROM ts)", "CAST(d AS VARCHAR) || CAST(ROUND(d) AS VARCHAR)"),
    "CASE WHEN ROUND(d) > 2 THEN 'big' ELSE CAST(ROUND(d, 2) AS VARCHAR) END",
)
AGGREGATES = ("ROUND(AVG(d), 2)", "CAST(AVG(x) AS VARCHAR)", "SUM(ROUND(d))", "STRING_AGG(d, ',' ORDER BY ts)")
QUERIES = {
    "scalars": f"SELECT x AS id, {', '.join(f'{e} AS e{n}' for n, e in enumerate(EXPRESSIONS))} FROM m[i]",
    "totals": f"""SELECT g, {", ".join(f"{e} AS e{n}" for n, e in enumerate(AGGREGATES))} FROM m[i]
        WHERE ABS(d) < 1e9 GROUP BY g""",
    "joined": "SELECT * FROM m[i] NATURAL JOIN n[i]",
    "using": "SELECT * FROM (SELECT d, x FROM m[i]) AS a JOIN (SELECT x, y FROM n[i]) AS b USING (x)",
    "full": """WITH a AS (SELECT c, x FROM m[i]), b AS (SELECT x, y FROM n[i])
        SELECT * FROM (SELECT * FROM a FULL JOIN b USING (x)) AS both_sides""",
    "some": "SELECT * EXCLUDE (d, c) REPLACE (x + 1 AS x) FROM m[i]",
    "alias": "SELECT g AS k, ROUND(SUM(x)) AS s, s * 2 AS t FROM m[i] GROUP BY k HAVING s > 1 AND t > 2",
    "all_groups": """SELECT a.g, b.y % 2 AS odd, 'c' AS c, COUNT(*) AS n, SUM(a.x) AS x FROM m[i] AS a JOIN n[i] AS b
        ON a.x = b.x GROUP BY ALL HAVING n > 0 AND g < 'c'""",
    "all_columns": "SELECT *, COUNT(*) AS n FROM (SELECT g, x FROM m[i]) AS a GROUP BY ALL HAVING n < 9",
    "nested": """SELECT g, MAX(n) AS most FROM (SELECT g, x % 3 AS r, COUNT(*) AS n FROM m[i] GROUP BY ALL
        HAVING n > 1) AS inner_ GROUP BY g HAVING most > (SELECT MIN(y) FROM n[i])""",
    "where_alias": "SELECT x + 1 AS z, g FROM m[i] WHERE z > 3",
    "renamed": "SELECT m.* RENAME (x AS z) FROM m[i]",
}


def values(db: viewlet.Connection, name: str) -> list[str]:
    rows = db.view(name).rows()
    return sorted(repr([float(f"{x:.14g}") if isinstance(x, float) else x for x in row]) for row in rows)


def check_meanings(db: viewlet.Connection) -> None:
    """Compares a database on some host with one in memory."""
    both = (db, viewlet.connect())
    for each in both:
        each.execute(
            "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT, d DOUBLE, c DECIMAL(12,3)) "
            "PARTITION LENGTH 86400 BY ts"
        )
        each.execute("CREATE STREAM n (at TIMESTAMP, x BIGINT, y BIGINT) PARTITION LENGTH 86400 BY at")
        for name, query in QUERIES.items():
            each.stream_view(name, initialize=query, start="2015-01-01")
        rows = [
            (at(86400 * (n % 2) + n + 0.7), "ab"[n % 2], 37 * n - 20, d, Decimal(1500 * n - 2500) / 1000)
            for n, d in enumerate(DOUBLES)
        ]
        each.insert("m", rows)
        each.insert("n", [(at(n), 37 * n - 20, n) for n in range(1, 30, 3)])
        for stream in "mn":
            each.close_parts(stream, at(3 * 86400))
    for name in QUERIES:
        assert both[0].view(name).columns == both[1].view(name).columns
        assert values(both[0], name) == values(both[1], name), name
        assert values(both[0], name)


def check_refusals(db: viewlet.Connection) -> None:
    """What the host cannot run is refused when it is declared, and what nobody can read when it is computed."""
    db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x DOUBLE, r REAL) PARTITION LENGTH 60 BY ts")
    others = (
        "FORMAT('{}', MIN(x))",
        "MIN(g) SIMILAR TO 'a.*'",
        "CAST('epoch' AS DATE)",
        "TIMESTAMP 'infinity'",
        "SUM(CAST(x AS DECIMAL(9,2))) // 2",
    )
    for term in ("ENTROPY(x)", "CAST(MIN(r) AS VARCHAR)", "MEDIAN(CAST(x AS DECIMAL(9,2)))", *others):
        with pytest.raises(UnsupportedError, match="host"):
            db.stream_view("v", initialize=f"SELECT g, {term} AS y FROM m[i] GROUP BY g")
        with pytest.raises(UnsupportedError, match="host"):
            db.execute(f"CREATE VIEW v AS SELECT g, {term} AS y FROM m [WINDOW 3 MINUTES] GROUP BY g")
    assert not db.views
    wrong = {
        "CAST('inf' AS DOUBLE)": "nobody can read",
        "TIMESTAMP '9999-12-31' + INTERVAL 3 DAY": "nobody can read",
        "CAST(REPLACE(g, 'a', 'now') AS DATE)": "is not like|cannot be cast|CAST_INVALID_INPUT",
        "CAST('n' || 'ow' AS DATE)": "is not like|cannot be cast|invalid date",
        "CAST(CONCAT('to', 'day') AS TIMESTAMP)": "is not like|cannot be cast|invalid timestamp",
        "LN(5 - x)": "logarithm",
        "SQRT(5 - x)": "square root",
    }
    for number, (term, reason) in enumerate(wrong.items()):
        db.stream_view("v", initialize=f"SELECT g, CASE WHEN x > 5 THEN {term} END AS y FROM m[i]")
        minute = 5 * number
        db.insert("m", [(at(60 * minute), "a", 1.0, 1.0), (at(60 * minute + 60), "a", 9.0, 1.0)])
        with pytest.raises(DataError, match=reason):
            db.insert("m", [(at(60 * minute + 120), "a", 1.0, 1.0)])
        db.delete("m", [(at(60 * minute + 60), "a", 9.0, 1.0)])
        db.insert("m", [(at(60 * minute + 120), "a", 1.0, 1.0)])
        assert ("a", None, at(60 * minute)) in db.view("v").rows()
        db.execute("DROP VIEW v")
