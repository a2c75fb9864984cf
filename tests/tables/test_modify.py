"""UPDATE and DELETE by primary key read the rows with these keys, not the whole table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.tables import TableStore

ROWS = [(k, f"g{k % 3}", k * 10) for k in range(40)]


@pytest.fixture(params=["dictionary", "flat"])
def db(request: pytest.FixtureRequest) -> viewlet.Connection:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT, g VARCHAR, x BIGINT, PRIMARY KEY (g, k))")
    db.execute("CREATE TABLE d (day DATE PRIMARY KEY, x BIGINT)")
    db.execute("INSERT INTO d VALUES (DATE '2026-01-02', 1), (DATE '2026-01-03', 2)")
    if request.param == "flat":
        request.getfixturevalue("flat")
    k, g, x = zip(*ROWS, strict=True)
    db.insert("t", pa.table({"k": k, "g": g, "x": x}) if request.param == "flat" else ROWS)
    return db


@pytest.fixture
def by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableStore, "arrow", lambda self: pytest.fail("the whole table was read"))


BY_KEY = {
    "UPDATE t SET x = x + 1 WHERE k = 5 AND g = 'g2'": {(5, "g2", 51)},
    "UPDATE t SET x = -x, g = 'new' WHERE t.g = 'g2' AND 5 = k": {(5, "new", -50)},
    "UPDATE t AS z SET x = 0 WHERE z.k IN (5, 6, 1000) AND (g = 'g2' AND x > 1)": {(5, "g2", 0)},
    "DELETE FROM t WHERE k = 5 AND g = 'g2'": set(),
    "DELETE FROM t WHERE k IN (5, 8) AND g IN ('g0', 'g2') AND x < 55": {(8, "g2", 80)},
    "DELETE FROM t WHERE k = 5 AND g = 'nobody'": {(5, "g2", 50)},
    "DELETE FROM t WHERE k = 5 AND k = 6 AND g = 'g2'": {(5, "g2", 50)},
    "DELETE FROM t WHERE k = 5 AND g = 'g2' AND NULL": {(5, "g2", 50)},
}


@pytest.mark.usefixtures("by_key")
@pytest.mark.parametrize("statement", BY_KEY)
def test_by_key(db: viewlet.Connection, statement: str) -> None:
    count = db.execute(statement)
    rows = set(db.table("t").rows())
    changed = {row for row in rows if row not in ROWS}
    kept = {row for row in BY_KEY[statement] if row in ROWS}
    assert changed == BY_KEY[statement] - kept
    assert kept <= rows
    assert count == len(set(ROWS) - rows)


@pytest.mark.usefixtures("by_key")
def test_by_date(db: viewlet.Connection) -> None:
    assert db.execute("UPDATE d SET x = 7 WHERE day = DATE '2026-01-03'") == 1
    assert [x for _, x in db.table("d").rows()] == [1, 7]


BY_SCAN = [
    "DELETE FROM t WHERE k = 5",
    "DELETE FROM t WHERE k = 5 OR g = 'g2'",
    "DELETE FROM t WHERE NOT (k = 5 AND g = 'g2')",
    "DELETE FROM t WHERE k = '5' AND g = 'g2'",
    "DELETE FROM t WHERE k = 5.0 AND g = 'g2'",
    "DELETE FROM t WHERE k = 4 + 1 AND g = 'g2'",
    "DELETE FROM t WHERE k = x AND g = 'g0'",
    "DELETE FROM t WHERE k = 99999999999999999999 AND g = 'g0'",
    "DELETE FROM t WHERE k IN (5, NULL) AND g = 'g2'",
    "DELETE FROM t WHERE k NOT IN (5) AND g = 'g2'",
    "DELETE FROM t WHERE k = 5 AND g = 'g2' AND x < (SELECT MAX(x) FROM t)",
    "UPDATE t SET x = (SELECT MAX(x) FROM t) WHERE k = 5 AND g = 'g2'",
    "UPDATE t SET x = 1 WHERE k IN (SELECT k FROM t WHERE x > 100) AND g = 'g2'",
    "UPDATE t SET x = 1",
]


@pytest.mark.parametrize("statement", BY_SCAN)
def test_other_conditions_read_the_whole_table(db: viewlet.Connection, statement: str) -> None:
    """DuckDB is the oracle."""
    import duckdb

    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE t (k BIGINT, g VARCHAR, x BIGINT)")
    oracle.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    (changed,) = oracle.execute(statement).fetchone() or (None,)
    assert db.execute(statement) == changed
    found: list[Any] = oracle.execute("SELECT * FROM t ORDER BY ALL").fetchall()
    assert db.table("t").rows() == found


@pytest.mark.usefixtures("by_key")
def test_a_key_that_is_there_already(db: viewlet.Connection) -> None:
    with pytest.raises(viewlet.DataError, match="duplicate key"):
        db.execute("UPDATE t SET k = 8 WHERE k = 5 AND g = 'g2'")
    assert db.table("t").rows() == sorted(ROWS)
