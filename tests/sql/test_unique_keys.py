"""ON CONFLICT and INSERT OR ... over UNIQUE constraints as over primary keys, and CREATE OR REPLACE TABLE."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.errors import ConstraintError, SchemaError, SqlError, UnsupportedError, ViewletError

TABLES = """
    CREATE TABLE two (i INTEGER PRIMARY KEY, j INTEGER UNIQUE, k INTEGER);
    CREATE TABLE one (i INTEGER, j VARCHAR, k INTEGER, UNIQUE (i, j));
"""


def statement(chance: random.Random) -> str:
    table = chance.choice(["two", "one"])
    count = chance.choice((1, 1, 3)) if table == "one" else 1  # of several that conflict DuckDB takes any
    none = ("NULL",) if count == 1 else ()  # of several rows with NULL in a key DuckDB takes one, and SQL all
    first = "012345" if table == "two" else (*none, "0", "1")
    second = (*none, "1", "2", "3") if table == "two" else (*none, "'a'", "''")
    values = [(chance.choice(first), chance.choice(second), str(chance.randrange(9))) for _ in range(count)]
    rows = ", ".join(f"({', '.join(row)})" for row in values)
    few = f"({chance.randrange(2)}, 'a', {chance.randrange(9)})"
    target = chance.choice(["(i)", "(j)"]) if table == "two" else chance.choice(["(i, j)", "(j, i)", ""])
    return chance.choice(
        [
            f"INSERT INTO {table} VALUES {rows} ON CONFLICT DO NOTHING",
            f"INSERT OR IGNORE INTO {table} VALUES {rows}",
            f"INSERT INTO {table} VALUES {rows} ON CONFLICT {target} DO NOTHING",
            f"INSERT INTO {table} VALUES {rows} ON CONFLICT {target} DO UPDATE SET k = excluded.k + {table}.k"
            if count == 1
            else "DELETE FROM one WHERE i IS NULL",
            f"INSERT INTO one VALUES {few} ON CONFLICT DO UPDATE SET k = excluded.k",
            f"INSERT OR REPLACE INTO one VALUES {few}",
            f"DELETE FROM {table} WHERE k > {chance.randrange(9)}",
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_conflicts(seed: int) -> None:
    """A statement of one new row, or of several that DuckDB accepts, leaves what it leaves there."""
    chance, oracle, done, refused = random.Random(seed), duckdb.connect(), 0, 0
    db = viewlet.connect()
    for each in (oracle, db):
        each.execute(TABLES)
    for _ in range(150):
        sql = statement(chance)
        try:
            oracle.execute(sql)
        except duckdb.Error:
            refused += 1
            with pytest.raises(ViewletError):
                db.execute(sql)
        else:
            done += 1
            db.execute(sql)
        for name in ("two", "one"):
            expected = sorted(oracle.execute(f"FROM {name}").fetchall(), key=repr)
            assert sorted(db.table(name).rows(), key=repr) == expected, sql
    assert done > 80
    assert refused > 2


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("INSERT INTO two VALUES (1, 1, 1) ON CONFLICT (k) DO NOTHING", r"rows conflict by \(i\) or \(j\)"),
        ("INSERT INTO two VALUES (1, 1, 1) ON CONFLICT DO UPDATE SET k = 1", "several keys: say which"),
        ("INSERT OR REPLACE INTO two VALUES (1, 1, 1)", "several keys: say which"),
    ],
)
def test_refusals(sql: str, message: str) -> None:
    db = viewlet.connect()
    db.execute(TABLES)
    with pytest.raises(SqlError, match=message):
        db.execute(sql)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_table_is_replaced_under_a_view(engine: str, tmp_path: Any) -> None:
    told: list[Any] = []
    with viewlet.connect(tmp_path, engine=engine) as db:
        db.execute("CREATE OR REPLACE TABLE t (i INTEGER PRIMARY KEY, j INTEGER UNIQUE, CHECK (i > 0),)")
        db.execute("INSERT INTO t VALUES (1, 2), (2, 3),")
        db.execute("CREATE VIEW v AS SELECT COUNT(*) AS n, SUM(i) AS i FROM t")
        db.view("v").subscribe(lambda epoch, changes: told.extend(changes.to_pylist()))
        db.execute("CREATE OR REPLACE TABLE t AS SELECT i * 10 AS i, 'x' AS s FROM t")
        assert (sorted(db.table("t").rows()), db.view("v").rows()) == ([(10, "x"), (20, "x")], [(2, 30)])
        assert told == [{"n": 2, "i": 3, "_multiplicity": -1}, {"n": 2, "i": 30, "_multiplicity": 1}]
        db.insert("t", [(-1, "y"), (-1, "y")])  # the constraints went with the table
        with pytest.raises(SchemaError, match="view 'v' would no longer fit 't': column 'i'"):
            db.execute("CREATE OR REPLACE TABLE t (j INTEGER)")
        db.execute("CREATE OR REPLACE TABLE t (i INTEGER UNIQUE)")
        db.insert("t", [(5,)])
        with pytest.raises(ConstraintError, match=r"breaks UNIQUE \(i\)"):
            db.insert("t", [(5,)])
        db.execute("INSERT INTO t VALUES (5) ON CONFLICT DO NOTHING; ALTER TABLE t DROP CONSTRAINT t_i_key")
        with pytest.raises(SqlError, match="no PRIMARY KEY or UNIQUE"):
            db.execute("INSERT INTO t VALUES (5) ON CONFLICT DO NOTHING")
        db.execute("CREATE STREAM s (a INTEGER)")
        for sql in ("CREATE OR REPLACE TABLE s (a INTEGER)", "CREATE OR REPLACE STREAM s (a INTEGER)"):
            with pytest.raises((SchemaError, UnsupportedError), match="DROP it first"):
                db.execute(sql)
    with viewlet.connect(tmp_path) as db:
        assert (db.table("t").rows(), db.view("v").rows()) == ([(5,)], [(1, 5)])


def test_a_check_is_about_one_row() -> None:
    db = viewlet.connect()
    for condition in ("i > (SELECT 42)", "i > SUM(j)", "i > 2 * (SELECT (1))"):
        with pytest.raises(SqlError, match="about one row"):
            db.execute(f"CREATE TABLE t (i INTEGER CHECK ({condition}), j INTEGER)")
    db.execute("CREATE TABLE t (i INTEGER CHECK (t.i + j < 10), j INTEGER); INSERT INTO t VALUES (3, 3), (NULL, 99)")
    with pytest.raises(ConstraintError):
        db.execute("INSERT INTO t VALUES (1, 1), (5, 5)")


def test_of_new_rows_the_first_stands() -> None:
    db = viewlet.connect()
    db.execute(TABLES)
    db.execute("INSERT INTO two VALUES (1, 1, 0)")
    new = "(1, 5, 1), (4, 2, 2), (5, 2, 3), (5, 3, 4), (6, NULL, 5), (7, NULL, 6), (4, 9, 7), (8, 5, 8)"
    assert db.execute(f"INSERT INTO two VALUES {new} ON CONFLICT DO NOTHING") == 5
    expected = [(1, 1, 0), (4, 2, 2), (5, 3, 4), (6, None, 5), (7, None, 6), (8, 5, 8)]
    assert sorted(db.table("two").rows(), key=repr) == expected
    db.execute("INSERT INTO one VALUES (1, NULL, 1), (1, NULL, 2) ON CONFLICT DO NOTHING")  # NULLs are not equal
    assert sorted(row[2] for row in db.table("one").rows()) == [1, 2]
