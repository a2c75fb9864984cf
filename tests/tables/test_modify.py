"""UPDATE and DELETE by primary key read the rows with these keys, not the whole table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.engine import ingest
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


def columns(rows: list[tuple[int, str, Any]]) -> pa.Table:
    k, g, x = zip(*rows, strict=True)
    return pa.table({"k": k, "g": g, "x": pa.array([Decimal(value) for value in x], pa.decimal128(9, 2))})


def test_many_rows_are_changed_as_columns(flat: None, monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x DECIMAL(9,2))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS x FROM t GROUP BY g")
    db.insert("t", columns(ROWS))
    monkeypatch.setattr(ingest, "to_changes", lambda *given: pytest.fail("the rows were converted one by one"))
    assert db.execute("UPDATE t SET x = x + 0.50, g = 'g' WHERE k >= 10") == 30
    assert db.execute("DELETE FROM t WHERE k < 5") == 5
    epoch = db.epoch
    assert db.execute("UPDATE t SET x = x") == 35
    assert db.epoch == epoch
    db.update("t", columns([row for row in ROWS if row[0] in (5, 6)]), columns([(5, "h", 2), (6, "h", 2)]))
    expected = {k: ("g", k * 10 + 0.5) if k >= 10 else (g, x) for k, g, x in ROWS if k >= 5}
    expected |= {5: ("h", 2), 6: ("h", 2)}
    assert {k: (g, float(x)) for k, g, x in db.table("t").rows()} == expected
    assert sum(float(x) for _, x in db.view("v").rows()) == sum(x for _, x in expected.values())


@pytest.mark.usefixtures("by_key")
def test_a_key_that_is_there_already(db: viewlet.Connection) -> None:
    with pytest.raises(viewlet.DataError, match="duplicate key"):
        db.execute("UPDATE t SET k = 8 WHERE k = 5 AND g = 'g2'")
    assert db.table("t").rows() == sorted(ROWS)
