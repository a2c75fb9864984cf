"""Parts as they are stored and read: roll-up, pruning, and what CREATE STREAM refuses."""

from __future__ import annotations

import pytest

import viewlet
from tests.streams.model import at
from viewlet.errors import ViewletError
from viewlet.sql.streams.prune_parts import part_bounds

M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"


def test_old_parts_are_rolled_up_and_stay_parts() -> None:
    db = viewlet.connect()
    db.execute(f"{M} ROLLUP INTERVAL '5' MINUTES AFTER INTERVAL '5' MINUTES")
    db.execute("""CREATE VIEW v AS INITIALIZE v[i] AS SELECT g, SUM(x) AS x FROM m[i-1..i] GROUP BY g
        UPDATE v[j] AS SELECT g, SUM(x) FROM m[j-1..j] GROUP BY g ROLLUP INTERVAL '10' MINUTES""")
    told: list[int] = []
    db.view("v").subscribe(lambda epoch, changes: told.append(changes.num_rows))
    for minute in range(30):
        db.insert("m", [(at(60 * minute), "a", minute)])
    warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
    assert len(warehouse.host.tables()) < 30
    assert told == [1] * 29
    assert [x for _, x, _ in db.view("v").rows()] == [0, *(2 * minute - 1 for minute in range(1, 29))]
    stamps = {part.start: part.updated for part in db.view("v").parts()}
    db.insert("m", [(at(125), "a", 1000)])
    db.delete("m", [(at(180), "a", 3)])
    changed = [part.start for part in db.view("v").parts() if part.updated != stamps[part.start]]
    assert changed == [at(120), at(180), at(240)]
    assert db.view("v").part(at(180)).to_pylist()[0]["x"] == 1002
    assert len(db.table("m")) == 30


def test_ad_hoc_queries_read_the_parts_that_they_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect()
    db.execute(M)
    db.stream_view("v", initialize="SELECT g, x FROM m[i]")
    db.insert("m", [(at(60 * minute), "a", minute) for minute in range(10)])
    warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
    read: list[list[int]] = []
    original = warehouse.arrow

    def arrow(name: str, numbers: list[int] | None = None, with_start: bool = False) -> object:
        if numbers is not None:
            read.append(list(numbers))
        return original(name, numbers, with_start)

    monkeypatch.setattr(warehouse, "arrow", arrow)
    query = "SELECT x FROM v WHERE part_timestamp BETWEEN '2015-01-01 10:03:00' AND '2015-01-01 10:05:00' AND x <> 4"
    assert sorted(row["x"] for row in db.execute(query).to_pylist()) == [3, 5]
    assert sorted(row["x"] for row in db.execute(query.replace(" v ", " m ")).to_pylist()) == [3, 5]
    assert [len(numbers) for numbers in read] == [3, 3]
    newest = db.execute("SELECT x, ts - part_timestamp AS age FROM m ORDER BY part_timestamp DESC LIMIT 1")
    assert newest.column("x").to_pylist() == [9]
    assert "part_timestamp" not in db.execute("SELECT * FROM m").column_names


@pytest.mark.parametrize(
    ("sql", "bounds"),
    [
        ("SELECT * FROM v WHERE TIMESTAMP '1970-01-01 00:01' = part_timestamp", (60000000, 60000000)),
        ("SELECT * FROM v AS a JOIN w AS b ON a.k = b.k WHERE b.part_timestamp > '1970-01-02'", None),
        ("SELECT * FROM v AS a JOIN w AS b ON a.k = b.k WHERE a.part_timestamp < '1970-01-01'", (None, 0)),
        ("SELECT * FROM v WHERE part_timestamp > '1970-01-01' OR x = 1", None),
        ("SELECT * FROM v WHERE part_timestamp = (SELECT MAX(part_timestamp) FROM v)", None),
    ],
)
def test_bounds_of_parts(sql: str, bounds: object) -> None:
    assert part_bounds(sql, "v") == bounds


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("PARTITION LENGTH 0 BY ts", "positive"),
        ("PARTITION LENGTH 60 BY x", "TIMESTAMP column"),
        ("PARTITION LENGTH 60 BY ts WATERMARK FOR ts AS ts - INTERVAL '1' MONTH", "no fixed length"),
        ("PARTITION LENGTH 60 BY ts LATENESS INTERVAL 'one' HOUR", "an interval is"),
        ("PARTITION LENGTH 60 BY ts ROLLUP INTERVAL '90' SECONDS", "multiple of 60"),
        ("PARTITION LENGTH 60 BY ts FOREVER", "expected"),
        ("PARTITION LENGTH 60 BY ts AT SEA", "ARRIVAL"),
    ],
)
def test_clauses_of_streams_are_checked(clauses: str, reason: str) -> None:
    with pytest.raises(ViewletError, match=reason):
        viewlet.connect().execute(f"CREATE STREAM m (ts TIMESTAMP, x BIGINT) {clauses}")
