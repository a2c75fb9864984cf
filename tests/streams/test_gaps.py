"""Streams with long gaps, rows long before all others, and views that are declared when there are rows already.

Views that were declared first and have followed every batch are compared with queries of DuckDB over the closed rows,
and with views that are declared at the end.

    python -m tests.streams.test_gaps 0 200
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

import viewlet
from tests.streams.model import at
from viewlet import DataError
from viewlet.sql.streams import windows
from viewlet.streams import long_gaps

GAP = 120
"""Minutes; gaps of 40 are long here."""
M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"
VIEWS = {
    "sums": "SELECT g, SUM(x) AS x, COUNT(*) AS n FROM m [WINDOW 3 MINUTES] GROUP BY g",
    "totals": "SELECT g, SUM(x) AS x FROM m [WINDOW 7 MINUTES] GROUP BY g",
    "highest": "SELECT g, MAX(x) AS x FROM m [WINDOW 45 MINUTES] GROUP BY g HAVING MAX(x) > 5",
    "tumble": "SELECT g, window_start, SUM(x) AS x FROM TUMBLE(m, INTERVAL '5' MINUTES) GROUP BY g, window_start",
    "hop": """SELECT g, window_end, MIN(x) AS x FROM HOP(m, INTERVAL '2' MINUTES, INTERVAL '4' MINUTES)
        GROUP BY g, window_end EMIT ON WINDOW CLOSE""",
    "visits": """SELECT g, window_start, window_end, COUNT(*) AS n
        FROM SESSION(m PARTITION BY g, INTERVAL '90' SECONDS) GROUP BY g, window_start, window_end""",
    "rises": "SELECT ts, g, x, x - LAG(x) OVER (PARTITION BY g ORDER BY ts) AS rise FROM m",
    "pattern": "SELECT g, COUNT(*) AS n FROM m PATTERN [a, b+] WHERE a.x > 2 AND b.x > 2 GROUP BY g",
    "matches": """SELECT g, n FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES COUNT(*) AS n
        PATTERN (a b+) DEFINE b AS x > PREV(x))""",
    "ever": """INITIALIZE ever[i] FROM BEGINNING AS SELECT g, MAX(x) AS x FROM m[i] GROUP BY g UPDATE ever[j] AS
        SELECT g, MAX(x) FROM (SELECT g, x FROM m[j] UNION ALL SELECT g, x FROM ever_kept[j-1]) AS rows_
        WHERE g IN (SELECT g FROM m[j]) GROUP BY g""",
}
EVER = """CREATE VIEW ever_kept AS INITIALIZE ever_kept[i] FROM BEGINNING AS SELECT g, MAX(x) AS x FROM m[i] GROUP BY g
    UPDATE ever_kept[j] AS SELECT g, MAX(x) FROM (SELECT g, x FROM m[j] UNION ALL SELECT g, x FROM ever_kept[j-1]) AS r
    GROUP BY g"""
MINUTE = "date_trunc('minute', ts)"
ORACLES = {
    "sums": f"""SELECT g, SUM(x), COUNT(*), part FROM m JOIN parts ON part BETWEEN {MINUTE} AND {MINUTE} +
        INTERVAL 2 MINUTE GROUP BY g, part""",
    "totals": f"""SELECT g, SUM(x), part FROM m JOIN parts ON part BETWEEN {MINUTE} AND {MINUTE} + INTERVAL 6 MINUTE
        GROUP BY g, part""",
    "tumble": """SELECT g, time_bucket(INTERVAL 5 MINUTE, ts) AS s, SUM(x), s FROM m GROUP BY g, s""",
    "rises": f"SELECT ts, g, x, x - LAG(x) OVER (PARTITION BY g ORDER BY ts, x), {MINUTE} FROM m",
    "ever": f"""SELECT g, (SELECT MAX(x) FROM m AS b WHERE b.g = a.g AND date_trunc('minute', b.ts) <= part), part
        FROM (SELECT DISTINCT g, {MINUTE} AS part FROM m) AS a""",
}
Row = tuple[datetime, str, int]


def batches(seed: int) -> list[list[tuple[Row, int]]]:
    """Signed rows of which some are long before or after the others."""
    chance, here, found = random.Random(seed), Counter[Row](), []
    for _ in range(5):
        batch = []
        for _ in range(chance.randint(1, 6)):
            far = chance.choice((0, 0, 0, 0, 0, -2, -1, 1))
            minute = chance.choice((0, 1, 2, 3, 4, 8, 60)) + far * GAP
            row = (at(60 * minute + chance.choice((0, 17, 59))), chance.choice("ab"), chance.randrange(9))
            times = chance.choice((1, 1, 2))
            here[row] += times
            batch.append((row, times))
        if chance.random() < 0.5:
            row = chance.choice(sorted(here))
            if here[row] and row not in [each for each, _ in batch]:
                batch.append((row, -1))
                here[row] -= 1
                here = +here
        found.append(batch)
    return found


def declare(db: viewlet.Connection) -> None:
    db.execute(EVER)
    for name, query in VIEWS.items():
        db.execute(f"CREATE VIEW {name} AS {query}")


def expected(rows: list[Row], name: str) -> Counter[tuple[object, ...]]:
    closed = max(row[0] for row in rows).replace(second=0)
    with duckdb.connect() as connection:
        columns = zip(*[row for row in rows if row[0] < closed], strict=True)
        arrays = dict(zip("tgx", columns, strict=True))
        connection.register("rows", pa.table({"ts": arrays["t"], "g": arrays["g"], "x": arrays["x"]}) if arrays else [])
        connection.execute("CREATE TABLE m AS SELECT * FROM rows")
        connection.execute(
            "CREATE TABLE parts AS SELECT DISTINCT date_trunc('minute', ts) + k * INTERVAL 1 MINUTE AS part "
            f"FROM m, range(7) AS r(k) WHERE part < TIMESTAMP '{closed}'"
        )
        return Counter(connection.execute(ORACLES[name]).fetchall())


def play(seed: int) -> None:
    db = viewlet.connect()
    db.execute(M)
    declare(db)
    here = Counter[Row]()
    for number, batch in enumerate(batches(seed)):
        changes = [dict(zip(("ts", "g", "x", "_multiplicity"), (*row, times), strict=True)) for row, times in batch]
        db.apply({"m": changes})
        for row, times in batch:
            here[row] += times
        rows = list(here.elements())
        watermark = max(
            max(row[0] for each in batches(seed)[: number + 1] for row, times in each if times > 0), at(-9e8)
        )
        if not [row for row in rows if row[0] < watermark.replace(second=0)]:
            continue
        for name in ORACLES if number % 2 == 0 else ():
            known = [*rows, (watermark, "none", 0)]
            wanted, found = expected(known, name), Counter(db.view(name).rows())
            assert found == wanted, (seed, number, name, found - wanted, wanted - found)
    later = viewlet.connect()
    later.execute(M)
    later.insert("m", sorted(here.elements()))
    later.close_parts("m", watermark)
    declare(later)
    for name in VIEWS:
        assert Counter(later.view(name).rows()) == Counter(db.view(name).rows()), (seed, name)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps of 40 parts are long, and sums are kept by subtraction."""
    monkeypatch.setattr(long_gaps, "LONG", 40)
    monkeypatch.setattr(windows, "NATIVE_WIDTH", 0)


@pytest.mark.usefixtures("short")
def test_views_over_long_gaps_equal_a_recomputation() -> None:
    play(0)


def test_rows_of_the_year_9999_take_no_time() -> None:
    db = viewlet.connect()
    db.execute(M)
    for name, query in VIEWS.items():
        if name not in ("totals", "rises", "ever"):
            db.execute(f"CREATE VIEW {name} AS {query}")
    db.insert("m", [(at(60 * minute), "a", 9) for minute in range(5)])
    db.insert("m", [(datetime(9999, 12, 31, 23, 59), "a", 1), (datetime(2, 1, 1), "a", 2)])
    db.insert("m", [(at(90), "b", 4)])
    assert ("b", 4, 1, at(60)) in db.view("sums").rows()
    assert db.view("matches").rows() == [("a", 2, at(0))]
    assert len(db.view("sums").rows()) == 3 + 7 + 3


def test_a_total_in_every_part_of_a_gap_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_gaps, "MOST", 3_000)
    db = viewlet.connect()
    db.execute(M)
    total = "SELECT SUM(x) AS x, COUNT(*) AS n FROM m [WINDOW 2 MINUTES]"
    db.execute(f"CREATE VIEW v AS {total}")
    db.insert("m", [(at(0), "a", 9), (at(60 * 2_500), "a", 1)])
    assert len(db.view("v").rows()) == 2_500
    before = db.view("v").rows()
    for moment in (datetime(9999, 1, 1), at(-60 * 9_000)):
        with pytest.raises(DataError, match="parts with rows at once"):
            db.insert("m", [(moment, "a", 1)])
    assert db.view("v").rows() == before
    db.insert("m", [(at(60 * 2_501), "a", 1)])
    assert len(db.view("v").rows()) == 2_501


def test_windows_that_are_longer_than_time() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.stream_view("p", initialize="SELECT g, SUM(x) AS x FROM m[i-1000000000..i] GROUP BY g")
    db.execute("CREATE VIEW w AS SELECT g, MAX(x) AS x FROM m [WINDOW 1000000000 MINUTES] GROUP BY g")
    db.insert("m", [(at(60 * minute), "a", minute) for minute in range(5)])
    db.insert("m", [(at(0), "a", 50)])
    assert [x for _, x, _ in db.view("p").rows()] == [50, 51, 53, 56]
    assert [x for _, x, _ in db.view("w").rows()] == [50] * 4
    assert "closed before" in db.explain("p", "next")


def test_rows_too_far_ahead_of_the_clock_are_put_aside() -> None:
    db = viewlet.connect()
    db.execute(f"{M} AHEAD INTERVAL '1' DAY")
    db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 2 MINUTES] GROUP BY g")
    now = datetime.now(UTC).replace(tzinfo=None)
    db.insert("m", [(at(0), "a", 1), (now + timedelta(days=2), "a", 5), (now + timedelta(days=900), "a", 6)])
    assert sorted(db.late_rows("m").column("x").to_pylist()) == [5, 6]
    assert db.view("v").rows() == []
    db.insert("m", [(at(30), "a", 2), (now + timedelta(hours=20), "a", 7)])
    assert [x for _, x, _ in db.view("v").rows()] == [3, 3]


def test_a_view_over_a_stream_that_has_lost_parts_begins_with_what_is_kept() -> None:
    db = viewlet.connect()
    db.execute(f"{M} LATENESS INTERVAL '1' MINUTE RETAIN INTERVAL '5' MINUTES")
    db.insert("m", [(at(60 * minute), "a", 1) for minute in range(20)])
    db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 3 MINUTES] GROUP BY g")
    assert [(x, part) for _, x, part in db.view("v").rows()] == [(3, at(60 * minute)) for minute in (16, 17, 18)]
    assert "what m had before 2015-01-01 10:14:00 is no longer kept" in db.explain("v", "next")


if __name__ == "__main__":
    long_gaps.LONG, windows.NATIVE_WIDTH = 40, 0
    for each in range(int(sys.argv[1]), int(sys.argv[2])):
        play(each)
        print(each, flush=True)
