"""The Python Database API: its compliance suite, and what users of it meet beside that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dbapi20
import pandas as pd
import pytest

import viewlet
from viewlet import dbapi


class TestCompliance(dbapi20.DatabaseAPI20Test):
    """The suite of Stuart Bishop and others, over a directory; what PEP 249 leaves open is said here."""

    driver = dbapi
    ddl1 = "CREATE TABLE dbapi20test_booze (name VARCHAR)"
    ddl2 = "CREATE TABLE dbapi20test_barflys (name VARCHAR, drink VARCHAR)"

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path) -> None:
        self.connect_args = (tmp_path,)
        self.connect_kw_args = {"fsync": False}

    def test_nextset(self) -> None:
        with self._connect() as connection:
            assert not hasattr(connection.cursor(), "nextset")  # a statement has one answer

    def test_setoutputsize(self) -> None:
        with self._connect() as connection:
            cursor = connection.cursor()
            cursor.setoutputsize(1000)
            assert cursor.execute("SELECT 'a' AS s").fetchall() == [("a",)]

    def test_non_idempotent_close(self) -> None:
        connection = self._connect()
        connection.close()
        with pytest.raises(dbapi.Error):
            connection.close()


del dbapi20  # its class is no test of its own


@pytest.fixture
def connection() -> Iterator[Any]:
    with dbapi.connect() as made:
        made.cursor().execute("CREATE TABLE t (k INTEGER PRIMARY KEY, s VARCHAR, x DECIMAL(6,2), at TIMESTAMP)")
        made.cursor().execute("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
        yield made


def test_a_transaction_is_one_batch(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("INSERT INTO t (k, s) VALUES (?, ?)", (1, "a"))
    cursor.executemany("INSERT INTO t (k, s) VALUES (?, ?)", [(2, "a"), (3, "it's")])
    assert cursor.rowcount == 2
    cursor.execute("UPDATE t SET s = ? WHERE k = ?", ["b", 2])
    assert (cursor.rowcount, connection.database.epoch) == (1, 0)
    assert cursor.execute("SELECT k, s FROM t ORDER BY k").fetchall() == [(1, "a"), (2, "b"), (3, "it's")]
    with pytest.raises(dbapi.ProgrammingError, match="after COMMIT"):
        cursor.execute("SELECT * FROM v")
    connection.commit()
    assert connection.database.epoch == 1
    assert sorted(cursor.execute("SELECT * FROM v")) == [("a", 1), ("b", 1), ("it's", 1)]
    cursor.execute("DELETE FROM t")
    connection.rollback()
    assert cursor.execute("SELECT COUNT(*) FROM t").fetchone() == (3,)
    connection.autocommit = True
    cursor.execute("DELETE FROM t WHERE k = :k", {"k": 1})
    assert (connection.database.epoch, len(connection.database.table("t"))) == (2, 2)


def test_rows_and_types(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.executemany(
        "INSERT INTO t VALUES (?, ?, ?, ?)", [(i, str(i), None, dbapi.Timestamp(2026, 1, 1)) for i in range(9)]
    )
    cursor.execute('SELECT k, s, x, "at", k AS k FROM t ORDER BY k')
    codes = [each[1] for each in cursor.description]
    assert codes == [dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.NUMBER]
    assert codes[0] != dbapi.STRING
    assert cursor.fetchmany(2) == [(i, str(i), None, dbapi.Timestamp(2026, 1, 1), i) for i in range(2)]
    assert [row[0] for row in cursor] == list(range(2, 9))
    assert (cursor.fetchone(), cursor.fetchall(), cursor.rowcount) == (None, [], 9)
    cursor.execute("SELECT k FROM t WHERE k > 6")
    assert cursor.fetch_arrow_table().to_pylist() == [{"k": 7}, {"k": 8}]
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pd.read_sql("SELECT s, k FROM t WHERE k < ? ORDER BY k", connection, params=(2,))
    assert frame.values.tolist() == [["0", 0], ["1", 1]]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT * FROM nobody", dbapi.ProgrammingError),
        ("INSERT INTO t (k) VALUES (7)", dbapi.IntegrityError),
        ("INSERT INTO c VALUES (1)", dbapi.IntegrityError),
        ("INSERT INTO t (k) VALUES ('x')", dbapi.DataError),
        ("CREATE VIEW w AS SELECT median(k) OVER () FROM t", dbapi.NotSupportedError),
        ("SELECT ?", dbapi.ProgrammingError),
    ],
)
def test_errors(connection: Any, sql: str, error: type[Exception]) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE c (a INTEGER CHECK (a > 1))")
    cursor.execute("INSERT INTO t (k) VALUES (7)")
    connection.commit()
    with pytest.raises(error):  # noqa: PT012 - a constraint is checked when the batch is applied
        cursor.execute(sql)
        connection.commit()


def test_a_connection_of_viewlet_stays_open() -> None:
    database = viewlet.connect()
    with dbapi.connect(database) as connection:
        connection.cursor().execute("CREATE TABLE t (k INTEGER)")
        connection.cursor().execute("INSERT INTO t VALUES (1)")
    assert database.table("t").rows() == [(1,)]
    with pytest.raises(ZeroDivisionError), dbapi.connect(database) as connection:  # noqa: PT012
        connection.cursor().execute("INSERT INTO t VALUES (2)")
        raise ZeroDivisionError
    assert database.table("t").rows() == [(1,)]
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect("")
