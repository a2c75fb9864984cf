"""Generated columns: they have the values that DuckDB gives them, whichever way the rows come, go or change."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import viewlet
from tests.sql.hosts import HOSTS, opener, ordered
from viewlet.errors import DataError, SchemaError, SqlError, UnsupportedError, ViewletError

T = """CREATE TABLE t (k INTEGER PRIMARY KEY, twice INTEGER GENERATED ALWAYS AS (k * 2), s VARCHAR DEFAULT 'none',
    "Long s" AS (s || '!' || twice), d DECIMAL(9,2), half DECIMAL(12,3) AS (d / 2) VIRTUAL,
    day AS (DATE '2024-01-31' + k))"""
STATEMENTS = """INSERT INTO t VALUES (1, 'a', 1.25), (2, NULL, NULL)
INSERT INTO t (k, s) VALUES (3, 'c'), (4, DEFAULT)
INSERT INTO t BY NAME SELECT 5 AS k, 7.5 AS d
INSERT INTO t SELECT k + 10, s, d FROM t WHERE twice < 5
UPDATE t SET s = upper(s), d = d + twice WHERE half IS NULL OR half < 1
UPDATE t SET k = k + 100 WHERE twice = 8
DELETE FROM t WHERE "Long s" = 'C!6'
INSERT OR REPLACE INTO t (k, s) VALUES (1, 'again')
INSERT INTO t VALUES (1, 'x', 0), (9, 'y', 3) ON CONFLICT DO NOTHING
INSERT INTO t VALUES (9, 'z', 4) ON CONFLICT (k) DO UPDATE SET d = excluded.d + t.twice, s = t."Long s"
MERGE INTO t USING (VALUES (1, 'm', 5), (20, 'n', 6)) AS n(k, s, d) ON t.k = n.k
 WHEN MATCHED THEN UPDATE SET s = n.s, d = n.d WHEN NOT MATCHED THEN INSERT (k, s, d) VALUES (n.k, n.s, n.d)
ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 3
ALTER TABLE t RENAME COLUMN s TO label
ALTER TABLE t DROP COLUMN day
UPDATE t SET label = 'renamed' WHERE k = 1""".replace("\n WHEN", " WHEN")


@pytest.mark.parametrize("host", ["directory", "spark"])
def test_statements(host: str, tmp_path: Path) -> None:
    opened = opener(host, tmp_path)
    with opened() as db, duckdb.connect() as oracle:
        for each in (db, oracle):
            each.execute(T)
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT twice % 4 AS g, SUM(half) AS h FROM t GROUP BY twice % 4")
        for sql in STATEMENTS.split("\n"):
            if host == "spark" and sql.startswith("ALTER"):
                break
            for each in (db, oracle):
                each.execute(sql)
            expected = ordered(oracle.execute("FROM t").fetchall())
            assert ordered(db.table("t").rows()) == expected, sql
        asked = "SELECT twice % 4 AS g, SUM(half) AS h FROM t GROUP BY ALL"
        assert ordered(db.view("v").rows()) == ordered(oracle.execute(asked).fetchall())
        columns = [[name, kind] for name, kind, *_ in oracle.execute("DESCRIBE t").fetchall()]
        found = db.execute("DESCRIBE t")
        assert [
            list(each) for each in zip(*(found[n].to_pylist() for n in ("column_name", "column_type")), strict=True)
        ] == columns
        rest = db.execute("INSERT INTO t (k, d) VALUES (50, 1) RETURNING twice, half")
        assert rest.to_pylist() == [{"twice": 100, "half": pytest.approx(0.5)}]
    with opened() as db:
        db.execute("DELETE FROM t WHERE k = 50; INSERT INTO t (k) VALUES (60)")
        assert ordered(row[:2] for row in db.table("t").rows()) == ordered([*(row[:2] for row in expected), (60, 120)])


@pytest.mark.parametrize("host", HOSTS)
def test_rows_of_python_and_frames(host: str, tmp_path: Path) -> None:
    """Rows come and go with the values that are generated, and without them."""
    with opener(host, tmp_path)() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, g AS (k * 2), s VARCHAR DEFAULT 'd')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT SUM(g) AS g FROM t")
        db.insert("t", [(1, "a"), (2, "b")])
        db.insert("t", [(3, 6, "c")])
        db.insert("t", [{"k": 4}, {"k": 5, "g": 10, "s": "e"}])
        db.insert("t", pa.table({"s": ["f", "g"], "K": [6, 7]}))
        db.insert("t", pa.table({"k": [8], "g": [16], "s": ["h"]}))
        db.execute("INSERT INTO t (k, s) VALUES (?, ?)", [9, "i"])
        db.execute("INSERT INTO t VALUES (?, ?)", [10, "j"])
        assert [row[:2] for row in sorted(db.table("t").rows())] == [(k, 2 * k) for k in range(1, 11)]
        db.delete("t", [(1, "a"), (2, "b")])
        db.delete("t", [(3, 6, "c")])
        db.delete("t", [{"k": 4, "s": "d"}, {"k": 5, "s": "e"}])
        db.delete("t", pa.table({"k": [6], "s": ["f"]}))
        db.delete("t", keys=[7])
        db.update("t", [(8, "h")], [(18, "h")])
        db.upsert("t", [(9, "I"), (11, "k")])
        db.apply({"t": [{"k": 10, "s": "j", "_multiplicity": -1}, {"k": 12, "g": 24, "s": "l", "_multiplicity": 1}]})
        db.apply({"t": [{"k": 12, "s": "L", "_change_type": "upsert"}, {"k": 18, "s": "h", "_change_type": "delete"}]})
        assert sorted(db.table("t").rows()) == [(9, 18, "I"), (11, 22, "k"), (12, 24, "L")]
        assert db.view("v").rows() == [(64,)]
        for rows in ([(1, 3, "a")], [{"k": 1, "g": 3}], pa.table({"k": [1], "g": [3]})):
            with pytest.raises(DataError, match="g is generated, and has another value in"):
                db.insert("t", rows)
        with pytest.raises(DataError, match="Overflow in multiplication"):
            db.insert("t", [(1, "a"), (2**31 - 1, "b")])
        with pytest.raises(ViewletError, match="there"):
            db.delete("t", [(9, 19, "I")])
        assert len(db.table("t")) == 3


def test_a_generated_key_and_constraints(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path) as db:
        db.execute(
            "CREATE TABLE t (n VARCHAR, k VARCHAR AS (lower(n)) PRIMARY KEY, v INTEGER, w AS (v + 1) CHECK (w < 9))"
        )
        db.execute("INSERT INTO t VALUES ('Ann', 1), ('Bob', 2); INSERT OR REPLACE INTO t VALUES ('ANN', 3)")
        db.upsert("t", [("BOB", 4)])
        assert sorted(db.table("t").rows()) == [("ANN", "ann", 3, 4), ("BOB", "bob", 4, 5)]
        for sql in ("INSERT INTO t VALUES ('bob', 1)", "UPDATE t SET v = 8"):
            with pytest.raises(DataError):
                db.execute(sql)


def test_stored_and_virtual_are_names_too() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (stored INTEGER, virtual INTEGER AS (stored + (1)) VIRTUAL, s AS ((2)) STORED)")
        db.execute("CREATE VIEW v AS SELECT SUM(stored) stored, COUNT(*) virtual FROM t")
        db.execute("INSERT INTO t VALUES (3); CREATE TABLE c AS SELECT SUM(virtual) virtual FROM t")
        assert (db.view("v").columns, db.table("c").columns) == (("stored", "virtual"), ("virtual",))
        assert db.table("t").rows() == [(3, 4, 2)]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with viewlet.connect(external_access=True) as db:
        db.execute("CREATE TABLE t (a INTEGER, g AS (a + 1), b INTEGER); INSERT INTO t VALUES (1, 2)")
        db.execute(f"COPY t TO '{path}'; COPY (SELECT a + 1, b FROM t) TO '{path}.2'; COPY t FROM '{path}.2'")
        assert path.read_text() == "a,g,b\n1,2,2\n"
        assert ordered(db.table("t").rows()) == [(1, 2, 2), (2, 3, 2)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE TABLE x (a INTEGER, g AS (nope + 1))", SchemaError, '"nope"'),
        ("CREATE TABLE x (a INTEGER, g INTEGER AS (g + 1))", SchemaError, "Circular"),
        ("CREATE TABLE x (g AS (1))", SchemaError, "without physical"),
        ("CREATE TABLE x (a INTEGER, g AS ([a]))", SchemaError, "CAST its expression"),
        ("CREATE TABLE x (a INTEGER, g AS (SUM(a)))", SqlError, "no aggregate"),
        ("CREATE TABLE x (a INTEGER, g AS ((SELECT 1)))", SqlError, "no query"),
        ("CREATE TABLE x (a INTEGER, g DOUBLE AS (random()))", SqlError, r"random\(\) is another one"),
        ("CREATE TABLE x (a INTEGER, g DATE AS (current_date))", SqlError, "another one each time"),
        ("CREATE TABLE x (a INTEGER, g INTEGER AS (a) DEFAULT 3)", SqlError, "has a DEFAULT"),
        ("CREATE TABLE x (a INTEGER, g INTEGER GENERATED BY DEFAULT AS (a + 1))", SqlError, "ALWAYS AS"),
        ("CREATE STREAM x (a INTEGER, g AS (a + 1))", UnsupportedError, "stream"),
        ("INSERT INTO t VALUES (1, 2, 3)", SqlError, "'g' is GENERATED ALWAYS"),
        ("INSERT INTO t (a, g) VALUES (1, 2)", SqlError, "'g' is GENERATED ALWAYS"),
        ("INSERT INTO t SELECT 1, 2, 3", SqlError, "'g' is GENERATED ALWAYS"),
        ("UPDATE t SET g = 3", SqlError, "'g' is GENERATED ALWAYS"),
        ("ALTER TABLE t DROP COLUMN a", SqlError, "generated column 'g' reads 'a'"),
        ("ALTER TABLE t ALTER g TYPE BIGINT", UnsupportedError, "generated"),
    ],
)
def test_refused(sql: str, error: type[ViewletError], message: str) -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, g INTEGER GENERATED ALWAYS AS (a + 1) STORED, b INTEGER)")
        with pytest.raises(error, match=message):
            db.execute(sql)
