"""Directories that an earlier version has written: their views have the same statements, and other queries now."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from tests.streams.model import at

STATEMENTS = {
    "runs": "SELECT g, COUNT(*) AS n, SUM(x) AS x FROM m PATTERN [a, b+] WHERE a.x > 3 AND b.x > 3 GROUP BY g",
    "sums": "SELECT g, SUM(x) AS x FROM m [WINDOW 5 MINUTES] GROUP BY g",
    "long_sums": "SELECT g, SUM(x) AS x FROM m [WINDOW 200 MINUTES] GROUP BY g",
    "most": "SELECT g, MAX(x) AS x FROM m [WINDOW 3 MINUTES] GROUP BY g",
    "visits": """SELECT g, window_start, COUNT(*) AS n FROM SESSION(m PARTITION BY g, INTERVAL '100' SECONDS)
        GROUP BY g, window_start""",
    "rises": "SELECT g, x - LAG(x) OVER (PARTITION BY g ORDER BY ts) AS rise FROM m",
    "falls": """SELECT g, x, n FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts
        MEASURES LAST(x) AS x, COUNT(*) AS n PATTERN (a b+) DEFINE b AS x < PREV(x))""",
    "counted": """INITIALIZE counted[i] AS SELECT g, COUNT(*) AS n FROM m[i] GROUP BY g UPDATE counted[j] AS
        SELECT g, SUM(n) AS n FROM (SELECT g, 1 AS n FROM m[j] UNION ALL SELECT g, n FROM counted[j-1]) AS b
        GROUP BY g""",
    "up": """INITIALIZE up[i] AS SELECT SUM(x) AS x FROM m[i]
        UPDATE up[j] AS SELECT SUM(x) AS x FROM (SELECT x FROM m[j] UNION ALL SELECT x FROM down[j-1]) AS b,
        down AS INITIALIZE down[i] AS SELECT x - 1 AS x FROM up[i] UPDATE down[j] AS SELECT x - 1 AS x FROM up[j]""",
}
LATE = [[(at(150), "a", 9)], [(at(60 * 11 + 30), "b", 1)]]
VIEWS = (*STATEMENTS, "down")


def batches() -> list[list[tuple[datetime, str, int]]]:
    return [
        [(at(60 * minute), "a", 4 + minute % 3), (at(60 * minute + 20), f"g{minute // 4}", minute * 5 % 7)]
        for minute in range(14)
    ]


def declare(db: viewlet.Connection) -> None:
    db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
    for name, query in STATEMENTS.items():
        db.execute(f"CREATE VIEW {name} AS {query}")


def contents(db: viewlet.Connection) -> dict[str, Any]:
    return {name: sorted(db.view(name).rows(), key=repr) for name in VIEWS}


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    """The views in memory, after each batch."""
    db, found = viewlet.connect(), []
    declare(db)
    for batch in [*batches(), *LATE]:
        db.insert("m", batch)
        found.append(contents(db))
    return found


def catalogue_of(parts: Any) -> dict[str, str]:
    """The entries of the log that a file of parts has; the last one of a key counts, and NULL removes it."""
    rows = parts.execute('SELECT key, value FROM "viewlet catalogue" ORDER BY rowid').fetchall()
    return {key: value for key, value in dict(rows).items() if value is not None}


def rewrite_catalogue(place: Path, change: Callable[[list[Any], dict[str, Any]], None]) -> None:
    """Changes the keys and values of the catalogue of parts, and the names of tables with it."""
    with duckdb.connect(str(place / "streams" / "parts.duckdb")) as parts:
        tables: dict[str, str] = {}
        for key, value in catalogue_of(parts).items():
            names = json.loads(key)
            if names == ["stamp"]:
                continue
            facts = json.loads(value)
            if isinstance(facts, dict):
                before = [table for table, _ in facts.get("segments", ())]
                change(names, facts)
                tables.update(zip(before, [table for table, _ in facts.get("segments", ())], strict=True))
            parts.execute('DELETE FROM "viewlet catalogue" WHERE key = ?', [key])
            parts.execute('INSERT INTO "viewlet catalogue" VALUES (?, ?)', [json.dumps(names), json.dumps(facts)])
        for old, new in tables.items():
            if old != new:
                parts.execute(f'ALTER TABLE "{old}" RENAME TO "{new}"')


def as_by_an_earlier_version(names: list[Any], facts: dict[str, Any]) -> None:
    """Queries that this version does not know, under helpers of other names; no statements were kept."""
    if "digest" in facts and names[1] not in ("m", "m late"):
        facts["digest"] = "of earlier queries"
        facts.pop("statement", None)
    if names[1].startswith(("pattern_", "running_", "partial_", "open_", "fragments_", "last_")):
        names[1] = f"earlier {names[1]}"
        for segment in facts.get("segments", ()):
            segment[0] = f"earlier {segment[0]}"


def with_helpers_of_an_earlier_version(names: list[Any], facts: dict[str, Any]) -> None:
    """The queries of helpers are others; those of views, and all names, are the same."""
    if "digest" in facts and facts.get("statement") is None and names[1] not in ("m", "m late"):
        facts["digest"] = "of earlier queries"


def made_by_an_earlier_version(
    place: Path, monkeypatch: pytest.MonkeyPatch, count: int, change: Callable[[list[Any], dict[str, Any]], None]
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("viewlet.engine.stream_views.digest_of", lambda view: "of earlier queries")
        with viewlet.connect(place) as db:
            declare(db)
            for batch in batches()[:count]:
                db.insert("m", batch)
    rewrite_catalogue(place, change)


@pytest.mark.parametrize(
    ("count", "change"),
    [(1, as_by_an_earlier_version), (9, as_by_an_earlier_version), (9, with_helpers_of_an_earlier_version)],
)
def test_a_directory_of_an_earlier_version_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[dict[str, Any]], count: int, change: Any
) -> None:
    """Its views have their parts, and continue as if nothing had happened, late rows included."""
    made_by_an_earlier_version(tmp_path / "db", monkeypatch, count, change)
    for number, batch in enumerate([*batches(), *LATE][count:], count):
        with viewlet.connect(tmp_path / "db") as db:
            assert contents(db) == expected[number - 1]
            db.insert("m", batch)
            assert contents(db) == expected[number]
    with duckdb.connect(str(tmp_path / "db" / "streams" / "parts.duckdb")) as parts:
        assert [key for key in catalogue_of(parts) if "earlier " in key] == []


def test_parts_stay_where_their_sources_have_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts RETAIN INTERVAL '2' MINUTES"
    found = []
    for is_upgraded in (False, True):
        place = tmp_path / f"db{is_upgraded}"
        with viewlet.connect(place) as db:
            db.execute(stream)
            db.execute(f"CREATE VIEW runs AS {STATEMENTS['runs']}")
            for minute in range(9):
                db.insert("m", [(at(60 * minute), "a", 4 if minute == 6 and is_upgraded else 9 if minute != 5 else 1)])
        if is_upgraded:
            rewrite_catalogue(place, as_by_an_earlier_version)
        with viewlet.connect(place) as db:
            before = len(db.view("runs"))
            db.insert("m", [(at(60 * 9), "a", 9), (at(60 * 10), "a", 9)])
            found.append([row[1] for row in db.view("runs").rows()])
            assert len(found[-1]) == before + 2
    assert found[0] == found[1]


def test_columns_that_had_other_names(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db") as db:
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
        db.execute(f"CREATE VIEW visits AS {STATEMENTS['visits']}")
        for batch in batches()[:4]:
            db.insert("m", batch)
        expected = db.view("visits").rows()
    rewrite_catalogue(tmp_path / "db", as_by_an_earlier_version)
    with duckdb.connect(str(tmp_path / "db" / "streams" / "parts.duckdb")) as parts:
        for (table,) in parts.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            if table.startswith("visits["):
                parts.execute(f'ALTER TABLE "{table}" RENAME COLUMN g TO g0')
    for _ in range(2):
        with viewlet.connect(tmp_path / "db") as db:
            assert db.view("visits").rows() == expected


def test_a_view_of_another_statement_is_another_view(tmp_path: Path) -> None:
    """What the host has under its name is dropped, as after a crash in the middle of DROP VIEW."""

    def other_statement(names: list[Any], facts: dict[str, Any]) -> None:
        if names[:2] == ["relation", "sums"]:
            facts.update(digest="of another view", statement="of another view")

    with viewlet.connect(tmp_path / "db") as db:
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
        db.execute(f"CREATE VIEW sums AS {STATEMENTS['sums']}")
        for batch in batches()[:4]:
            db.insert("m", batch)
        assert len({row[-1] for row in db.view("sums").rows()}) == 3
    rewrite_catalogue(tmp_path / "db", other_statement)
    with viewlet.connect(tmp_path / "db") as db:
        assert {row[-1] for row in db.view("sums").rows()} == {at(0), at(60), at(120)}
