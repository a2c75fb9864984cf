"""PREPARE, EXECUTE and DEALLOCATE."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import SqlError


@pytest.fixture
def db() -> Any:
    made = viewlet.connect()
    made.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, s VARCHAR); INSERT INTO t VALUES (1, 'a'), (2, 'it''s')")
    return made


def test_values_take_the_place_of_parameters(db: Any) -> None:
    db.execute("PREPARE find AS SELECT s FROM t WHERE k = $1 OR s = $2")
    assert db.execute("EXECUTE find(1, 'it''s')")["s"].to_pylist() == ["a", "it's"]
    assert db.execute("EXECUTE find(1 + 1, NULL)")["s"].to_pylist() == ["it's"]
    assert db.execute("EXECUTE find((SELECT MIN(k) FROM t), lower('X'))")["s"].to_pylist() == ["a"]
    db.execute(
        'PREPARE "Add" AS INSERT INTO t VALUES ($key, $text); EXECUTE "add"(text := \'; DROP TABLE t\', key := 3)'
    )
    assert db.table("t").rows()[-1] == (3, "; DROP TABLE t")
    db.execute("PREPARE all_of AS SELECT COUNT(*) AS n FROM t")
    assert db.execute("EXECUTE all_of").to_pylist() == [{"n": 3}]
    with db.transaction():
        db.execute("EXECUTE add(key := 4, text := NULL)")
        assert db.execute("EXECUTE all_of()").to_pylist() == [{"n": 4}]
    db.execute("PREPARE find AS SELECT 1 AS one")  # a new text takes the place of the old
    assert db.execute("EXECUTE find").to_pylist() == [{"one": 1}]


@pytest.mark.parametrize("row", ["1, -2, 3", "0.5, 1.25, 1e2", "NULL, TRUE, '7'", "2147483648, -0.5, 'x'"])
def test_literals_are_what_duckdb_says(row: str) -> None:
    types = ("BIGINT", "DOUBLE", "DECIMAL(9,2)", "VARCHAR")
    columns = ", ".join(f"c{i}{j} {type}" for i in range(3) for j, type in enumerate(types))
    cells = ", ".join(", ".join([f"${i + 1}"] * len(types)) for i in range(3))
    found = []
    for connect in (viewlet.connect, duckdb.connect):
        db: Any = connect()
        db.execute(f"CREATE TABLE t ({columns}); PREPARE one AS INSERT INTO t VALUES ({cells})")
        try:
            db.execute(f"EXECUTE one({row})")
            answer = db.sql("SELECT * FROM t") if connect is duckdb.connect else db.table("t")
            found.append(pa.table(answer).to_pylist())
        except (viewlet.ViewletError, duckdb.Error):
            found.append("refused")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("EXECUTE fnd(1)", "no prepared statement 'fnd'; did you mean 'find'"),
        ("EXECUTE find()", "has 1 parameter, and 0 values came"),
        ("EXECUTE find(1, 2)", "has 1 parameter, and 2 values came"),
        ("EXECUTE find(k := 1, 2)", "by name, or none"),
        ("EXECUTE find(nobody)", "nobody"),
        ("EXECUTE find 1", "is expected"),
        ("PREPARE find", "is expected"),
        ("DEALLOCATE nobody", "no prepared statement 'nobody'"),
        ("DEALLOCATE find; EXECUTE find(1)", "no prepared statement 'find'"),
        ("DEALLOCATE PREPARE find; DEALLOCATE find", "no prepared statement 'find'"),
    ],
)
def test_refusals(db: Any, sql: str, message: str) -> None:
    db.execute("PREPARE find AS SELECT s FROM t WHERE k = ?")
    with pytest.raises(SqlError, match=message):
        db.execute(sql)
