"""LAG over parts, ASOF and interval joins, gap fill: random streams against DuckDB over all closed rows."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pytest

import viewlet
from tests.streams.model import Model, Row, at, part_number
from tests.streams.test_oracle import SEEDS, M, play
from viewlet.errors import SqlError

RISES = "SELECT ts, g, x, x - LAG(x, 2, 0) OVER (PARTITION BY g ORDER BY ts{0}) AS rise FROM m AS a WHERE x IS NOT NULL"
BEFORE = "SELECT a.ts, a.g, a.x, b.ts AS before FROM m AS a ASOF LEFT JOIN m AS b ON a.g = b.g AND a.ts > b.ts"
TOGETHER = "SELECT a.ts, a.g, b.ts AS before FROM m AS a ASOF JOIN m AS b ON LOWER(a.g) = b.g AND b.ts <= a.ts"
NEAR = """SELECT a.ts, a.x, b.ts AS near, b.x AS y FROM m AS a JOIN m b ON a.g = b.g AND b.x > a.x
    AND b.ts BETWEEN a.ts - INTERVAL '90' SECONDS AND a.ts + INTERVAL '1' MINUTE"""
FILLED = "SELECT g, x, filled FROM GAPFILL(m PARTITION BY g, INTERVAL '3' MINUTES) AS f WHERE x <> 3 OR x IS NULL"
ORDER = ", g NULLS LAST, x NULLS LAST"


def closed_rows(model: Model) -> list[Row]:
    return [row for row in model.rows.elements() if part_number(row) < model.closed]


def ask(rows: list[Row], query: str) -> list[Row]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE m (ts TIMESTAMP, g VARCHAR, x BIGINT)")
    if rows:
        connection.executemany("INSERT INTO m VALUES (?, ?, ?)", [list(row) for row in rows])
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def filled(model: Model, number: int) -> list[Row]:
    """The rows of a part, and the last row of every group that has none, if it is of the last three minutes."""
    rows: list[Row] = [(*row[1:], False) for row in model.part(number)]
    known = {row[1] for row in model.part(number)}
    last: dict[object, Row] = {}
    for row in sorted(closed_rows(model), key=lambda row: (row[0], row[2] is None, row[2] or 0)):
        if part_number(row) < number and row[1] not in known:
            last[row[1]] = row
    oldest = at(60 * number) - timedelta(minutes=3)
    rows += [(row[1], row[2], True) for row in last.values() if row[0] >= oldest]  # type: ignore[operator]
    return [row for row in rows if row[1] != 3]


@pytest.mark.parametrize("seed", SEEDS[1:])
def test_views_that_look_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect()
    db.execute(M)
    with monkeypatch.context() as other_host:
        other_host.setattr("viewlet.streams.warehouse.merges_natively", lambda host: False)
        db.execute(f"CREATE VIEW counted AS {BEFORE}")
        db.execute(f"CREATE VIEW together AS {TOGETHER}")
    for name, query in (("rises", RISES.format("")), ("before", BEFORE), ("filled", FILLED)):
        db.execute(f"CREATE VIEW {name} AS {query}")
    db.execute(f"CREATE VIEW near AS {NEAR} EMIT CHANGES")
    db.execute(f"CREATE VIEW settled AS {NEAR} EMIT ON WINDOW CLOSE")
    queries = {"rises": RISES.format(ORDER), "before": BEFORE, "counted": BEFORE, "near": NEAR, "settled": NEAR}
    queries["together"] = TOGETHER

    def check(model: Model) -> None:
        for name in (*queries, "filled"):
            parts = {round((part.start - at(0)).total_seconds() / 60) for part in db.view(name).parts()}
            if name == "filled":
                wanted = [(*row, at(60 * number)) for number in parts for row in filled(model, number)]
            else:
                rows = ask(closed_rows(model), queries[name])
                wanted = [(*row, at(60 * part_number(row))) for row in rows if part_number(row) in parts]
            assert sorted(db.view(name).rows(), key=repr) == sorted(wanted, key=repr), name
        ends = [max((part.number for part in db.view(name).parts()), default=0) for name in ("settled", "near")]
        assert ends[0] < ends[1] or not any(ends)

    play(db, seed, check)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT g, LEAD(x) OVER (PARTITION BY g ORDER BY ts) AS y, LAG(x) OVER (ORDER BY ts) AS z FROM m", "only LAG"),
        ("SELECT g, LAG(x) OVER (PARTITION BY g ORDER BY x) AS y FROM m", "ORDER BY ts"),
        ("SELECT g, LAG(x, g) OVER (PARTITION BY g ORDER BY ts) AS y FROM m", "whole number"),
        ("SELECT *, LAG(x) OVER (PARTITION BY g ORDER BY ts) AS y FROM m", "name the columns"),
        ("SELECT g, LAG(x) OVER (PARTITION BY h ORDER BY ts) AS y FROM m", "PARTITION BY"),
        ("SELECT g, LAG(x) OVER (ORDER BY ts) AS y FROM m GROUP BY g", "GROUP"),
        ("SELECT m.g FROM m ASOF JOIN n ON m.g = n.g AND m.ts >= n.ts", "different lengths"),
        ("SELECT a.g FROM m a ASOF JOIN m b ON a.g = b.g", "ASOF JOIN is ON"),
        ("SELECT a.g FROM m a JOIN m b ON a.g = b.g EMIT CHANGES", "bounds the times"),
        ("SELECT a.g FROM m a JOIN t b ON a.g = b.g EMIT CHANGES", "partitioned stream"),
        ("SELECT g FROM GAPFILL(m PARTITION BY h)", "no column 'h'"),
    ],
)
def test_what_is_refused(query: str, reason: str) -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute("CREATE STREAM n (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 30 BY ts")
    db.execute("CREATE TABLE t (ts TIMESTAMP, g VARCHAR)")
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE VIEW v AS {query}")


def test_groups_that_are_too_old_to_fill_a_gap_are_forgotten() -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts LATENESS INTERVAL '5' MINUTE"
    )
    db.execute("CREATE VIEW v AS SELECT ts, g, x, filled FROM GAPFILL(m PARTITION BY g, INTERVAL '2' MINUTES)")
    late: dict[int, list[tuple[object, ...]]] = {}
    for minute in range(60):
        db.insert("m", [(at(60 * minute + second), f"g{minute}", second) for second in range(3)])
        if minute > 4 and minute % 7 == 0:
            late[minute - 3] = [(at(60 * (minute - 3) + 30), f"late{minute}", 9)]
            db.insert("m", late[minute - 3])
    catalogue = db._session.database().host.warehouse.catalogue  # type: ignore[attr-defined]
    (helper,) = [each for name, each in catalogue.relations.items() if name.startswith("last_")]
    assert max(helper.part(number).rows for number in helper.stored) <= 5
    filled = [(time, g) for time, g, _, is_filled, _ in db.view("v").rows() if is_filled]
    last = [(minute, f"g{minute}", 2) for minute in range(60)]
    last += [(minute, rows[0][1], 30) for minute, rows in late.items()]
    expected = [
        (at(60 * later), g)
        for minute, g, second in last
        for later in range(minute + 1, 59)
        if later * 60 - 120 <= minute * 60 + second
    ]
    assert sorted(filled) == sorted(expected)
    db.insert("m", [(at(10**10), "far", 1)])  # nothing is carried through the years between
    assert len(db.view("v")) == len(filled) + 3 * 60 + len(late) + 5
