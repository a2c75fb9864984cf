"""Values beside the text of a statement: what they become, where they may stand, and what is refused."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viewlet
from viewlet.errors import DataError, SqlError, UnsupportedError
from viewlet.sql.parameters import literal, template

TABLE = """CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR, d DOUBLE, m DECIMAL(10,2), day DATE, at TIMESTAMP,
    b BOOLEAN)"""
ROW = (1, "it's", 0.5, Decimal("1.25"), datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4, 5, 6), True)


@pytest.fixture
def db() -> viewlet.Connection:
    made = viewlet.connect(engine="interpreter")
    made.execute(TABLE)
    return made


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")),
    st.dates(),
    st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
)


@given(VALUES)
def test_a_literal_is_its_value(value: Any) -> None:
    (found,) = duckdb.execute(f"SELECT {literal(value)}").fetchone() or ()
    assert found == value
    assert value is None or isinstance(found, type(value)) or isinstance(value, Decimal)


@given(st.lists(VALUES, max_size=4))
def test_values_reach_a_query(values: list[Any]) -> None:
    db = viewlet.connect()
    asked = ", ".join(f"? AS c{i}" for i in range(len(values)))
    (found,) = db.execute(f"SELECT 0 AS zero{', ' if values else ''}{asked}", values).to_pylist()
    assert list(found.values())[1:] == values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.datetime64("2020-01-02"), datetime.date(2020, 1, 2)),
        (np.datetime64("2020-01-02T03:04:05"), datetime.datetime(2020, 1, 2, 3, 4, 5)),
        (np.datetime64("NaT"), None),
        (pd.Timestamp("2020-01-02 03:04:05"), datetime.datetime(2020, 1, 2, 3, 4, 5)),
        (pd.NaT, None),
        (pd.NA, None),
    ],
)
def test_scalars_of_libraries(value: object, expected: object, db: viewlet.Connection) -> None:
    assert db.execute("SELECT ? AS x", [value]).to_pylist() == [{"x": expected}]


@pytest.mark.parametrize("marks", ["?, ?, ?, ?, ?, ?, ?", "$1, $2, $3, $4, $5, $6, $7"])
def test_a_row_is_inserted(marks: str, db: viewlet.Connection) -> None:
    assert db.execute(f"INSERT INTO t VALUES ({marks})", ROW) == 1
    assert db.table("t").rows() == [ROW]


def test_named_columns_casts_and_rows_that_need_them(db: viewlet.Connection) -> None:
    db.execute("INSERT INTO t (m, k) VALUES (?, ?)", ["1.255", "7"])
    db.execute('INSERT INTO "t" ("s", K) VALUES (:text, :key)', {"text": None, "key": 8})
    db.execute("INSERT INTO t (k, d) VALUES ($1, $2), ($1 + 1, $2)", (9, 1))
    assert [(row[0], row[2], row[3]) for row in db.table("t").rows()] == [
        (7, None, Decimal("1.26")),
        (8, None, None),
        (9, 1.0, None),
        (10, 1.0, None),
    ]


def test_many_rows_are_one_batch(db: viewlet.Connection) -> None:
    assert db.executemany("INSERT INTO t (k, s) VALUES (?, ?)", ((i, str(i)) for i in range(100))) == 100
    assert db.executemany("INSERT INTO t (k, s) VALUES (?, ?)", [(str(i), i) for i in (100, 101)]) == 2
    assert (db.epoch, len(db.table("t").rows())) == (2, 102)
    assert db.executemany("INSERT INTO t (k) VALUES (?)", []) == 0
    with pytest.raises(DataError, match="duplicate key"):
        db.executemany("INSERT INTO t (k) VALUES (?)", [(200,), (1,)])
    assert (db.epoch, len(db.table("t").rows())) == (2, 102)
    with pytest.raises(UnsupportedError, match=r"INSERT INTO \.\.\. VALUES"):
        db.executemany("DELETE FROM t WHERE k = ?", [(1,)])


def test_updates_deletes_and_views(db: viewlet.Connection) -> None:
    db.executemany("INSERT INTO t (k, d) VALUES (?, ?)", [(i, i / 2) for i in range(6)])
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE d > ? AND k <> $one".replace("$one", "?"), (0.5, 3))
    assert db.view("v").rows() == [(2,), (4,), (5,)]
    assert db.execute("UPDATE t SET d = :d WHERE k = :k", {"d": 0, "k": 2}) == 1
    assert db.execute("DELETE FROM t WHERE k IN (?, ?)", (4, 99)) == 1
    assert db.view("v").rows() == [(5,)]


def test_a_view_with_parameters_is_found_again(tmp_path: Any) -> None:
    with viewlet.connect(tmp_path / "d") as db:
        db.execute(TABLE)
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, ? AS label FROM t WHERE k > ?", ("a'; --", 1))
        db.executemany("INSERT INTO t (k) VALUES (?)", [(1,), (2,)])
    with viewlet.connect(tmp_path / "d") as db:
        assert db.view("v").rows() == [(2, "a'; --")]


def test_what_looks_like_a_parameter() -> None:
    assert template("SELECT '?', ':a', \"?\", a::INT, b[1:2], {'x':y}, x[c:d] -- ? :b", True).marks == ()
    assert template("SELECT :a, -:b, (:c), x = :a /* :d */", True).marks == ("a", "b", "c", "a")
    assert template("SELECT a :b", False).marks == ()


@pytest.mark.parametrize(
    ("sql", "parameters", "message"),
    [
        ("SELECT ?", (), "1 parameter, and 0 values"),
        ("SELECT 1", (1, 2), "0 parameters, and 2 values"),
        ("SELECT ?, $1", (1,), "not used in one text"),
        ("SELECT $1, ?", (1,), "not used in one text"),
        ("SELECT $0", (1,), r"numbered from \$1"),
        ("SELECT :a", {}, "no value for 'a'"),
        ("SELECT $a", (1,), "a value for 'a'"),
        ("SELECT $a", {"a": 1, "b": 2}, "no parameter 'b'"),
        ("SELECT ?", {"a": 1}, "has no name"),
        ("SELECT ?", ([1],), "no value of SQL"),
        ("SELECT ?", (b"x",), "no value of SQL"),
        ("SELECT ?", (Decimal("NaN"),), "no DECIMAL"),
        ("SELECT ?", (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),), "time zone"),
        ("SELECT ?", (np.datetime64(1, "ns"),), "finer than microseconds"),
        ("SELECT ?", (pd.Timestamp(1),), "finer than microseconds"),
        ("SELECT ?", (np.datetime64(2**62, "s"),), "out of range"),
        ("SELECT ?", "a", "a sequence or a mapping"),
        ("SELECT ?", 5, "a sequence or a mapping"),
        ("SELECT ?", None, "takes their values"),
        ("CREATE VIEW v AS SELECT k FROM t WHERE k = ?", None, "a parameter without a value"),
        ("INSERT INTO t (k) VALUES (?)", (None,), "NULL is refused"),
        ("INSERT INTO t (k) VALUES (?)", ("abc",), "abc"),
        ("INSERT INTO t (nobody) VALUES (?)", (1,), "nobody"),
        ("INSERT INTO t (k, k) VALUES (?, ?)", (1, 2), "listed twice"),
        ("INSERT INTO t VALUES (?)", (1,), "values for 7 columns"),
        ("INSERT INTO nobody VALUES (?)", (1,), "nobody"),
    ],
)
def test_what_is_refused(sql: str, parameters: Any, message: str, db: viewlet.Connection) -> None:
    with pytest.raises((SqlError, DataError), match=message):
        db.execute(sql, parameters)
    assert db.epoch == 0
