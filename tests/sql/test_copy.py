"""COPY: files of DuckDB are read as DuckDB reads them, as one batch, and files are written as DuckDB writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from tests.sql.hosts import ordered
from viewlet.connection.spark_facade import connect_inline
from viewlet.errors import DataError, SqlError, UnsupportedError, ViewletError

T = "CREATE TABLE t (a INTEGER, b VARCHAR, d DECIMAL(9,2), day DATE, ts TIMESTAMP, x DOUBLE, ok BOOLEAN)"
ROWS = """(1, 'plain', 1.25, '2024-02-29', '2024-01-01 10:00:00.25', 0.1, TRUE),
(NULL, 'it''s "quoted", with
a line and ; in it', NULL, NULL, NULL, NULL, NULL), (-7, '', -0.01, '1969-12-31', '1969-12-31 23:59:59', 1e9, FALSE)"""
WRITTEN = (
    ("t", "csv", ""),
    ("t", "csv", "(HEADER false, DELIMITER ';', NULL 'n/a')"),
    ("t", "csv", "(FORMAT csv, FORCE_QUOTE (b, a), ESCAPE '\\', DATEFORMAT '%d.%m.%Y')"),
    ("t (b, a)", "csv.gz", ""),
    ("t", "parquet", ""),
    ("t (a, ts)", "data", "(FORMAT 'parquet', COMPRESSION zstd)"),
    ("t", "json", ""),
    ("t", "jsonl.gz", ""),
    ("t", "data", "WITH (FORMAT json, ARRAY true)"),
    ("(SELECT b, count(*) AS n, ')' AS p FROM t GROUP BY b ORDER BY b)", "csv", "(QUOTE '''', HEADER)"),
    ("(WITH c AS (SELECT a FROM t) SELECT a + 1 AS a FROM c ORDER BY a)", "parquet", ""),
)


@pytest.fixture(params=["memory", "directory", "spark"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "spark":
        opened = connect_inline(tmp_path / "state", 2, sync=False)
        opened._statements._adhoc._external_access = True
        return opened
    return viewlet.connect(tmp_path / "state" if request.param == "directory" else None, external_access=True)


def literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def test_files_are_those_of_duckdb(db: Any, tmp_path: Path) -> None:
    """What is written is read back by both, and is the same text where it is one."""
    with db, duckdb.connect() as oracle:
        for each in (db, oracle):
            each.execute(f"{T}; INSERT INTO t VALUES {ROWS}")
        for number, (what, suffix, options) in enumerate(WRITTEN):
            ours, theirs = (tmp_path / f"{who} {number}.{suffix}" for who in ("ours", "theirs"))
            count = oracle.execute(f"COPY {what} TO {literal(theirs)} {options}").fetchall()[0][0]
            assert db.execute(f"COPY {what} TO {literal(ours)} {options}") == count
            if not suffix.endswith("gz") and "parquet" not in suffix + options:
                lines = [sorted(path.read_text().replace(",\n", "\n").splitlines()) for path in (ours, theirs)]
                assert lines[0] == lines[1], what
            if what.startswith("("):
                continue
            columns = what.removeprefix("t")
            for each in (db, oracle):
                each.execute(f"DROP TABLE IF EXISTS back; {T.replace('TABLE t', 'TABLE back')}")
            back = options.replace("FORCE_QUOTE (b, a), ", "").replace(", COMPRESSION zstd", "")
            for path in (ours, theirs):
                for each in (db, oracle):
                    each.execute(f"COPY back {columns} FROM {literal(path)} {back}")
            assert ordered(db.table("back").rows()) == ordered(oracle.execute("FROM back").fetchall()), options


def test_a_name_is_no_pattern(db: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of files are taken letter by letter, relative to the folder of the process."""
    monkeypatch.chdir(tmp_path)
    with db:
        db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        for name in ("d[1].csv", "d*?.csv", "~/x.csv", 'it\'s\n"odd".csv', "k=9/x", "-- x", "ü.csv"):
            Path(name).parent.mkdir(exist_ok=True)
            assert db.execute("COPY t TO ?", [name]) == 1
            assert Path(name).read_text() == "a\n1\n"
            assert db.execute("COPY t FROM ?", [name]) == 1
            db.execute("DELETE FROM t; INSERT INTO t VALUES (1)")
        Path("d1.csv").write_text("5\n")
        db.execute("COPY t FROM 'd[1].csv'")
        assert db.table("t").rows() == [(1,), (1,)]
        assert not [each for each in os.listdir() if each.startswith(".viewlet")]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("x.csv", "1,a\nx,b\n", "", 'Line: 2; Original Line: x,b; Error when converting column "a"'),
        ("x.csv", "1,a\n2\n", "", "Line: 2.*Expected Number of Columns: 2 Found: 1"),
        ("x.csv", "1,a\n,b\n", "", "t.a.*row 2: NULL is refused: the column is NOT NULL"),
        ("x.csv", "1,a\n2,long\n", "", "t.b.*row 2: 'long' is refused"),
        ("x.csv", "1,a\n7,b\n", "", "a < 7"),
        ("x.json", '{"a": 1}\n{"a": "x"}', "", "row 2, column 'a': 'x' is no INTEGER"),
        ("x.json", '{"a": 1', "", "cannot read .* as JSON"),
        ("x.parquet", "no parquet", "", "cannot read .* as PARQUET"),
        ("x.csv", "1,a\n", "(NONSENSE 3)", 'CSV: Unrecognized option "nonsense"'),
        ("x.csv", "1,a\n", "(HEADER, HEADER)", "duplicate option"),
    ],
)
def test_a_bad_row_leaves_nothing(tmp_path: Path, name: str, content: str, options: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with viewlet.connect(external_access=True) as db:
        db.execute("CREATE TABLE t (a INTEGER NOT NULL CHECK (a < 7), b VARCHAR(3))")
        with pytest.raises(DataError, match=message):
            db.execute(f"COPY t FROM {literal(tmp_path / name)} {options}")
        assert (db.table("t").rows(), db.epoch) == ([], 0)


def test_rows_are_one_batch_with_defaults(db: Any, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("b,a\nx,1\ny,2\n")
    (tmp_path / "p.json").write_text('[{"b": "z"}]')
    with db:
        db.execute("CREATE TABLE t (a INTEGER DEFAULT 5, b VARCHAR, c INTEGER DEFAULT 7)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS a, SUM(c) AS c FROM t")
        assert db.execute(f"COPY t (b, a) FROM {literal(tmp_path / 'x.csv')}") == 2
        assert (db.epoch, db.view("v").rows()) == (1, [(3, 14)])
        db.execute(f"BEGIN; COPY t (b) FROM {literal(tmp_path / 'p.json')}")
        assert ordered(db.table("t").rows()) == [(1, "x", 7), (2, "y", 7), (5, "z", 7)]
        db.execute("ROLLBACK")
        assert db.epoch == 1


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("COPY t FROM 'nope.csv'", DataError, "there is no file 'nope.csv'"),
        ("COPY nope FROM 'x.csv'", SqlError, "'nope' does not exist"),
        ("COPY t (nope) FROM 'x.csv'", SqlError, "'nope' does not exist"),
        ("COPY t (a, a) FROM 'x.csv'", SqlError, "each once"),
        ("COPY v FROM 'x.csv'", SqlError, "is a view"),
        ("COPY s TO 's.csv'", ViewletError, "stream"),
        ("COPY (SELECT nope FROM t) TO 'y.csv'", SqlError, "'nope' does not exist"),
        ("COPY (SELECT 1; SELECT 2) TO 'y.csv'", SqlError, "is expected"),
        ("COPY t TO 'y.csv' (PARTITION_BY (a))", UnsupportedError, "one file"),
        ("COPY t TO 'y.csv' (RETURN_FILES)", UnsupportedError, "number of rows"),
        ("COPY t TO 'y.csv' CSV HEADER", SqlError, "in brackets"),
        ("COPY t TO 'y.csv' (FORMAT arrow)", SqlError, "csv, parquet, json"),
        ("COPY t TO 's3://bucket/y.csv'", UnsupportedError, "of this machine"),
        ("COPY t TO 'y.csv' (FORMAT csv, FORMAT json)", SqlError, "csv, parquet, json"),
        ("COPY t TO STDOUT", UnsupportedError, "name a file"),
        ("COPY t TO '/dev/null'", DataError, "no file that could be replaced"),
        ("COPY t TO 'no/folder/y.csv'", DataError, "cannot write 'no/folder/y.csv'"),
        ("COPY t TO 'a\0b'", DataError, "not the name of a file"),
        ("COPY", SqlError, "is expected"),
    ],
)
def test_errors(
    sql: str, error: type[ViewletError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with viewlet.connect(external_access=True) as db:
        db.execute(
            "CREATE TABLE t (a INTEGER); CREATE STREAM s (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT a FROM t"
        )
        with pytest.raises(error, match=message):
            db.execute(sql)
    assert os.listdir() == []


def test_files_are_closed_to_sql(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1\n")
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        for sql in ("COPY t FROM", "COPY t TO", "COPY (SELECT 1) TO"):
            with pytest.raises(SqlError, match="reaches outside the database"):
                db.execute(f"{sql} {literal(path)}")
        assert db.table("t").rows() == []
    assert path.read_text() == "1\n"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "x.csv"
    path.write_text("old")
    with viewlet.connect(external_access=True) as db:
        db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        with monkeypatch.context() as patched:
            patched.setattr(os, step, interrupt)
            with pytest.raises(KeyboardInterrupt):
                db.execute(f"COPY t TO {literal(path)}")
        assert (os.listdir(tmp_path), path.read_text()) == (["x.csv"], "old")
        assert db.execute(f"COPY t TO {literal(path)}") == 1
    assert path.read_text() == "a\n1\n"
