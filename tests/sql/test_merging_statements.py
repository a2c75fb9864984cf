"""Statements that insert, replace and delete at once leave what they leave in DuckDB, whatever the rows are."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import viewlet
from tests.sql.hosts import ordered
from viewlet.errors import DataError, SqlError, UnsupportedError, ViewletError

TABLES = """
    CREATE TABLE t (k BIGINT, g VARCHAR, v BIGINT, x DECIMAL(8,2), PRIMARY KEY (k, g));
    CREATE TABLE s (k BIGINT, g VARCHAR, v BIGINT);
"""
VIEW = "SELECT g, SUM(v) AS v, SUM(x) AS x, COUNT(*) AS n, MAX(k) AS k FROM t GROUP BY g"


def rows(chance: random.Random, distinct: bool = False) -> str:
    found = {
        (chance.randrange(6), chance.choice(["'a'", "'b'", "''"])): chance.choice(["NULL", str(chance.randrange(9))])
        for _ in range(chance.randrange(1, 6))
    }
    listed = [f"({k}, {g}, {v})" for (k, g), v in found.items()]
    return ", ".join(listed if distinct else [*listed, *chance.sample(listed, 1)])


def condition(chance: random.Random, *names: str) -> str:
    return chance.choice(
        [f"{chance.choice(names)} > {chance.randrange(6)}", f"{chance.choice(names)} IS NULL", "TRUE", "NULL"]
    )


def value(chance: random.Random, *names: str) -> str:
    name = chance.choice(names)
    return chance.choice([name, f"{name} + 1", f"coalesce({name}, 7)", "NULL", "3", f"-{name}"])


def insert(chance: random.Random) -> str:
    way = chance.choice(["OR REPLACE ", "OR IGNORE ", ""])
    head = f"INSERT {way}INTO t AS q (k, g, v) VALUES {rows(chance, distinct=True)}"
    if way:
        return head.replace(" AS q", "")
    if chance.random() < 0.3:
        return f"{head} ON CONFLICT DO NOTHING"
    set_x = f", x = {value(chance, 'x', 'excluded.v', 'q.v')}" if chance.random() < 0.5 else ""
    where = f" WHERE {condition(chance, 'q.v', 'excluded.v', 'x')}" if chance.random() < 0.5 else ""
    return f"{head} ON CONFLICT (g, k) DO UPDATE SET v = {value(chance, 'v', 'excluded.v', 'q.v')}{set_x}{where}"


def merge(chance: random.Random) -> str:
    source = "(SELECT k, g, MAX(v) AS v FROM s GROUP BY k, g) AS s"
    clauses = []
    for _ in range(chance.randrange(1, 4)):
        only = f" AND {condition(chance, 't.v', 's.v', 't.x')}" if chance.random() < 0.6 else ""
        done = chance.choice([f"UPDATE SET v = {value(chance, 't.v', 's.v')}", "DELETE", "DO NOTHING"])
        clauses.append(f"WHEN MATCHED{only} THEN {done}")
    for _ in range(chance.randrange(3)):
        only = f" AND {condition(chance, 's.v', 's.k')}" if chance.random() < 0.6 else ""
        done = chance.choice([f"INSERT (g, k, x) VALUES (s.g, s.k, {value(chance, 's.v')})", "DO NOTHING"])
        clauses.append(f"WHEN NOT MATCHED{only} THEN {done}")
    if chance.random() < 0.5:
        only = f" AND {condition(chance, 't.v', 't.x')}" if chance.random() < 0.7 else ""
        done = chance.choice([f"UPDATE SET x = {value(chance, 't.x', 't.v')}", "DELETE"])
        clauses.append(f"WHEN NOT MATCHED BY SOURCE{only} THEN {done}")
    return f"MERGE INTO t USING {source} ON t.k = s.k AND t.g = s.g {' '.join(clauses)}"


def update(chance: random.Random) -> str:
    source = "(SELECT k, MAX(v) AS v FROM s GROUP BY k) AS m"
    where = condition(chance, "m.v", "t.x")
    return f"UPDATE t SET v = {value(chance, 'm.v', 't.v')} FROM {source} WHERE t.k = m.k AND {where}"


def delete(chance: random.Random) -> str:
    return f"DELETE FROM t USING s WHERE t.k = s.k AND {condition(chance, 's.v', 't.v')}"


def other(chance: random.Random) -> str:
    fresh = chance.randrange(100, 10**6)
    return chance.choice(
        [
            f"INSERT INTO s VALUES {rows(chance)}",
            f"DELETE FROM s WHERE {condition(chance, 'v', 'k')}",
            f"INSERT INTO t BY NAME SELECT 'c' AS g, {fresh} AS k",
            f"WITH z AS (SELECT {fresh} AS k) INSERT INTO t (k, g) SELECT k, 'w' FROM z",
            "UPDATE t SET (v, x) = (v + 1, 2.5) WHERE g = 'a'",
            "UPDATE t SET v = DEFAULT WHERE k = 3",
            "TRUNCATE t" if chance.random() < 0.2 else "TRUNCATE TABLE s",
        ]
    )


REFUSALS = (duckdb.ConstraintException, duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.ParserException)
STATEMENTS: list[Callable[[random.Random], str]] = [insert, insert, merge, merge, update, delete, other, other]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("seed", range(4))
def test_random_statements(seed: int, engine: str, tmp_path: Path) -> None:
    chance, oracle = random.Random(seed), duckdb.connect()
    db = viewlet.connect(tmp_path / "d" if seed % 2 else None, engine=engine)
    oracle.execute(TABLES)
    db.execute(TABLES)
    db.execute(f"CREATE MATERIALIZED VIEW w AS {VIEW}")
    done = 0
    for _ in range(120):
        sql = chance.choice(STATEMENTS)(chance)
        returns = f" RETURNING {'merge_action, ' if sql.startswith('MERGE') else ''}k, v" * (chance.random() < 0.3)
        is_plain = sql.startswith("TRUNCATE")
        try:
            expected: Any = oracle.execute(sql + returns * (not is_plain)).fetchall()
        except (
            duckdb.ConstraintException,
            duckdb.ConversionException,
            duckdb.OutOfRangeException,
            duckdb.ParserException,
        ):
            with pytest.raises(ViewletError):
                db.execute(sql)
            continue
        answer = db.execute(sql + returns * (not is_plain))
        done += 1
        if returns and not is_plain:
            assert ordered(map(tuple, (row.values() for row in answer.to_pylist()))) == ordered(expected), sql
        elif "DO NOTHING" not in sql and not sql.startswith(("MERGE", "TRUNCATE")):
            assert [(answer,)] == expected, sql
        assert ordered(db.table("t").rows()) == ordered(oracle.execute("SELECT * FROM t").fetchall()), sql
        assert ordered(db.view("w").rows()) == ordered(oracle.execute(VIEW).fetchall()), sql
    assert done > 90


@pytest.fixture
def db() -> viewlet.Connection:
    made = viewlet.connect(engine="interpreter")
    made.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); CREATE TABLE bag (a BIGINT, b BIGINT)")
    made.apply({"t": [(1, 10), (2, 20)], "bag": [(1, 1), (1, 1), (2, 2)]})
    return made


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("INSERT INTO t VALUES (1, 1), (1, 2) ON CONFLICT DO UPDATE SET v = 1", SqlError, "two rows of the statement"),
        ("MERGE INTO t USING bag ON k = a WHEN MATCHED THEN DELETE", SqlError, "two rows of the statement"),
        ("INSERT INTO bag VALUES (1, 1) ON CONFLICT DO NOTHING", SqlError, "no PRIMARY KEY or UNIQUE"),
        ("INSERT OR REPLACE INTO bag VALUES (1, 1)", SqlError, "no PRIMARY KEY"),
        ("INSERT INTO t VALUES (1, 1) ON CONFLICT (v) DO NOTHING", SqlError, r"rows conflict by \(k\)"),
        ("INSERT INTO t VALUES (1, 1) ON CONFLICT (nobody) DO NOTHING", SqlError, "nobody"),
        ("INSERT INTO t VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET nobody = 1", SqlError, "nobody"),
        ("INSERT OR REPLACE INTO t VALUES (NULL, 1)", DataError, "NULL is refused"),
        ("INSERT INTO t BY NAME SELECT * FROM bag", SqlError, "'a'"),
        ("INSERT INTO t BY NAME SELECT * FROM bag JOIN bag AS other USING (a)", UnsupportedError, "name its columns"),
        ("INSERT INTO t BY NAME SELECT 1 AS nobody", SqlError, "nobody"),
        ("UPDATE t SET v = nobody FROM bag", SqlError, "nobody"),
        ("DELETE FROM t USING nobody WHERE t.k = nobody.k", SqlError, "nobody"),
        ("MERGE INTO nobody USING bag ON TRUE WHEN MATCHED THEN DELETE", SqlError, "nobody"),
        ("MERGE INTO t USING bag ON k = a WHEN NOT MATCHED THEN DELETE", UnsupportedError, "DELETE"),
        ("MERGE INTO t USING bag ON k = a WHEN MATCHED THEN INSERT VALUES (1, 2)", UnsupportedError, "INSERT"),
        ("MERGE INTO t USING bag ON k = a WHEN NOT MATCHED THEN INSERT (k) VALUES (1, 2)", SqlError, "2 values"),
        (
            "MERGE INTO t USING bag ON TRUE WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
            SqlError,
            "no row reaches",
        ),
        ("TRUNCATE t, bag", UnsupportedError, "several tables"),
        ("TRUNCATE nobody", SqlError, "nobody"),
        ("UPDATE t SET k = 2 WHERE k = 1", DataError, "duplicate key"),
        ("INSERT INTO t VALUES (3, 1) RETURNING nobody", SqlError, "nobody"),
    ],
)
def test_what_is_refused(sql: str, error: type[Exception], message: str, db: viewlet.Connection) -> None:
    with pytest.raises(error, match=message):
        db.execute(sql)
    assert db.table("t").rows() == [(1, 10), (2, 20)] or "RETURNING" in sql


INCOMING = "(VALUES (7, 1), (8, 3)) AS s(v, k)"
MERGED = f"MERGE INTO t USING {INCOMING} ON t.k = s.k"
AS_IN_DUCKDB = [
    f"{MERGED} WHEN NOT MATCHED THEN INSERT *",
    f"{MERGED} WHEN NOT MATCHED THEN INSERT",
    f"{MERGED} WHEN NOT MATCHED THEN INSERT BY NAME",
    f"{MERGED} WHEN NOT MATCHED THEN INSERT BY POSITION",
    f"{MERGED} WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
    f"{MERGED} WHEN NOT MATCHED THEN INSERT VALUES (s.k, DEFAULT)",
    f"{MERGED} WHEN MATCHED THEN UPDATE",
    f"{MERGED} WHEN MATCHED THEN UPDATE SET *",
    f"{MERGED} WHEN MATCHED THEN UPDATE BY NAME",
    f"{MERGED} WHEN MATCHED THEN ERROR",
    f"{MERGED} WHEN NOT MATCHED THEN ERROR",
    f"{MERGED} WHEN MATCHED AND s.v > 7 THEN ERROR",
    f"{MERGED} WHEN NOT MATCHED BY SOURCE THEN ERROR",
    f"MERGE INTO t USING (SELECT * FROM {INCOMING}) AS u(a, b) ON k = b WHEN NOT MATCHED THEN INSERT *",
    "WITH s AS (SELECT 4 AS k, a, 5 AS b FROM bag) MERGE INTO t USING s ON FALSE WHEN NOT MATCHED THEN INSERT *",
    "WITH s AS (SELECT 4 AS v, 9 AS k) MERGE INTO t USING s ON FALSE WHEN NOT MATCHED THEN INSERT BY NAME",
    "MERGE INTO t USING bag ON k = a WHEN NOT MATCHED THEN INSERT BY NAME",
    "INSERT INTO t BY NAME SELECT * FROM range(5, 8) AS r(k)",
    f"INSERT INTO t BY NAME SELECT * FROM {INCOMING} WHERE k > 1",
    "INSERT INTO t BY POSITION SELECT 4 AS v, 9 AS k",
    "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (4, 9)",
    "INSERT INTO t (k) DEFAULT VALUES",
    "INSERT OR REPLACE INTO t VALUES (1, 1) ON CONFLICT DO NOTHING",
    "UPDATE t SET (v) = 3",
    "UPDATE t SET (k, v) = ROW(k + 10, v)",
    "UPDATE bag SET (a, b) = a + b",
    "UPDATE bag SET bag.a = 3",
    "DELETE FROM t AS",
    "INSERT INTO t VALUES (4, 9) RETURNING max(k)",
    "INSERT INTO t VALUES (4, 9) RETURNING row_number() OVER ()",
    "CREATE UNIQUE INDEX i ON t (v); INSERT INTO t VALUES (4, 10)",
    "CREATE UNIQUE INDEX i ON t (v); INSERT INTO t VALUES (4, 10) ON CONFLICT (v) DO UPDATE SET v = 11",
    "CREATE UNIQUE INDEX i ON t (v); DROP INDEX i; INSERT INTO t VALUES (4, 10)",
    "CREATE UNIQUE INDEX i ON t (v); CREATE UNIQUE INDEX IF NOT EXISTS i ON t (v)",
    "CREATE UNIQUE INDEX i ON bag (a)",
    "CREATE TABLE u AS SELECT k, v AS k, v AS K, 5 AS k_1 FROM t; INSERT INTO t SELECT k + 5, k_1_1 FROM u",
    "CREATE OR REPLACE TABLE IF NOT EXISTS t (i INTEGER)",
    "CREATE TABLE u (i INTEGER DEFAULT sum(3))",
    "CREATE TABLE u (i INTEGER CONSTRAINT a CONSTRAINT b CHECK (i > 0))",
    "PREPARE p AS INSERT INTO t VALUES ($1+$2, $1-$2); EXECUTE p(9, 2)",
]


@pytest.mark.parametrize("sql", AS_IN_DUCKDB)
def test_statements_do_what_they_do_in_duckdb(sql: str, db: viewlet.Connection) -> None:
    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); CREATE TABLE bag (a BIGINT, b BIGINT)")
    oracle.execute("INSERT INTO t VALUES (1, 10), (2, 20); INSERT INTO bag VALUES (1, 1), (1, 1), (2, 2)")
    try:
        oracle.execute(sql)
    except duckdb.Error:
        with pytest.raises(ViewletError):
            db.execute(sql)
    else:
        db.execute(sql)
    for name in ("t", "bag"):
        assert ordered(db.table(name).rows()) == ordered(oracle.execute(f"FROM {name}").fetchall())


@pytest.mark.parametrize("star", ["*", "t.*"])
def test_returning_every_column(star: str, db: viewlet.Connection) -> None:
    insert = "INSERT INTO t VALUES (1, 5), (3, 6) ON CONFLICT DO UPDATE SET v = excluded.v"
    merge = "MERGE INTO t USING bag ON k = a AND b = 2 WHEN MATCHED THEN UPDATE SET v = 0"
    for sql, expected in ((insert, [(1, 5), (3, 6)]), (merge, [(2, 0)])):
        answer = db.execute(f"{sql} RETURNING {star}")
        assert answer.column_names == ["k", "v"]
        assert ordered(row.values() for row in answer.to_pylist()) == expected


def test_equal_rows_are_changed_one_by_one(db: viewlet.Connection) -> None:
    assert db.execute("UPDATE bag SET b = t.v FROM t WHERE t.k = bag.a") == 3
    assert sorted(db.table("bag").rows()) == [(1, 10), (1, 10), (2, 20)]
    assert db.execute("DELETE FROM bag USING t WHERE a = k AND t.v = 10") == 2


def test_names_that_statements_use_themselves() -> None:
    db = viewlet.connect()
    columns = ["row number", "merge_action", "place", "changed row", "old 0", "excluded", "action"]
    listed = ", ".join(f'"{name}" BIGINT' for name in columns)
    db.execute(f'CREATE TABLE "new rows" ({listed}, PRIMARY KEY ("row number"))')
    db.execute('INSERT INTO "new rows" VALUES (1, 2, 3, 4, 5, 6, 7), (2, 0, 0, 0, 0, 0, 0)')
    db.execute('INSERT OR REPLACE INTO "new rows" VALUES (1, 9, 9, 9, 9, 9, 9)')
    db.execute('UPDATE "new rows" AS a SET "place" = 5 FROM (SELECT 2 AS k) AS b WHERE a."row number" = b.k')
    db.execute(
        'MERGE INTO "new rows" AS a USING (SELECT 1 AS k) AS b ON a."row number" = b.k'
        " WHEN MATCHED THEN UPDATE SET action = 1"
    )
    assert sorted(db.table("new rows").rows()) == [(1, 9, 9, 9, 9, 9, 1), (2, 0, 5, 0, 0, 0, 0)]


def test_only_rows_with_the_keys_of_new_ones_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    db, whole = viewlet.connect(engine="compiled"), list[str]()
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
    db.insert("t", pa.table({"k": range(100_000), "v": range(100_000)}))
    database = type(db._session._database)
    read = database.arrow
    monkeypatch.setattr(database, "arrow", lambda self, name: whole.append(name) or read(self, name))
    assert db.execute("INSERT OR REPLACE INTO t VALUES (2, 5), (-3, 6)") == 2
    added = "INSERT INTO t VALUES (-3, 1) ON CONFLICT DO UPDATE SET v = t.v + excluded.v RETURNING v"
    assert db.execute(added)["v"].to_pylist() == [7]
    assert not whole
    assert db.execute("SELECT v FROM t WHERE k IN (2, -3) ORDER BY k")["v"].to_pylist() == [7, 5]


@pytest.mark.parametrize("query", ["SELECT * FROM wide", "FROM wide", "SELECT x FROM a UNION ALL SELECT x FROM a"])
def test_rows_of_another_width_are_refused(query: str) -> None:
    """A list of columns may be shorter than the rows in SQL, and an INSERT may not."""
    with viewlet.connect() as db:
        db.execute(
            "CREATE TABLE a (x INTEGER); CREATE TABLE wide (x INTEGER, y INTEGER); INSERT INTO wide VALUES (1, 2)"
        )
        with pytest.raises(SqlError, match="more or fewer columns"):
            db.execute(f"INSERT INTO {'wide' if 'UNION' in query else 'a'} {query}")
        assert len(db.table("a")) == 0
        assert db.execute("INSERT INTO wide SELECT * FROM wide") == 1
