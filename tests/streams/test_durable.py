"""Partitioned streams in a directory: reopening, and the files as a kill at every step of a batch leaves them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.streams.model import at
from viewlet.runtime.durable.store import StateStore
from viewlet.streams.duckdb_host import DuckDBHost

STATEMENTS = (
    "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts",
    "CREATE VIEW runs AS INITIALIZE runs[i] AS SELECT g, 1 AS n FROM m[i] WHERE x > 10 UPDATE runs[j] AS "
    "SELECT m.g, COALESCE(n, 0) + 1 FROM m[j] LEFT JOIN runs[j-1] USING (g) WHERE x > 10",
    "CREATE VIEW recent AS SELECT g, SUM(x) AS x FROM m [WINDOW 5 MINUTES] GROUP BY g",
)
BATCHES = [[(at(60 * minute), "a", 12), (at(60 * minute + 1), "b", minute)] for minute in range(4)] + [
    [(at(70), "b", 40)],
    [(at(60 * minute), "a", 11) for minute in range(4, 9)],
]


def declare(db: viewlet.Connection) -> None:
    for statement in STATEMENTS:
        db.execute(statement)


def contents(db: viewlet.Connection) -> dict[str, Any]:
    return {name: db.view(name).rows() for name in ("runs", "recent")}


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    """The views after each batch, in memory."""
    db = viewlet.connect()
    declare(db)
    found = [contents(db)]
    for batch in BATCHES:
        db.insert("m", batch)
        found.append(contents(db))
    return found


def test_a_database_with_streams_is_opened_again(tmp_path: Path, expected: list[dict[str, Any]]) -> None:
    with viewlet.connect(tmp_path / "db") as db:
        declare(db)
    for number, batch in enumerate(BATCHES):
        with viewlet.connect(tmp_path / "db") as db:
            assert contents(db) == expected[number]
            db.insert("m", batch)
    with viewlet.connect(tmp_path / "db") as db:
        assert contents(db) == expected[-1]
        db.execute("DROP VIEW runs")
        db.execute(STATEMENTS[1])
        assert len(db.view("runs").rows()) == 1
    with viewlet.connect(tmp_path / "db") as db:
        assert len(db.view("runs").rows()) == 1
        db.execute("DROP VIEW runs")
        db.execute("DROP VIEW recent")
        db.execute("DROP STREAM m")
        db.execute(STATEMENTS[0])
        assert len(db.table("m")) == 0


def test_a_batch_that_fails_after_the_log_was_replayed_takes_no_view_back(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db") as db:
        declare(db)
        db.insert("m", BATCHES[0])
        shutil.copytree(tmp_path / "db", tmp_path / "killed")
    with viewlet.connect(tmp_path / "killed") as db:
        with pytest.raises(viewlet.DataError, match="to be deleted"):
            db.delete("m", [(at(0), "a", -1)])
        db.insert("m", BATCHES[1])
        assert len(db.view("runs").rows()) == 1


@contextmanager
def copies(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Copies of a directory before and after every step that writes."""
    found: list[Path] = []

    def copy() -> None:
        target = place.parent / f"copy{len(found)}"
        shutil.copytree(place, target)
        found.append(target)

    def around(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def step(self: Any, *arguments: Any) -> Any:
            copy()
            answer = original(self, *arguments)
            copy()
            return answer

        monkeypatch.setattr(owner, name, step)

    for owner, name in ((DuckDBHost, "load"), (DuckDBHost, "create"), (DuckDBHost, "commit"), (StateStore, "commit")):
        around(owner, name)
    yield found
    monkeypatch.undo()


@pytest.mark.parametrize("number", [3, 4])
def test_a_kill_at_any_step_of_a_batch_leaves_it_done_or_not(
    number: int, tmp_path: Path, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "db"
    with viewlet.connect(place) as db:
        declare(db)
        for batch in BATCHES[:number]:
            db.insert("m", batch)
        with copies(place, monkeypatch) as found:
            db.insert("m", BATCHES[number])
    outcomes = set()
    for copy in dict.fromkeys(found[:: max(1, len(found) // 6)] + found[-4:]):
        with viewlet.connect(copy) as db:
            outcomes.add(db.epoch)
            assert contents(db) == expected[db.epoch]
            for batch in BATCHES[db.epoch :]:
                db.insert("m", batch)
            assert contents(db) == expected[-1]
    assert outcomes == {number, number + 1}


def test_a_view_over_a_stream_view_is_right_after_a_crash(tmp_path: Path) -> None:
    place = tmp_path / "db"
    with viewlet.connect(place) as db:
        declare(db)
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, SUM(n) AS m FROM runs")
        db.insert("m", BATCHES[0])
        db.checkpoint()
        for batch in BATCHES[1:]:
            db.insert("m", batch)
        answer = db.view("n").rows()
        shutil.copytree(place, tmp_path / "copy")
    with viewlet.connect(tmp_path / "copy") as db:
        assert db.view("n").rows() == answer
        db.insert("m", [(at(600), "a", 50), (at(660), "a", 50)])
        expected = db.execute("SELECT COUNT(*) AS n, SUM(n)::BIGINT AS m FROM runs").to_pylist()
        assert db.view("n").to_arrow().to_pylist() == expected


def test_late_rows_beyond_their_time_are_put_aside(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(STATEMENTS[0] + " WATERMARK FOR ts AS ts - INTERVAL '30' SECOND LATENESS INTERVAL '2' MINUTES")
        db.stream_view("copy", initialize="SELECT g, x FROM m[i]")
        db.insert("m", [(at(0), "a", 1), (at(60), "a", 2), (at(89), "a", 3)])
        assert len(db.view("copy").parts()) == 0
        db.insert("m", [(at(90), "a", 4)])
        assert len(db.view("copy").parts()) == 1
        db.insert("m", [(at(600), "a", 5)])
        db.insert("m", [(at(5), "late", 6), (at(500), "in time", 7)])
    with viewlet.connect(tmp_path / "db") as db:
        assert [row["g"] for row in db.late_rows("m").to_pylist()] == ["late"]
        assert "in time" in {g for g, *_ in db.view("copy").rows()}


def test_old_parts_are_deleted_once_nothing_reads_them() -> None:
    db = viewlet.connect()
    db.execute(STATEMENTS[0] + " LATENESS INTERVAL '1' MINUTE RETAIN INTERVAL '5' MINUTES")
    db.execute(
        "CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 3 MINUTES] GROUP BY g RETAIN INTERVAL '2' MINUTES"
    )
    told: list[int] = []
    db.view("v").subscribe(lambda epoch, changes: told.append(sum(row["_multiplicity"] for row in changes.to_pylist())))
    for minute in range(20):
        db.insert("m", [(at(60 * minute), "a", 1)])
    assert len(db.table("m")) == 6
    assert len(db.view("v").parts()) == sum(told) == 2


def test_the_file_of_small_parts_is_small(tmp_path: Path) -> None:
    """Every table of a file takes a block at least."""
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(STATEMENTS[0])
        db.insert("m", [(at(60 * minute), "a", minute) for minute in range(40)])
    assert (tmp_path / "db" / "streams" / "parts.duckdb").stat().st_size < 50 * (1 << 16)
