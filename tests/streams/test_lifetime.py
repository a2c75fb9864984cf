"""How long parts and streams count: the newest part alone, idle streams, the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.streams.model import at
from viewlet.errors import DataError, SchemaError, SqlError
from viewlet.streams.times import to_microseconds

M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"


def test_views_over_the_newest_part() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute("CREATE VIEW now AS SELECT g, SUM(x) AS x FROM m [WINDOW 2 MINUTES] GROUP BY g SHOW NEWEST")
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(x) AS x FROM now")
    changes: list[Any] = []
    db.view("now").subscribe(lambda epoch, changed: changes.append(changed.to_pylist()))
    for minute in range(4):
        db.insert("m", [(at(60 * minute), "a", minute), (at(60 * minute), f"g{minute}", 1)])
    assert db.view("now").rows() == [("a", 3, at(120)), ("g1", 1, at(120)), ("g2", 1, at(120))]
    assert db.view("total").rows() == [(3, 5)]
    assert len(changes[-1]) == 6
    assert len(db.view("now").parts()) == 3
    db.insert("m", [(at(0), "late", 9)])  # changes windows before the newest
    assert db.view("total").rows() == [(3, 5)]
    db.insert("m", [(at(61), "late", 9)])
    assert db.view("total").rows() == [(4, 14)]
    db.delete("m", [(at(60), "a", 1)])
    assert db.view("total").rows() == [(4, 13)]
    assert db.execute("SELECT COUNT(*) AS n FROM now WHERE part_timestamp >= '2015-01-01'").to_pylist() == [{"n": 4}]
    db.close_parts("m", at(600))
    assert db.view("now").rows() == []
    assert db.view("total").rows() == [(0, None)]


def test_idle_streams_do_not_hold_up_others() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute("CREATE STREAM n (ts TIMESTAMP, g VARCHAR) PARTITION LENGTH 60 BY ts IDLE AFTER INTERVAL '10' SECONDS")
    db.execute(
        "CREATE VIEW v AS SELECT m.g, COUNT(n.g) AS n FROM m [WINDOW 1 MINUTE] LEFT JOIN n [WINDOW 1 MINUTE] "
        "ON m.g = n.g GROUP BY m.g"
    )
    maintainer = db._session.database().host.warehouse.maintainer  # type: ignore[attr-defined]
    now = maintainer.clock()
    maintainer.clock = lambda: now
    db.insert("n", [(at(0), "a"), (at(60), "a")])
    db.insert("m", [(at(60 * minute), "a", 1) for minute in range(5)])
    assert db.view("v").rows() == [("a", 1, at(0))]
    now += 11_000_000
    db.insert("m", [(at(300), "a", 1)])
    assert [row[1] for row in sorted(db.view("v").rows(), key=lambda row: row[2])] == [1, 1, 0, 0, 0]
    db.insert("n", [(at(121), "a")])  # late, and awake
    assert [row[1] for row in sorted(db.view("v").rows(), key=lambda row: row[2])] == [1, 1, 1, 0, 0]
    db.insert("m", [(at(400), "a", 1)])
    assert len(db.view("v").parts()) == 5


def test_old_parts_are_archived(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(M + " LATENESS INTERVAL '1' MINUTE RETAIN INTERVAL '2' MINUTES ARCHIVE")
        query = "SELECT g, SUM(x) AS x FROM m [WINDOW 1 MINUTE] GROUP BY g"
        db.execute(f"CREATE VIEW v AS {query} RETAIN INTERVAL '1' MINUTE ARCHIVE")
        for minute in range(8):
            db.insert("m", [(at(60 * minute), "a", minute)])
        kept = [row[2] for row in db.table("m").rows()]
        assert kept == list(range(8))[-len(kept) :]
        assert len(kept) < 8
        assert [row["x"] for row in db.archived_rows("m").to_pylist()] == list(range(8 - len(kept)))
        shown = [row[1] for row in db.view("v").rows()]
        assert [*(row["x"] for row in db.view("v").archived().to_pylist()), *shown] == list(range(7))
    with viewlet.connect(tmp_path / "db") as db:
        assert len(db.archived_rows("m")) == 8 - len(kept)


def test_an_archive_in_memory_and_what_is_refused() -> None:
    db = viewlet.connect()
    db.execute(M + " LATENESS INTERVAL '0' SECONDS RETAIN INTERVAL '1' MINUTES ARCHIVE")
    db.insert("m", [(at(60 * minute), "a", minute) for minute in range(5)])
    assert [row["x"] for row in db.archived_rows("m").to_pylist()] == [0, 1, 2]
    db.execute("CREATE TABLE t (x BIGINT)")
    with pytest.raises(SchemaError, match="no parts"):
        db.archived_rows("t")
    with pytest.raises(SqlError):
        db.execute("CREATE STREAM o (ts TIMESTAMP) PARTITION LENGTH 60 BY ts SHOW NEWEST")
    with pytest.raises(SqlError):
        db.execute("CREATE STREAM o (ts TIMESTAMP) PARTITION LENGTH 60 BY ts IDLE AFTER INTERVAL '1' MONTH")


def test_rows_by_the_time_of_their_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    def clock(db: viewlet.Connection, second: int) -> None:
        maintainer = db._session.database().host.warehouse.maintainer  # type: ignore[attr-defined]
        maintainer.clock = lambda: to_microseconds(at(second))

    with viewlet.connect(tmp_path / "db") as db:
        db.execute("CREATE STREAM m (g VARCHAR, ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts AT ARRIVAL")
        db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 2 MINUTES] GROUP BY g")
        clock(db, 5)
        db.insert("m", [("a", 1), ("a", 1)])
        clock(db, 70)
        db.insert("m", pa.table({"x": [2], "g": ["a"]}))
        db.apply({"m": [{"g": "b", "x": 3}]}, batch_id=1)
        clock(db, 0)  # a clock that was put back does not make rows late
        db.execute("INSERT INTO m (g, x) VALUES ('b', 4)")
        expected = [("a", at(5), 1), ("a", at(5), 1), ("a", at(70), 2), ("b", at(70), 3), ("b", at(70), 4)]
        assert db.table("m").rows() == expected
    with viewlet.connect(tmp_path / "db") as db:
        clock(db, 130)
        db.insert("m", [("c", at(125), 9)])  # a row that brings its time keeps it
        db.delete("m", [("a", at(5), 1)])
        assert db.view("v").rows() == [("a", 1, at(0)), ("a", 3, at(60)), ("b", 7, at(60))]
        with pytest.raises(DataError, match="give all columns"):
            db.apply({"m": [{"g": "a", "x": 1, "_multiplicity": -1}]})
        with pytest.raises(DataError, match="expected 3"):
            db.insert("m", [("a",)])
        monkeypatch.setattr("viewlet.streams.times.now", lambda: to_microseconds(at(600)))
        db.close_parts("m")
        assert len(db.view("v").parts()) == 10
        db.execute(M.replace(" m ", " n "))
        with pytest.raises(SchemaError, match="until when"):
            db.close_parts("n")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT g, SUM(CAST(g AS BIGINT)) AS s FROM m [WINDOW 3 MINUTES] GROUP BY g",
        "SELECT g, MAX(CAST(g AS BIGINT)) AS s FROM TUMBLE(m, INTERVAL '2' MINUTES) GROUP BY g, window_start",
        "SELECT g, SUM(CAST(g AS BIGINT)) AS s FROM SESSION(m PARTITION BY g, INTERVAL '9' SECONDS) GROUP BY g",
        "SELECT g, SUM(CAST(g AS BIGINT)) AS s FROM m PATTERN [a+] WHERE a.x > 0 GROUP BY g",
        "SELECT ts, CAST(LAG(g) OVER (PARTITION BY g ORDER BY ts) AS BIGINT) AS s FROM m",
        "SELECT CAST(g AS BIGINT) AS s, x FROM GAPFILL(m PARTITION BY g)",
    ],
)
def test_a_view_whose_declaration_fails_leaves_nothing_behind(query: str) -> None:
    db = viewlet.connect()
    db.execute(M)
    db.insert("m", [(at(60 * minute), "a", minute) for minute in range(5)])
    with pytest.raises(DataError, match=r"Could not convert string 'a' to INT64.*view 'v': delete"):
        db.execute(f"CREATE VIEW v AS {query}")
    db.insert("m", [(at(600), "a", 1), (at(700), "a", 1)])
    assert (len(db.table("m")), db.views) == (7, ())
    db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS s FROM m [WINDOW 3 MINUTES] GROUP BY g")
    assert ("a", 3, at(120)) in db.view("v").rows()
