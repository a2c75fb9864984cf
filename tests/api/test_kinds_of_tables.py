"""Static tables are loaded once; streams pass through."""

from __future__ import annotations

import pytest

import viewlet
from viewlet import Connection, SchemaError


@pytest.fixture
def db() -> Connection:
    db = viewlet.connect()
    db.execute(
        "CREATE STATIC TABLE nation (k BIGINT PRIMARY KEY, name VARCHAR); CREATE STREAM clicks (k BIGINT, n BIGINT)"
    )
    return db


JOIN = "CREATE MATERIALIZED VIEW v AS SELECT name, SUM(n) AS n FROM clicks JOIN nation USING (k) GROUP BY name"


def test_a_static_table_joins_a_stream(db: Connection) -> None:
    db.insert("nation", [(1, "France"), (2, "Ghana")])
    db.execute(JOIN)
    db.insert("clicks", [(1, 10), (1, 6), (2, 5), (3, 1)])
    db.delete("clicks", [(1, 10)])  # trusted: the stream cannot know
    assert db.view("v").rows() == [("France", 6), ("Ghana", 5)]


def test_a_static_table_is_fixed_once_used(db: Connection) -> None:
    db.insert("nation", [(1, "France")])
    with pytest.raises(SchemaError, match="only be inserted"):
        db.delete("nation", [(1, "France")])
    db.execute(JOIN)
    with pytest.raises(SchemaError, match="'nation' is a STATIC TABLE and already used by view 'v'"):
        db.insert("nation", [(2, "Ghana")])
    db.execute("DROP VIEW v")
    db.insert("nation", [(2, "Ghana")])
    assert len(db.table("nation")) == 2


def test_a_stream_takes_no_view_after_its_first_batch(db: Connection) -> None:
    db.insert("clicks", [])
    db.execute("CREATE MATERIALIZED VIEW early AS SELECT SUM(n) AS n FROM clicks")
    db.insert("clicks", [(1, 10)])
    with pytest.raises(SchemaError, match="stream 'clicks' has already received rows"):
        db.execute("CREATE MATERIALIZED VIEW late AS SELECT COUNT(*) AS n FROM clicks")
    db.execute("CREATE MATERIALIZED VIEW over AS SELECT n + 1 AS n FROM early")
    assert db.view("over").rows() == [(11,)]
    assert db.views == ("early", "over")


def test_a_stream_cannot_be_read(db: Connection) -> None:
    for read in (lambda: db.table("clicks").rows(), lambda: db.execute("SELECT * FROM clicks")):
        with pytest.raises(SchemaError, match="stream"):
            read()
    assert db.stats()["tables"]["clicks"]["rows"] is None  # type: ignore[index]
