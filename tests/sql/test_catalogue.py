"""What SHOW and DESCRIBE tell of a database, and what tables and views look like when they are printed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import viewlet
from viewlet.errors import SchemaError, SqlError

DECLARED = 'CREATE TABLE t (k BIGINT PRIMARY KEY, "Odd name" VARCHAR(5) NOT NULL, x DECIMAL(8,2), d DOUBLE)'


@pytest.fixture
def db(tmp_path: Path) -> viewlet.Connection:
    made = viewlet.connect(tmp_path / "d")
    made.execute(f"{DECLARED}; CREATE STREAM s (a BIGINT)")
    made.execute("CREATE MATERIALIZED VIEW v AS SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    made.execute("CREATE MATERIALIZED VIEW empty AS SELECT SUM(a) AS a FROM s WHERE a > 5 GROUP BY a")
    made.insert("t", [(1, "a", "1.5", None), (2, "b", "1.5", 0.5)])
    return made


def test_tables_and_views_are_listed(db: viewlet.Connection) -> None:
    expected = [("empty", "VIEW", 0), ("s", "STREAM", None), ("t", "TABLE", 2), ("v", "VIEW", 1)]
    for sql in ("SHOW TABLES", "show all tables"):
        assert [tuple(row.values()) for row in db.execute(sql).to_pylist()] == expected
    first, second = db.execute("SHOW VIEWS").to_pylist()
    assert (first["name"], first["sources"], first["rows"]) == ("empty", ["s"], 0)
    assert (second["name"], second["sources"], second["batches"]) == ("v", ["t"], 1)
    assert second["engine"] == "interpreter"
    assert 0 < second["seconds"] < 60
    nothing = viewlet.connect()
    assert nothing.execute("SHOW TABLES").to_pylist() == nothing.execute("SHOW VIEWS").to_pylist() == []


@pytest.mark.parametrize("sql", ["DESCRIBE t", "DESC t", "describe table T", 'SHOW COLUMNS FROM "t"'])
def test_a_table_is_described_as_by_duckdb(sql: str, db: viewlet.Connection) -> None:
    described = duckdb.execute(f"CREATE TEMP TABLE t{abs(hash(sql))} AS SELECT 1; {DECLARED}; DESCRIBE t").fetchall()
    duckdb.execute("DROP TABLE t")
    expected = [tuple(row) for row in described]
    found = [tuple(row.values()) for row in db.execute(sql).to_pylist()]
    assert [(name, type.partition("(5")[0], *rest) for name, type, *rest in found] == expected
    assert found[1][1] == "VARCHAR(5)"


def test_views_and_queries_are_described(db: viewlet.Connection) -> None:
    (x, n) = db.execute("DESCRIBE VIEW v").to_pylist()
    assert (x["column_name"], x["column_type"], n["column_type"]) == ("x", "DECIMAL(8,2)", "BIGINT")
    assert db.execute("DESCRIBE SELECT k FROM t")["column_type"].to_pylist() == ["BIGINT"]
    with pytest.raises(SqlError, match="'vv' does not exist; did you mean 'v'"):
        db.execute("DESCRIBE vv")


def test_statements_that_do_nothing_say_so(db: viewlet.Connection, caplog: pytest.LogCaptureFixture) -> None:
    sets = ("SET threads = 4", "SET SESSION TimeZone TO 'UTC'", "RESET threads", "PRAGMA enable_profiling")
    for sql in (*sets, "CREATE INDEX i ON t (x)"):
        assert db.execute(sql) is None
    assert [record.message for record in caplog.records] == [
        "SET does nothing here: there is no setting 'threads'",
        "SET does nothing here: there is no setting 'timezone'",
        "RESET does nothing here: there is no setting 'threads'",
        "PRAGMA does nothing here: there is no setting 'enable_profiling'",
        "CREATE INDEX does nothing here: views make the indexes that they need",
    ]
    with pytest.raises(SqlError):
        db.execute("PRAGMA enable_external_access = true")
    with pytest.raises(SqlError, match="CREATE INDEX"):
        db.execute("CREATE UNIQUE INDEX i ON t (x)")


def test_temporary_tables_are_for_memory(db: viewlet.Connection) -> None:
    memory = viewlet.connect()
    memory.execute("CREATE TEMP TABLE t (k BIGINT); CREATE TEMPORARY VIEW v AS SELECT COUNT(*) AS n FROM t")
    memory.execute("CREATE OR REPLACE TEMP VIEW v AS SELECT k FROM t")
    memory.insert("t", [(1,)])
    assert memory.view("v").rows() == [(1,)]
    with pytest.raises(SchemaError, match="temporary tables are for a database in memory"):
        db.execute("CREATE TEMP TABLE u (k BIGINT)")


def test_printing_never_raises(db: viewlet.Connection) -> None:
    stream, view = db.table("s"), db.view("v")
    assert "streams do not keep their rows" in repr(stream)
    assert "streams do not keep their rows" in stream._repr_html_()
    db.close()
    assert "closed" in repr(view)
    assert "closed" in view._repr_html_()
