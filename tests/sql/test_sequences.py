"""Sequences and identity columns: the values are those of DuckDB, and none is given twice, however it ends."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from tests.sql.hosts import HOSTS, opener
from viewlet.errors import DataError, SchemaError, SqlError, UnsupportedError, ViewletError

SCRIPT = """CREATE SEQUENCE s
SELECT nextval('s'), nextval('S')
SELECT currval('s')
CREATE SEQUENCE IF NOT EXISTS s START 100
CREATE TABLE t (a INTEGER DEFAULT nextval('s'), b INTEGER)
INSERT INTO t (b) VALUES (10), (11)
INSERT INTO t VALUES (DEFAULT, 12), (nextval('s') * 100, 13)
INSERT INTO t SELECT nextval('main.s'), b + 10 FROM t WHERE b < 11
UPDATE t SET a = nextval('s') WHERE b = 13
CREATE TABLE c AS SELECT nextval('s') AS n FROM range(3)
ALTER TABLE c ADD COLUMN d INTEGER DEFAULT nextval('s')
CREATE SEQUENCE down INCREMENT BY -3 MINVALUE -7
SELECT nextval('down'), nextval('down'), nextval('down')
CREATE SEQUENCE round MINVALUE 2 MAXVALUE 3 CYCLE
SELECT nextval('round') FROM range(5)
CREATE OR REPLACE SEQUENCE down START 8
SELECT nextval('down')
SELECT nextval('S' || ''), nextval(/* a comment */ 'down'), currval('down')
SELECT nextval(NULL)
CREATE SEQUENCE "Odd ""x"" it's" START WITH 5 INCREMENT 2
SELECT nextval('"Odd ""x"" it''s"') + nextval('"odd ""x"" IT''S"')
SELECT sequence_name, start_value, increment_by, cycle, last_value FROM duckdb_sequences() ORDER BY ALL"""
REFUSED = (
    ("SELECT currval('new')", DataError, "not yet defined"),
    ("SELECT nextval('nope')", SqlError, "nope"),
    ("CREATE SEQUENCE s", SchemaError, "already a sequence"),
    ("CREATE SEQUENCE x INCREMENT 0", SchemaError, "must not be zero"),
    ("CREATE SEQUENCE x START 5 MAXVALUE 3", SchemaError, "START value"),
    ("CREATE TEMP SEQUENCE x", UnsupportedError, "temporary sequence"),
    ("DROP SEQUENCE nope", SchemaError, "no sequence 'nope'"),
    ("DROP SEQUENCE IF EXISTS nope, s", SchemaError, "t.a takes its values"),
    ("DROP SEQUENCE", SqlError, "is expected"),
    ("CREATE TABLE x (a INTEGER DEFAULT 2 * nextval('nope'))", SchemaError, "no sequence 'nope'"),
    ("SELECT nextval('few') FROM range(3)", DataError, "reached maximum"),
    ("INSERT INTO f (b) SELECT 1 FROM range(3)", DataError, "reached maximum"),
    ("CREATE MATERIALIZED VIEW x AS SELECT nextval('s') AS n FROM t", UnsupportedError, "nextval"),
    ("BEGIN; CREATE SEQUENCE x", SchemaError, "in a transaction"),
)


def answer(db: Any, sql: str) -> Any:
    found = db.execute(sql)
    if isinstance(db, viewlet.Connection):
        return [tuple(row.values()) for row in found.to_pylist()] if hasattr(found, "to_pylist") else None
    return found.fetchall() if sql.startswith("SELECT") else None


@pytest.mark.parametrize("host", HOSTS)
def test_values_are_those_of_duckdb(host: str, tmp_path: Path) -> None:
    with opener(host, tmp_path)() as db, duckdb.connect() as oracle:
        for sql in SCRIPT.split("\n"):
            if sql.startswith("ALTER") and host == "spark":
                continue
            expected = answer(oracle, sql) if sql.startswith("SELECT") else oracle.execute(sql) and None
            assert answer(db, sql) == expected, sql
        for table in ("t", "c"):
            assert sorted(db.table(table).rows()) == sorted(oracle.execute(f"FROM {table}").fetchall())
        oracle.execute("INSERT INTO t (b) VALUES (20), (21)")
        db.insert("t", [{"b": 20}, {"b": 21}])
        assert sorted(db.table("t").rows()) == sorted(oracle.execute("FROM t").fetchall())


def test_refused(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path) as db:
        db.execute("CREATE SEQUENCE s; CREATE SEQUENCE new; CREATE SEQUENCE few MAXVALUE 2")
        db.execute("CREATE TABLE t (a INTEGER DEFAULT nextval('s'))")
        db.execute("CREATE TABLE f (a INTEGER DEFAULT nextval('few'), b INTEGER)")
        for sql, error, message in REFUSED:
            with pytest.raises(error, match=message):
                db.execute(sql)
        db.execute("ROLLBACK")
        assert answer(db, "SELECT nextval('few')") == [(1,)]  # an error gives no value
        with pytest.raises(DataError, match="'few' has reached its maximum value 2"):
            db.insert("f", [{"b": 1}, {"b": 2}])
        db.execute("DROP TABLE t; DROP SEQUENCE s, new")
        with pytest.raises(ViewletError, match="Sequence with name s"):
            db.execute("SELECT nextval('s')")


def killed(place: Path) -> Any:
    """The directory as another process finds it if this one is killed now."""
    copy = place.with_name(f"{place.name} copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)
    return copy


@pytest.mark.parametrize("host", ["directory", "spark"])
def test_no_value_is_given_twice(host: str, tmp_path: Path) -> None:
    place, given = tmp_path / "db", list[int]()
    with opener(host, place)() as db:
        db.execute("CREATE SEQUENCE s; CREATE TABLE t (a INTEGER DEFAULT nextval('s'), b INTEGER)")
        db.execute("CREATE TABLE i (id BIGINT GENERATED ALWAYS AS IDENTITY, b INTEGER)")

        def steps(db: Any) -> None:
            given.extend(value for (value,) in answer(db, "SELECT nextval('s')"))
            given.extend(value for (value,) in answer(db, "INSERT INTO t (b) VALUES (1), (2) RETURNING a"))
            db.insert("t", [{"b": 3}])
            db.execute("INSERT INTO i (b) VALUES (1)")
            db.execute("BEGIN; INSERT INTO t (b) VALUES (4)")
            given.extend(value for (value,) in answer(db, "SELECT nextval('s')"))
            db.execute("ROLLBACK")

        steps(db)
        with opener(host, killed(place))() as after:
            assert answer(after, "SELECT nextval('s')") == [(7,)]
            after.execute("INSERT INTO i (b) VALUES (2)")
            assert sorted(after.table("i").rows()) == [(1, 1), (2, 2)]
    with opener(host, place)() as db:
        steps(db)
        assert len(set(given)) == len(given)
        assert sorted(db.table("i").rows()) == [(1, 1), (2, 1)]
        db.execute("DROP TABLE i")
        with pytest.raises(ViewletError, match="i_id_seq"):
            db.execute("SELECT nextval('i_id_seq')")
    with opener(host, place)() as db:
        db.execute("DROP TABLE t; DROP SEQUENCE s; CREATE SEQUENCE s")
    with opener(host, place)() as db:
        assert answer(db, "SELECT nextval('s')") == [(1,)]


@pytest.mark.parametrize("host", HOSTS)
def test_identity_columns(host: str, tmp_path: Path) -> None:
    with opener(host, tmp_path)() as db:
        db.execute(
            """CREATE TABLE a (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, s VARCHAR);
            CREATE TABLE d (s VARCHAR, id INTEGER GENERATED BY DEFAULT AS IDENTITY (START WITH 10 INCREMENT BY 5));
            CREATE MATERIALIZED VIEW v AS SELECT SUM(id) AS n FROM a"""
        )
        db.execute(
            "INSERT INTO a VALUES ('a'), ('b'); INSERT INTO a VALUES (DEFAULT, 'c'); INSERT INTO a (s) SELECT 'd'"
        )
        db.execute("INSERT INTO a (s) VALUES (?)", ["e"])
        db.insert("a", [{"s": "f"}])
        db.upsert("a", [(2, "B")])  # rows of Python say what they are
        assert sorted(db.table("a").rows()) == [(1, "a"), (2, "B"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]
        db.execute(
            "MERGE INTO a USING (VALUES (1, 'A'), (9, 'new')) AS n(id, s) ON a.id = n.id "
            "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
        )
        assert db.table("a").get(1) == (1, "A")
        assert db.view("v").rows()[0][0] == sum(row[0] for row in db.table("a").rows())
        for sql in (
            "INSERT INTO a VALUES (7, 'x')",
            "INSERT INTO a (id, s) VALUES (7, 'x')",
            "INSERT INTO a SELECT 7, 'x'",
            "INSERT INTO a BY NAME SELECT 7 AS id",
            "UPDATE a SET id = 7",
            "INSERT INTO a VALUES (7, 'x') ON CONFLICT (id) DO UPDATE SET id = 8",
        ):
            with pytest.raises(SqlError, match="'id' is GENERATED ALWAYS: leave it out"):
                db.execute(sql)
        with pytest.raises(SqlError, match="GENERATED ALWAYS"):
            db.execute("INSERT INTO a VALUES (?, ?)", [7, "x"])
        db.execute("INSERT INTO d (s) VALUES ('a'); INSERT INTO d VALUES ('b', 3), ('c', DEFAULT)")
        assert sorted(db.table("d").rows()) == [("a", 10), ("b", 3), ("c", 15)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE TABLE t (a VARCHAR GENERATED ALWAYS AS IDENTITY)", SqlError, "IDENTITY is for integers"),
        ("CREATE TABLE t (a INTEGER DEFAULT 1 GENERATED ALWAYS AS IDENTITY)", SqlError, "has a DEFAULT"),
        ("CREATE TABLE t (a INTEGER GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0))", SchemaError, "zero"),
        (
            "CREATE TABLE t (a INTEGER GENERATED ALWAYS AS IDENTITY); ALTER TABLE t ALTER a DROP DEFAULT",
            UnsupportedError,
            "DEFAULT of an identity column",
        ),
        (
            "CREATE TABLE t (b INTEGER); ALTER TABLE t ADD a INTEGER GENERATED ALWAYS AS IDENTITY",
            UnsupportedError,
            "a new",
        ),
    ],
)
def test_no_identity(sql: str, error: type[ViewletError], message: str) -> None:
    with viewlet.connect() as db, pytest.raises(error, match=message):
        db.execute(sql)


def test_a_table_in_the_place_of_another_counts_anew(tmp_path: Path) -> None:
    """A table that is replaced leaves its sequence, which a renamed one keeps; killed, both are found as they were."""
    i = "TABLE i (id INTEGER GENERATED ALWAYS AS IDENTITY, s VARCHAR)"
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(f"CREATE {i}; INSERT INTO i VALUES ('a'), ('b'); CREATE OR REPLACE {i}; INSERT INTO i VALUES ('c')")
        db.execute(f"ALTER TABLE i RENAME TO j; INSERT INTO j VALUES ('d'); CREATE {i}; INSERT INTO i VALUES ('e')")
        with viewlet.connect(killed(tmp_path / "db")) as after:
            after.execute("INSERT INTO i VALUES ('x'); INSERT INTO j VALUES ('x')")
            assert after.table("i").rows() == [(1, "e"), (2, "x")]
            assert after.table("j").rows() == [(1, "c"), (2, "d"), (3, "x")]
