"""Views that read each other's earlier parts, against a program that goes through all parts after every batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import viewlet
from tests.streams.model import Model, Row, at, random_batches, signed

STREAM = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"
TOGETHER = """
    CREATE VIEW level AS
    INITIALIZE level[i] {start} AS SELECT g, SUM(x) AS x FROM m[i] GROUP BY g
    UPDATE level[j] AS
        SELECT g, SUM(x) AS x
        FROM (SELECT g, x FROM m[j] UNION ALL SELECT g, x FROM rest[j-1] UNION ALL SELECT g, n FROM total[j/3-1]) AS a
        GROUP BY g,
    total AS
    INITIALIZE total[i] {start} AS SELECT g, COUNT(*) AS n FROM level[i*3 .. i*3+2] GROUP BY g
    UPDATE total[j] AS SELECT g, COUNT(*) AS n FROM level[j*3 .. j*3+2] GROUP BY g PARTITION LENGTH 180,
    rest AS
    INITIALIZE rest[i] {start} AS SELECT g, x % 5 AS x FROM level[i]
    UPDATE rest[j] AS SELECT g, x % 5 AS x FROM level[j] WHERE x <> 2"""
VIEWS = ("level", "rest", "total")
Found = dict[str, dict[int, Counter[str]]]


def recomputed(model: Model, start: int) -> Found:
    """All parts of the three views, from the part `start` on."""
    level: dict[int, Counter[str]] = {}
    rest: dict[int, Counter[str]] = {}
    total: dict[int, Counter[str]] = {}
    for number in range(start, model.closed):
        found = Counter[str]()
        for _, g, x in model.part(number):
            found[str(g)] += int(str(x))
        for earlier in (rest.get(number - 1, {}), total.get(number // 3 - 1, {})) if number > start else ():
            for g, x in earlier.items():
                found[g] += x
        level[number] = found
        rest[number] = Counter({g: x % 5 for g, x in found.items() if x != 2 or number == start})
        if number % 3 == 2:
            groups = (g for each in range(number - 2, number + 1) for g in level.get(each, ()))
            total[number // 3] = Counter(groups)
    return {"level": level, "rest": rest, "total": total}


def shown(found: Found) -> dict[str, list[Row]]:
    lengths = {"level": 60, "rest": 60, "total": 180}
    return {
        name: sorted((g, x, at(lengths[name] * number)) for number, part in parts.items() for g, x in part.items())
        for name, parts in found.items()
    }


def contents(db: viewlet.Connection) -> dict[str, list[Row]]:
    return {name: sorted(db.view(name).rows()) for name in VIEWS}


@pytest.mark.parametrize(
    ("start", "order"), [("", "eager"), ("FROM BEGINNING", "eager"), ("FROM BEGINNING", "freshness")]
)
def test_cycles_of_views_follow_late_rows_and_deletes(start: str, order: str) -> None:
    for seed in range(3):
        db = viewlet.connect(stream_updates=viewlet.streams.Updates(order))
        db.execute(STREAM)
        db.execute(TOGETHER.format(start=start))
        model, first = Model(), None
        for batch in random_batches(seed, lambda chance: (chance.choice("ab"), chance.randrange(9)), batches=8):
            for row, times in batch:
                model.change(row, times)
            db.apply({"m": signed(batch, ("ts", "g", "x"))})
            assert model.first is not None
            if model.first < model.closed and (first is None or start):
                first = model.first
            if first is not None:
                assert contents(db) == shown(recomputed(model, first))


def test_they_are_kept_in_a_directory_and_dropped_together(tmp_path: Path) -> None:
    rows = [(at(60 * minute), "a", 4) for minute in range(9)]
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(STREAM)
        db.insert("m", rows[:4])
        db.execute(TOGETHER.format(start="FROM TIMESTAMP '2015-01-01 10:00'"))
        expected = contents(db)
        assert len(expected["level"]) == 3
    with viewlet.connect(tmp_path / "db") as db:
        assert contents(db) == expected
        db.insert("m", rows[4:])
        expected = contents(db)
        assert len(expected["level"]) == 8
        db.execute("CREATE VIEW above AS SELECT g, SUM(x) AS x FROM rest GROUP BY g")
    with viewlet.connect(tmp_path / "db") as db:
        assert contents(db) == expected
        with pytest.raises(viewlet.SchemaError, match="'above' reads it"):
            db.execute("DROP VIEW total")
        db.execute("DROP VIEW above")
        db.execute("DROP VIEW total")
        assert not db.views
    with viewlet.connect(tmp_path / "db") as db:
        assert not db.views
        db.stream_views(
            {
                "total": {"initialize": "SELECT COUNT(*) AS n FROM level[i]"},
                "level": {"initialize": "SELECT 1 AS x FROM m[i]", "update": "SELECT n AS x FROM m[j], total[j-1]"},
            }
        )
        assert db.view("level").rows() == [(1, at(420))]
        db.insert("m", [(at(540), "a", 1)])
        assert db.view("level").rows() == [(1, at(420)), (1, at(480))]
        assert "CREATE VIEW total AS" in db.explain("total", "script")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("rest[j-1]", "rest[j]", "reads its own part through other views"),
        ("total[j/3-1]", "total[j/3]", "reads its own part through other views"),
        ("FROM m[i]", "FROM rest[i]", "none of them can begin"),
        ("rest AS\n", "total AS\n", "different names"),
    ],
)
def test_cycles_that_do_not_lead_to_earlier_parts_are_refused(old: str, new: str, reason: str) -> None:
    db = viewlet.connect()
    db.execute(STREAM)
    with pytest.raises(viewlet.SqlError, match=reason):
        db.execute(TOGETHER.format(start="").replace(old, new))
    db.execute("CREATE TABLE rest (x BIGINT)")
    with pytest.raises(viewlet.SchemaError, match="already a table 'rest'"):
        db.execute(TOGETHER.format(start=""))
    assert not db.views
