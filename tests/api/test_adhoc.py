"""Ad-hoc SQL: what it may reach, and what its errors say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import viewlet
from viewlet.adhoc import AdHoc
from viewlet.connection.spark_facade import connect_inline

OUTSIDE = [
    "SELECT * FROM read_text('{}/secret.txt')",
    "SELECT content FROM read_blob('{}/secret.txt')",
    "SELECT * FROM read_csv('{}/secret.txt')",
    "SELECT * FROM read_json('{}/secret.json')",
    "SELECT * FROM read_parquet('{}/secret.parquet')",
    "SELECT * FROM parquet_metadata('{}/secret.parquet')",
    "SELECT * FROM sniff_csv('{}/secret.txt')",
    "SELECT * FROM glob('{}/*')",
    "SELECT * FROM '{}/secret.parquet'",
    "SELECT * FROM '{}/secret.csv'",
    'SELECT * FROM "{}/secret.csv"',
    "SELECT * FROM 'http://localhost:9/x.parquet'",
    "SELECT * FROM query('SELECT content FROM read_text(''{}/secret.txt'')')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''{}/secret.txt'')'))",
    "SELECT * FROM enable_profiling(save_location := '{}/written')",
    "SELECT * FROM enable_logging(storage := 'file', storage_path := '{}/written')",
    "SELECT k FROM t WHERE s = (SELECT content FROM read_text('{}/secret.txt'))",
    "INSERT INTO t SELECT 2, content FROM read_text('{}/secret.txt')",
    "UPDATE t SET s = (SELECT content FROM read_text('{}/secret.txt'))",
    "DELETE FROM t WHERE s = (SELECT content FROM read_text('{}/secret.txt'))",
    "COPY (SELECT 1) TO '{}/written'",
    "COPY t FROM '{}/secret.txt'",
]
STATEMENTS = [
    "ATTACH '{}/written'",
    "EXPORT DATABASE '{}/written'",
    "IMPORT DATABASE '{}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "USE memory",
    "CHECKPOINT",
    "SELECT 1; ATTACH '{}/written'",
    "SELECT $a$ ' $a$; ATTACH '{}/written'; -- '",
    "SELECT 1 -- \r; ATTACH '{}/written'",
    "SELECT 1 /* /* */; COPY (SELECT 1) TO '{}/written'; -- */ */",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    return tmp_path


@pytest.fixture
def db() -> viewlet.Connection:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k BIGINT, s VARCHAR); INSERT INTO t VALUES (1, 'one')")
    return db


@pytest.mark.parametrize("sql", OUTSIDE)
def test_a_query_reads_nothing_outside_the_database(sql: str, db: viewlet.Connection, folder: Path) -> None:
    with pytest.raises(viewlet.ViewletError, match=r"external_access=True") as caught:
        db.execute(sql.format(folder))
    assert not isinstance(caught.value, viewlet.InternalError)
    assert not (folder / "written").exists()
    assert db.table("t").rows() == [(1, "one")]


@pytest.mark.parametrize("access", [False, True])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_other_statements_of_duckdb_are_refused(sql: str, access: bool, folder: Path) -> None:
    db = viewlet.connect(external_access=access)
    db.execute("CREATE TABLE t (k BIGINT, s VARCHAR)")
    with pytest.raises(viewlet.SqlError):
        db.execute(sql.format(folder))
    assert not (folder / "written").exists()


def test_a_database_in_partitions_is_closed_too(folder: Path, tmp_path: Path) -> None:
    db = connect_inline(tmp_path / "checkpoint", 2)
    with pytest.raises(viewlet.SqlError, match=r"external_access=True"):
        db.execute(f"SELECT * FROM read_text('{folder}/secret.txt')")
    db.close()


def test_external_access_can_be_allowed(folder: Path) -> None:
    db = viewlet.connect(external_access=True)
    assert db.execute(f"SELECT content FROM read_text('{folder}/secret.txt')").to_pylist() == [{"content": "secret"}]
    assert db.execute(f"SELECT a FROM '{folder}/secret.csv'").to_pylist() == [{"a": 1}]


def test_folders_of_the_process_are_closed(
    db: viewlet.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB lets queries read its folder for spilled rows, which is `.tmp` of the working folder unless one is set."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "secret").write_text("secret")
    with pytest.raises(viewlet.SqlError, match=r"external_access=True"):
        db.execute("SELECT content FROM read_text('.tmp/secret')")


@pytest.mark.parametrize("access", [False, True])
def test_a_variable_of_the_program_is_no_table(access: bool) -> None:
    import pyarrow as pa

    secret = pa.table({"a": [1]})
    db = viewlet.connect(external_access=access)
    with pytest.raises(viewlet.SqlError, match="no table or view 'secret'"):
        db.execute("SELECT * FROM secret")
    assert secret.num_rows == 1


def test_the_environment_is_closed(db: viewlet.Connection) -> None:
    os.environ["VIEWLET_TEST_SECRET"] = "secret"
    with pytest.raises(viewlet.SqlError, match=r"getenv\(\) does not exist"):
        db.execute("SELECT getenv('VIEWLET_TEST_SECRET')")


@pytest.mark.parametrize("closed", [True, False])
def test_spilled_rows_are_private_and_go(closed: bool) -> None:
    adhoc = AdHoc()
    answer = adhoc.query("SELECT current_setting('temp_directory') AS f", {}, lambda name: viewlet.SqlError(name))
    folder = Path(answer.to_pylist()[0]["f"])
    assert folder.stat().st_mode & 0o777 == 0o700
    if closed:
        adhoc.close()
    del adhoc
    assert not folder.exists()


ERRORS = [
    ("SELECT zz FROM t", viewlet.SqlError, "column 'zz' does not exist", "zz"),
    ("SELECT kk FROM t", viewlet.SqlError, "did you mean 'k'", "kk"),
    ("SELECT q.k FROM t", viewlet.SqlError, "table 'q' does not exist", "q"),
    ("SELECT * FROM memory.main.t", viewlet.SqlError, "in no database and no schema: write 't'", "t"),
    ("SELECT * FROM tt", viewlet.SqlError, "no table or view 'tt'; did you mean 't'", "tt"),
    ("SELECT nofun(k) FROM t", viewlet.SqlError, "function nofun() does not exist", "nofun"),
    ("SELECT SUM(k), s FROM t", viewlet.SqlError, "must appear in the GROUP BY", None),
    ("SELECT CAST(s AS BIGINT) FROM t", viewlet.DataError, "Could not convert string 'one'", None),
    ("SELECT 9223372036854775807 + k FROM t", viewlet.DataError, "Overflow in addition", None),
    ("SELECT k FROM t GROUP", viewlet.SqlError, "syntax error", None),
    ("SELECT ?", viewlet.SqlError, "parameters", None),
    ("INSERT INTO t SELECT zz, s FROM t", viewlet.SqlError, "column 'zz' does not exist", "zz"),
    ("UPDATE t SET k = CAST(s AS BIGINT)", viewlet.DataError, "Could not convert", None),
]


@pytest.mark.parametrize(("sql", "kind", "message", "fragment"), ERRORS)
def test_errors_of_duckdb_become_ours(
    sql: str, kind: type[viewlet.ViewletError], message: str, fragment: str | None, db: viewlet.Connection
) -> None:
    with pytest.raises(kind) as caught:
        db.execute(sql)
    text = str(caught.value)
    assert message in text
    assert not any(
        word in text for word in ("Binder Error", "Catalog Error", "LINE 1", "Candidate", "new_rows", '"SET ')
    )
    if fragment is not None:
        assert isinstance(caught.value, viewlet.SqlError)
        assert caught.value.fragment == fragment


def test_a_long_query_shows_no_progress(db: viewlet.Connection) -> None:
    setting = db.execute("SELECT value FROM duckdb_settings() WHERE name = 'enable_progress_bar'")
    assert setting.to_pylist() == [{"value": "false"}]
