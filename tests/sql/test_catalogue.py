"""What SHOW and DESCRIBE tell of a database, and what tables and views look like when they are printed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import viewlet
from viewlet.errors import SchemaError, SqlError

DECLARED = 'CREATE TABLE t (k BIGINT PRIMARY KEY, "Odd name" VARCHAR(5) NOT NULL, x DECIMAL(8,2) DEFAULT 1.5, d DOUBLE)'


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
    for sql in (*sets, "CREATE INDEX i ON t (x)", "DROP INDEX i"):
        assert db.execute(sql) is None
    assert [record.message for record in caplog.records] == [
        "SET does nothing here: there is no setting 'threads'",
        "SET does nothing here: there is no setting 'timezone'",
        "RESET does nothing here: there is no setting 'threads'",
        "PRAGMA does nothing here: there is no setting 'enable_profiling'",
        "CREATE INDEX does nothing here: views make the indexes that they need",
        "DROP INDEX does nothing here: views make the indexes that they need",
    ]
    with pytest.raises(SqlError):
        db.execute("PRAGMA enable_external_access = true")
    with pytest.raises(SqlError, match="name the columns alone"):
        db.execute("CREATE UNIQUE INDEX i ON t (x + 1)")


def test_printing_never_raises(db: viewlet.Connection) -> None:
    stream, view = db.table("s"), db.view("v")
    assert "streams do not keep their rows" in repr(stream)
    assert "streams do not keep their rows" in stream._repr_html_()
    db.close()
    assert "closed" in repr(view)
    assert "closed" in view._repr_html_()


CONSTRAINED = """
    CREATE TABLE parent (a BIGINT, b INTEGER, PRIMARY KEY (a, b));
    CREATE TABLE child (k SMALLINT PRIMARY KEY, a BIGINT DEFAULT 7, b INTEGER, c VARCHAR NOT NULL UNIQUE,
        x DECIMAL(9,3), day DATE, moment TIMESTAMP, d DOUBLE, yes BOOLEAN,
        CHECK (x > 0 OR k < 5), UNIQUE (a, d), FOREIGN KEY (a, b) REFERENCES parent (a, b));
"""
LIKE_DUCKDB = {
    "tables": "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables",
    "columns": "SELECT * FROM information_schema.columns",
    "constraints": "SELECT * EXCLUDE constraint_name FROM information_schema.table_constraints",
    "foreign keys": "SELECT unique_constraint_name, match_option FROM information_schema.referential_constraints",
    "keys": "SELECT table_name, column_name, ordinal_position FROM information_schema.key_column_usage",
    "PostgreSQL": """SELECT relname, relkind, attname, attnotnull, nspname FROM pg_class
        JOIN pg_attribute ON attrelid = pg_class.oid JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace""",
    "functions": """SELECT tables.table_type, v.view_name, column_name, data_type FROM information_schema.tables
        LEFT JOIN duckdb_views() AS v ON view_name = table_name JOIN duckdb_columns() AS c USING (table_name)""",
    "schemas": "SELECT * FROM information_schema.schemata",
}


def test_the_catalogue_is_queried_as_in_duckdb(db: viewlet.Connection) -> None:
    ours, theirs = viewlet.connect(), duckdb.connect()
    ours.execute(CONSTRAINED + "CREATE MATERIALIZED VIEW w AS SELECT b, day FROM child")
    theirs.execute(CONSTRAINED + "CREATE VIEW w AS SELECT b, day FROM child")
    for what, sql in LIKE_DUCKDB.items():
        found = [tuple(row.values()) for row in ours.execute(sql).to_pylist()]
        expected = theirs.execute(sql).fetchall()
        assert sorted(found, key=repr) == sorted(expected, key=repr), what
        assert found, what
    ours.execute("CREATE TABLE duckdb_tables (tables BIGINT); INSERT INTO duckdb_tables VALUES (3), (4)")
    own = "SELECT tables FROM duckdb_tables WHERE tables IN (SELECT COUNT(*) FROM duckdb_tables())"
    assert ours.execute(own).to_pylist() == [{"tables": 3}], "a table of the user, and the function"
    ours.execute("CREATE MATERIALIZED VIEW x AS SELECT MAX(tables) AS m FROM duckdb_tables")


def test_views_are_queried_with_what_maintains_them(db: viewlet.Connection) -> None:
    db.execute("CREATE TABLE c (a BIGINT UNIQUE, CHECK (a <> 3))")
    known = {row["view_name"]: row for row in db.execute("SELECT * FROM duckdb_views()").to_pylist()}
    assert list(known) == ["v", "empty"] == list(db.stats()["views"])  # type: ignore[call-overload]
    assert (known["v"]["rows"], known["v"]["sources"], known["v"]["tuples"], known["v"]["epoch"]) == (1, ["t"], 2, 1)
    assert known["v"]["sql"] == "CREATE MATERIALIZED VIEW v AS SELECT x, COUNT(*) AS n FROM t GROUP BY x"
    kinds = db.execute("SELECT table_name, kind, rows FROM duckdb_tables() ORDER BY ALL").to_pylist()
    assert [tuple(row.values()) for row in kinds] == [("c", "TABLE", 0), ("s", "STREAM", None), ("t", "TABLE", 2)]
    constraints = db.execute("SELECT constraint_text FROM duckdb_constraints() WHERE table_name = 'c'")
    assert sorted(constraints["constraint_text"].to_pylist()) == ["CHECK (a <> 3)", "UNIQUE (a)"]
    db.execute("CREATE TABLE copied AS SELECT view_name, engine FROM duckdb_views()")
    assert db.table("copied").rows() == [("empty", "interpreter"), ("v", "interpreter")]


@pytest.mark.parametrize("name", ["information_schema.tables", "duckdb_views()", "duckdb_views", "pg_catalog.pg_class"])
def test_a_view_over_the_catalogue_is_refused(name: str, db: viewlet.Connection) -> None:
    with pytest.raises(SqlError, match="a view over the catalogue is not supported: read it with a SELECT"):
        db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM t JOIN {name} ON true")


def test_explain_analyze_shows_what_batches_took(db: viewlet.Connection) -> None:
    def lines(sql: str) -> list[str]:
        return [str(line) for line in db.execute(sql)["explain"].to_pylist()]

    db.execute("CREATE TABLE u (k BIGINT, w BIGINT)")
    joined = "SUM(w) AS s FROM t JOIN u USING (k) GROUP BY k"
    db.execute(f"CREATE MATERIALIZED VIEW j WITH (strategy = 'first-order') AS SELECT k, {joined}")
    assert lines("EXPLAIN ANALYZE j")[-2:] == ["rows: 0", "batches: 0, changed rows in: 0, seconds: 0.000000"]
    db.view("j").subscribe(lambda epoch, changes: None)
    db.apply({"u": [(1, 5), (2, 6), (2, 7)]})
    db.apply({"u": [(1, 8)], "t": [(3, "c", 1, 1)]})
    shown = lines("EXPLAIN ANALYZE j")
    assert shown[0] == "view j (first-order), epoch 3"
    assert shown[3] == "rows: 2"
    assert shown[4].startswith("batches: 2, changed rows in: 5, seconds: 0.")
    assert shown[5].startswith("last batch: changed rows in: 2, out: 2, seconds: 0.")
    assert [line.split()[::2] for line in shown[8:]] == [["t", "1"], ["u", "1"]]
    assert lines(f"explain analyze SELECT k AS a, {joined}") == shown
    stats = db.view("j").stats()
    seconds = stats["seconds"], stats["last_batch"]["seconds"]  # type: ignore[index]
    assert all(0 < seconds[1][name] <= seconds[0][name] < 60 for name in "tu")  # type: ignore[index]
    with pytest.raises(SqlError, match="no view has this query"):
        db.execute("EXPLAIN ANALYZE SELECT k FROM t")
    with pytest.raises(SchemaError, match="there is no view 'nothing'"):
        db.execute("EXPLAIN ANALYZE nothing")
