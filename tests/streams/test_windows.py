"""Sliding windows: what they keep, what they forget, and windows as table functions."""

from __future__ import annotations

import pytest

import viewlet
from tests.streams.model import at
from viewlet.errors import SqlError

M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"


@pytest.fixture
def db() -> viewlet.Connection:
    connection = viewlet.connect()
    connection.execute(M)
    return connection


def test_zero_and_negative_sums_stay_and_groups_without_rows_go(db: viewlet.Connection) -> None:
    db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 5 MINUTES] GROUP BY g")
    db.insert("m", [(at(0), "zero", 2), (at(1), "zero", -2), (at(2), "below", -7), (at(3), "none", None)])
    db.close_parts("m", at(360))
    newest = [(g, x) for g, x, time in db.view("v").rows() if time == at(240)]
    assert newest == [("below", -7), ("none", None), ("zero", 0)]
    assert [row for row in db.view("v").rows() if row[-1] == at(300)] == []


@pytest.mark.parametrize("is_native", [True, False])
def test_a_column_that_is_not_null_is_counted_with_its_rows(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_native:
        monkeypatch.setattr("viewlet.sql.streams.windows.NATIVE_WIDTH", 0)
    select = "g, SUM(x) AS x, AVG(x + 1) AS mean, COUNT(x) AS n, SUM(y) AS y, COUNT(y) AS m"
    found, columns = [], []
    for declared in ("x BIGINT", "x BIGINT NOT NULL"):
        db = viewlet.connect()
        db.execute(f"CREATE STREAM m (ts TIMESTAMP, g VARCHAR, {declared}, y BIGINT) PARTITION LENGTH 60 BY ts")
        db.execute(f"CREATE VIEW v AS SELECT {select} FROM m [WINDOW 5 MINUTES] GROUP BY g")
        for minute in range(12):
            rows = [("a", 2, None), ("b", -minute, minute if minute % 4 else None), (f"g{minute // 3}", 0, 1)]
            db.insert("m", [(at(60 * minute), *row) for row in rows])
        db.insert("m", [(at(200), "a", 5, 5)])
        found.append(sorted(db.view("v").rows(), key=repr))
        columns.append(db.explain("v").count("COUNT("))
        db.close()
    assert found[0] == found[1]
    assert ("a", 15, 3.5, 6, 5, 1, at(240)) in found[1]
    assert columns[1] < columns[0]


def test_dead_groups_leave_a_running_total(db: viewlet.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.sql.streams.windows.NATIVE_WIDTH", 0)
    db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x, COUNT(*) AS n FROM m [WINDOW 6 MINUTES] GROUP BY g")
    for minute in range(60):
        db.insert("m", [(at(60 * minute), f"g{minute}", 1), (at(60 * minute), "always", minute)])
    stored = db.view("v").stats()["stored"]
    (running,) = (rows for name, rows in stored.items() if name.startswith("running"))
    assert running < 7 * 40  # seven parts; without forgetting, each would have about sixty groups
    assert len(db.view("v").newest()) == 7
    assert {row["n"] for row in db.view("v").newest().to_pylist()} == {1, 6}


def test_similar_windows_share_a_helper(db: viewlet.Connection) -> None:
    for number in (7, 9):
        db.execute(f"CREATE VIEW v{number} AS SELECT g, SUM(x) AS x FROM m [WINDOW {number} MINUTES] GROUP BY g")
    helpers = [set(db.view(name).stats()["stored"]) - {name} for name in ("v7", "v9")]
    assert helpers[0] == helpers[1]
    db.execute("DROP VIEW v7")
    db.insert("m", [(at(60 * minute), "a", 1) for minute in range(12)])
    assert [x for _, x, _ in db.view("v9").rows()][-1] == 9


def test_a_window_declared_late_has_all_parts(db: viewlet.Connection) -> None:
    db.insert("m", [(at(60 * minute), "a", 1) for minute in range(20)])
    db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 6 MINUTES] GROUP BY g")
    assert [x for _, x, _ in db.view("v").rows()] == [1, 2, 3, 4, 5] + [6] * 14
    db.insert("m", [(at(60 * minute), "a", 1) for minute in range(20, 24)])
    assert [x for _, x, _ in db.view("v").rows()] == [1, 2, 3, 4, 5] + [6] * 18


def test_any_query_may_read_a_window(db: viewlet.Connection) -> None:
    db.execute("CREATE STREAM n (ts TIMESTAMP, g VARCHAR, y BIGINT) PARTITION LENGTH 60 BY ts")
    db.execute("CREATE VIEW middle AS SELECT g, MEDIAN(x) AS x FROM m [WINDOW 3 MINUTES] GROUP BY g")
    db.execute(
        "CREATE VIEW pairs AS SELECT a.g, x, y FROM m [WINDOW 2 MINUTES] AS a JOIN n [WINDOW 2 MINUTES] b ON a.g = b.g"
    )
    db.insert("m", [(at(0), "a", 1), (at(60), "a", 4), (at(120), "a", 9), (at(180), "b", 1)])
    db.insert("n", [(at(61), "a", 7), (at(180), "a", 8)])
    assert [x for _, x, _ in db.view("middle").rows()] == [1.0, 2.5, 4.0]
    assert db.view("pairs").part(at(120)).num_rows == 2


def test_tumbling_and_hopping_windows(db: viewlet.Connection) -> None:
    db.execute("""CREATE VIEW tumbled AS SELECT g, window_start, window_end, SUM(x) AS x
        FROM TUMBLE(m, INTERVAL '2' MINUTES) GROUP BY g, window_start, window_end""")
    db.execute("""CREATE VIEW hopped AS SELECT window_start, SUM(x) AS x
        FROM HOP(m, INTERVAL '1' MINUTE, INTERVAL '3' MINUTES) AS h GROUP BY window_start""")
    db.insert("m", [(at(60 * minute), "a", minute) for minute in range(7)])
    assert [(row[1], row[2], row[3]) for row in db.view("tumbled").rows()] == [
        (at(120 * number), at(120 * number + 120), 4 * number + 1) for number in range(3)
    ]
    assert [row[:2] for row in db.view("hopped").rows()][:4] == [(at(-120), 0), (at(-60), 1), (at(0), 3), (at(60), 6)]


@pytest.mark.parametrize(
    ("window", "reason"), [("90 SECONDS", "multiple"), ("1 MONTH", "no fixed length"), ("0 MINUTES", "positive")]
)
def test_windows_are_checked(db: viewlet.Connection, window: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW {window}] GROUP BY g")
