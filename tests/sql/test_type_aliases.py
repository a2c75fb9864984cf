"""CREATE TYPE: other names for types, in casts and columns, as in DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import viewlet
from tests.sql.hosts import opener, ordered
from viewlet.errors import SchemaError, SqlError, UnsupportedError, ViewletError

SCRIPT = """CREATE TYPE money AS DECIMAL(12,2)
CREATE TYPE "Id" AS BIGINT
CREATE TYPE price AS money
CREATE TYPE IF NOT EXISTS money AS INTEGER
CREATE TABLE t (id id PRIMARY KEY, money MONEY, price price DEFAULT 1.5, CHECK (price < CAST(7 AS money)))
INSERT INTO t (id, money) VALUES (1, 2.25), (2, '3.5'::money), (3, CAST('4' AS "Id"))
CREATE TABLE money AS (SELECT id, TRY_CAST('x' AS "Id") AS money FROM t)
ALTER TABLE t ADD COLUMN more money DEFAULT 3
ALTER TABLE t ALTER more TYPE id
UPDATE t SET more = (money * 2)::price
INSERT INTO t SELECT id + 10 AS id, price AS money, money::price AS price, 1 FROM t
DROP TYPE price
CREATE OR REPLACE TYPE "Id" AS INTEGER
CREATE TABLE u (id id)"""


@pytest.mark.parametrize("host", ["directory", "spark"])
def test_types(host: str, tmp_path: Path) -> None:
    opened = opener(host, tmp_path)
    with opened() as db, duckdb.connect() as oracle:
        oracle.execute("CREATE TYPE free AS INTEGER")
        for sql in SCRIPT.split("\n"):
            if host == "spark" and sql.startswith(("ALTER", "UPDATE", "INSERT INTO t SELECT")):
                continue
            db.execute(sql)
            if sql.startswith(("DROP", "CREATE OR REPLACE")):
                continue  # DuckDB has tables depend on types
            oracle.execute(sql.replace("u (id id)", "u (id INTEGER)"))
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT SUM(price)::money AS price, CAST(NULL AS id) AS n FROM t")
        for table in ("t", "money", "u"):
            columns = [row[:2] for row in oracle.execute(f"DESCRIBE {table}").fetchall()]
            assert [(each.name, each.declared) for each in db.table(table).schema] == columns
            assert ordered(db.table(table).rows()) == ordered(oracle.execute(f"FROM {table}").fetchall())
        (total,) = oracle.execute("SELECT SUM(price) FROM t").fetchone() or ()
        assert db.view("v").rows() == [(total, None)]
        assert db.execute("SELECT '1.239'::money AS money").to_pylist()[0]["money"].as_tuple().exponent == -2
    with opened() as db:
        db.execute("CREATE TABLE w (a money); DROP TYPE money; DROP TYPE IF EXISTS nope")
        assert (db.view("v").rows(), db.table("w").schema[0].declared) == ([(total, None)], "DECIMAL(12,2)")


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE TYPE money AS INTEGER", SchemaError, "already a type 'money'"),
        ("CREATE TYPE integer AS BIGINT", SqlError, "'integer' is a type already"),
        ("CREATE TYPE x AS ENUM ('a', 'b')", UnsupportedError, "CHECK"),
        ("CREATE TYPE x AS STRUCT(a INTEGER)", UnsupportedError, "STRUCT"),
        ("CREATE TYPE x AS nope", UnsupportedError, "nope"),
        ("CREATE TYPE x", SqlError, "is expected"),
        ("CREATE TABLE t (a nope)", UnsupportedError, "nope"),
        ("DROP TYPE nope", SchemaError, "no type 'nope'"),
        ("BEGIN; DROP TYPE money", SchemaError, "in a transaction"),
    ],
)
def test_refused(sql: str, error: type[ViewletError], message: str) -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TYPE money AS DECIMAL(12,2)")
        with pytest.raises(error, match=message):
            db.execute(sql)
