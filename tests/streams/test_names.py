"""Names and literals of users that look like SQL: they stay names and literals in every generated query."""

from __future__ import annotations

import pytest

import viewlet
from tests.streams.model import at
from viewlet.errors import SqlError

STREAM = 'we"ird [x] $part0_0'
COLUMN = "a\"b'; DROP TABLE x; --"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_hostile_names_are_names() -> None:
    db = viewlet.connect()
    stream, column, moment = quoted(STREAM), quoted(COLUMN), quoted("order")
    columns = f'{moment} TIMESTAMP, {column} VARCHAR, "select" BIGINT'
    db.execute(f"CREATE STREAM {stream} ({columns}) PARTITION LENGTH 60 BY {moment}")
    literal = "'$part0_0 \"$part0_1\"'"
    db.execute(f"""CREATE VIEW "v[j]" AS INITIALIZE "v[j]"[i] AS SELECT {column}, {literal} AS t FROM {stream}[i]
        UPDATE "v[j]"[j] AS SELECT {column}, {literal} FROM {stream}[j]""")
    db.execute(f"""CREATE VIEW "w'" AS SELECT {column}, SUM("select") AS s FROM {stream} [WINDOW 5 MINUTES]
        GROUP BY {column}""")
    db.execute(f"""CREATE VIEW p AS SELECT {column}, COUNT(*) AS n, SUM("select") AS s FROM {stream} PATTERN [a, b+]
        WHERE b."select" > a."select" AND b.{column} = a.{column} GROUP BY {column}""")
    db.insert(STREAM, [(at(60 * minute), COLUMN, minute) for minute in range(4)])
    assert db.view("v[j]").rows()[0] == (COLUMN, '$part0_0 "$part0_1"', at(0))
    assert [s for _, s, _ in db.view("w'").rows()] == [0, 1, 3]
    assert [(n, s) for _, n, s, _ in db.view("p").rows()] == [(2, 1), (3, 3)]


def test_queries_reach_nothing_outside() -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts")
    for query in ("SELECT * FROM read_csv('/etc/passwd')", "SELECT x FROM m[i]; DROP TABLE m", "DELETE FROM m"):
        with pytest.raises(SqlError):
            db.stream_view("v", initialize=query)


def test_a_view_over_parts_is_not_replaced() -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts")
    with pytest.raises(SqlError, match="DROP VIEW"):
        db.execute("CREATE OR REPLACE VIEW v AS SELECT SUM(x) AS x FROM m [WINDOW 5 MINUTES]")
