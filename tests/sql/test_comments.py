"""COMMENT ON: what is said of tables, views and columns stays with them, as in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from tests.sql.hosts import opener
from viewlet.errors import SchemaError, SqlError, ViewletError

SCRIPT = """CREATE TABLE t (a INTEGER, "B b" INTEGER)
CREATE VIEW v AS SELECT a AS x FROM t
COMMENT ON TABLE t IS 'it''s "t"; -- no end'
COMMENT ON VIEW v IS 'of t'
COMMENT ON COLUMN t.a IS 'first'
COMMENT ON COLUMN t."B b" IS 'second'
COMMENT ON COLUMN v.x IS 'renamed'
COMMENT ON COLUMN t.a IS 'again'
INSERT INTO t VALUES (1, 2)
ALTER TABLE t ADD COLUMN c INTEGER
COMMENT ON COLUMN t.c IS ''
ALTER TABLE t RENAME COLUMN "B b" TO d
COMMENT ON VIEW v IS NULL"""
SHOWN = (
    "SELECT table_name, comment FROM duckdb_tables()",
    "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal",
    "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL",
)


def shown(db: Any) -> list[Any]:
    return [[tuple(row.values()) for row in db.execute(sql).to_pylist()] for sql in SHOWN]


@pytest.mark.parametrize("host", ["directory", "spark"])
def test_comments_are_those_of_duckdb(host: str, tmp_path: Path) -> None:
    opened = opener(host, tmp_path)
    with opened() as db, duckdb.connect() as oracle:
        for sql in SCRIPT.split("\n"):
            if host == "spark" and sql.startswith("ALTER"):
                break
            oracle.execute(sql)
            db.execute(sql)
            assert shown(db) == [oracle.execute(each).fetchall() for each in SHOWN], sql
        before = shown(db)
        assert db.table("t").comment == 'it\'s "t"; -- no end'
        assert db.table("t").schema[0].comment == "again"
        assert db.view("v").comment == ("of t" if host == "spark" else None)
        assert db.view("v").schema[0].comment == "renamed"
    with opened() as db:  # from the log on Spark, from a snapshot in a directory
        assert shown(db) == before
        assert db.view("v").rows() == [(1,)]
        db.execute("DROP VIEW v; DROP TABLE t; CREATE TABLE t (a INTEGER)")
        assert shown(db) == [[("t", None)], [], [("t", "a", None)]]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("COMMENT ON TABLE nope IS 'x'", SqlError, "'nope' does not exist"),
        ("COMMENT ON COLUMN t.nope IS 'x'", SqlError, "'nope' does not exist"),
        ("COMMENT ON TABLE t IS 3", SqlError, "is expected"),
        ("COMMENT ON COLUMN t IS 'x'", SqlError, "is expected"),
        ("COMMENT ON VIEW t_a_check IS 'x'", SchemaError, "is a constraint"),
        ("BEGIN; COMMENT ON TABLE t IS 'x'", SchemaError, "in a transaction"),
    ],
)
def test_refused(sql: str, error: type[ViewletError], message: str) -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER CHECK (a > 1))")
        with pytest.raises(error, match=message):
            db.execute(sql)
        assert db.table("t").comment is None
