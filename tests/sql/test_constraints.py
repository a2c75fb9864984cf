"""DEFAULT, CHECK, UNIQUE and FOREIGN KEY: on every host, under random statements, and after a restart."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import viewlet
from tests.sql.hosts import HOSTS, Open, opener, ordered
from viewlet.errors import DataError, SchemaError, SqlError, UnsupportedError, ViewletError

TABLES = """
    CREATE TABLE p (k INTEGER PRIMARY KEY, "n Ä" VARCHAR UNIQUE, x INTEGER DEFAULT 3 + 1, CHECK (x > 0 OR x < -5));
    CREATE TABLE c (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p (k), q DOUBLE, s DECIMAL(4,1) DEFAULT 0.5,
                    CONSTRAINT pairs UNIQUE (p, q), CHECK (q <> s), parent INTEGER REFERENCES c (id))
"""


@pytest.fixture(params=HOSTS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return opener(request.param, tmp_path)


@pytest.fixture
def db(opened: Open) -> Iterator[Any]:
    with opened() as made:
        yield made


def statement(chance: random.Random) -> str:
    k, p = chance.randrange(6), chance.choice(["NULL", *map(str, range(6))])
    x, n = chance.choice(["NULL", "DEFAULT", "-7", "-5", "0", "2"]), chance.choice(["NULL", "'a'", "''", "'b'"])
    q = chance.choice(["NULL", "0.5", "-0.0", "0.0", "1e300"])
    return chance.choice(
        [
            f"INSERT INTO p VALUES ({k}, {n}, {x}), ({k + 6}, NULL, DEFAULT)",
            f"INSERT INTO p (k) VALUES ({k})",
            f'INSERT INTO p BY NAME SELECT {k} AS k, {n} AS "n Ä"',
            f"INSERT INTO c (id, p, q, parent) VALUES ({k}, {p}, {q}, NULL)",
            f"INSERT INTO c (id, p, q, parent) VALUES ({k}, {p}, {q}, {p}), ({k + 6}, {p}, {q}, {k})",
            f"INSERT INTO c VALUES ({k}, {p}, {q}, DEFAULT, {k})",
            f"UPDATE p SET x = {x} WHERE k = {k}",
            f"UPDATE c SET s = {chance.choice(['DEFAULT', '1.5', 'NULL'])} WHERE id >= {k}",
            f"DELETE FROM p WHERE k = {k}",
            f"DELETE FROM c WHERE id = {k}",
            f"DELETE FROM c WHERE id <> {k}",
        ]
    )


PLAIN = """
    CREATE TABLE p (k INTEGER PRIMARY KEY, "n Ä" VARCHAR, x INTEGER DEFAULT 3 + 1);
    CREATE TABLE c (id INTEGER PRIMARY KEY, p INTEGER, q DOUBLE, s DECIMAL(4,1) DEFAULT 0.5, parent INTEGER)
"""
"""DuckDB refuses some statements that leave every constraint true, so its constraints are no oracle; these are."""


def is_sound(p: list[Any], c: list[Any]) -> bool:
    keys, ids = {row[0] for row in p} | {None}, {row[0] for row in c} | {None}
    names = [n for _, n, _ in p if n is not None]
    pairs = [(row[1], row[2]) for row in c if row[1] is not None and row[2] is not None]
    return (
        len(set(names)) == len(names)
        and len(set(pairs)) == len(pairs)
        and all(x is None or x > 0 or x < -5 for _, _, x in p)
        and all(q is None or s is None or q != s for _, _, q, s, _ in c)
        and all(row[1] in keys and row[4] in ids for row in c)
    )


@pytest.mark.parametrize("seed", range(2))
def test_random_statements(opened: Open, seed: int) -> None:
    chance, oracle, done, refused = random.Random(seed), duckdb.connect(), 0, 0
    db = opened()
    db.execute(TABLES)
    oracle.execute(PLAIN)
    for step in range(100):
        sql, before = statement(chance), [oracle.execute(f"FROM {name}").fetchall() for name in "pc"]
        oracle.execute("BEGIN")
        try:
            oracle.execute(sql)
            after = [oracle.execute(f"FROM {name}").fetchall() for name in "pc"]
        except duckdb.ConstraintException:
            after = None
        if after is not None and is_sound(*after):
            oracle.execute("COMMIT")
            done += 1
            db.execute(sql)
        else:
            oracle.execute("ROLLBACK")
            refused += 1
            with pytest.raises(DataError):
                db.execute(sql)
            after = before
        for name, rows in zip("pc", after, strict=True):
            assert ordered(db.table(name).rows()) == ordered(rows), sql
        if step % 40 == 39 and "durability" in db.stats():
            db.close()
            db = opened()
    assert min(done, refused) > 20
    db.close()


def test_a_batch_is_checked_as_a_whole(db: Any) -> None:
    db.execute(TABLES)
    db.apply({"c": [(1, 7, 2.0, 0, 2), (2, None, 2.0, 0, 1)], "p": [(7, "a", 1)]})
    with pytest.raises(DataError, match=r"c: \(p=7\) breaks FOREIGN KEY \(p\) REFERENCES p \(k\)"):
        db.delete("p", keys=[7])
    with pytest.raises(DataError, match=r"p: \(k=8, n Ä=None, x=-3\) breaks CHECK"):
        db.insert("p", [(8, None, -3)])
    with pytest.raises(DataError, match=r"c: \(p=7, q=2.0\) breaks UNIQUE \(p, q\)"):
        db.insert("c", [(3, 7, 2.0, 0, None)])
    with db.transaction():  # neither order would do alone
        db.delete("p", keys=[7])
        db.insert("p", [(8, "a", 1)])
        db.upsert("c", [(1, 8, 2.0, 0, 2)])
    assert ordered(db.table("p").rows()) == [(8, "a", 1)]
    with pytest.raises(DataError, match="FOREIGN KEY"), db.transaction():
        db.delete("p", keys=[8])
    assert len(db.table("p")) == 1


def test_constraints_are_no_views_of_the_user(db: Any) -> None:
    db.execute(TABLES)
    assert db.views == ()
    assert db.execute("SHOW VIEWS").num_rows == 0
    assert db.execute("SHOW TABLES")["name"].to_pylist() == ["c", "p"]
    with pytest.raises(SchemaError, match="'pairs' is a constraint of 'c', and not a view"):
        db.execute("DROP VIEW pairs")
    with pytest.raises(SchemaError, match="'c_p_fkey' reads it"):
        db.execute("DROP TABLE p")
    db.execute("DROP TABLE c; DROP TABLE p; CREATE TABLE p (k INTEGER)")
    db.insert("p", [(1,), (1,)])


@pytest.mark.parametrize(
    "rows",
    [
        [{"k": 1}, {"k": 2, "X": None}, {"k": 3, "X": 5}],
        pa.table({"k": [1, 2, 3]}),
        pd.DataFrame({"k": [1, 2, 3]}),
    ],
    ids=["dicts", "arrow", "pandas"],
)
def test_rows_without_a_column_have_its_default(db: Any, rows: Any) -> None:
    db.execute("CREATE TABLE t (k INTEGER, x INTEGER DEFAULT 7, at TIMESTAMP DEFAULT now(), r DOUBLE DEFAULT random())")
    db.insert("t", rows)
    made = ordered(db.table("t").rows())
    assert [row[:2] for row in made] == (
        [(1, 7), (2, None), (3, 5)] if isinstance(rows, list) else [(1, 7), (2, 7), (3, 7)]
    )
    assert len({row[3] for row in made}) == 3
    assert all(row[2].year > 2020 for row in made)
    db.execute("INSERT INTO t (k) VALUES (?)", [4])
    db.insert("t", [(5, None, None, None)])
    assert [row[1] for row in ordered(db.table("t").rows())[3:]] == [7, None]


@pytest.mark.parametrize("default", ["localtimestamp", "current_timestamp", "now()", "uuid()", "random() || 'x'"])
def test_a_default_that_is_no_constant_is_computed_for_every_batch(default: str) -> None:
    db = viewlet.connect()
    db.execute(f"CREATE TABLE t (k INTEGER, a VARCHAR DEFAULT {default}, b VARCHAR DEFAULT '(now' || ' uuid()')")
    for k in range(3):
        db.insert("t", [{"k": k}])
    assert len({row[1] for row in db.table("t").rows()}) == 3
    assert {row[2] for row in db.table("t").rows()} == {"(now uuid()"}


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE TABLE t (a INTEGER, CHECK (nobody > 1))", SqlError, "nobody"),
        ("CREATE TABLE t (a INTEGER, UNIQUE (nobody))", SqlError, "nobody"),
        ("CREATE TABLE t (a INTEGER REFERENCES nobody)", SqlError, "nobody"),
        ("CREATE TABLE t (a INTEGER REFERENCES p (nobody))", SqlError, "nobody"),
        ("CREATE TABLE t (a INTEGER, b INTEGER, FOREIGN KEY (a, b) REFERENCES p)", SqlError, "2 columns refer to 1"),
        ("CREATE TABLE t (a INTEGER REFERENCES bag)", SqlError, "no PRIMARY KEY"),
        ("CREATE TABLE t (a INTEGER REFERENCES p ON DELETE CASCADE)", UnsupportedError, "CASCADE"),
        ("CREATE TABLE t (a INTEGER, CHECK (random() > a))", ViewletError, "random"),
        ("CREATE TABLE t (a INTEGER DEFAULT b, b INTEGER)", SqlError, "without columns"),
        ("CREATE TABLE t (a INTEGER, CONSTRAINT x CHECK (a > 1), CONSTRAINT x CHECK (a > 2))", SqlError, "twice"),
        ("CREATE TABLE t (a INTEGER, CONSTRAINT p CHECK (a > 1))", SchemaError, "already a table 'p'"),
    ],
)
def test_refusals(db: Any, sql: str, error: type[Exception], message: str) -> None:
    db.execute("CREATE TABLE p (k INTEGER PRIMARY KEY); CREATE TABLE bag (a INTEGER)")
    with pytest.raises(error, match=message):
        db.execute(sql)
    assert db.tables == ("p", "bag")
    db.execute("CREATE TABLE t (a INTEGER)")
