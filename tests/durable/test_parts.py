"""Parts of streams that are not those of their directory: missing, older, another's, or no database of parts at all."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import viewlet
from tests.durable import damages, kills
from tests.durable.scripts import abandon
from tests.durable.test_damage import assert_refused, contents, one
from tests.streams.model import at
from tests.streams.test_durable import BATCHES, declare
from tests.streams.test_durable import contents as rows_of

PARTS = Path("streams") / "parts.duckdb"


def copied(path: Path, name: str) -> Path:
    return Path(shutil.copytree(path, path.with_name(name)))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A directory as a killed process leaves it, its older copy, and that of another database like it."""
    for name, shift in (("db", 0), ("other", 1)):
        db = viewlet.connect(tmp_path / name)
        declare(db)
        for number, batch in enumerate(BATCHES):
            db.insert("m", [(time, g, x + shift) for time, g, x in batch])
            if number == 1:
                db.checkpoint()
            if number == 3:
                copied(tmp_path / name, f"older {name}")
        abandon(db)
        copied(tmp_path / name, f"killed {name}")
        db.close()
    return tmp_path / "killed db"


def test_what_a_kill_leaves_is_opened(kept: Path) -> None:
    with viewlet.connect(kept) as db, viewlet.connect(kept.with_name("other")) as other:
        assert len(db.table("m")) == len(other.table("m")) == sum(map(len, BATCHES))
    with viewlet.connect(kept) as db:
        assert rows_of(db)


def remove(path: Path) -> None:
    (path / PARTS).unlink()


def remove_wal(path: Path) -> None:
    one(path / "streams", "*.wal").unlink()


def take_older(path: Path) -> None:
    shutil.rmtree(path / "streams")
    shutil.copytree(path.with_name("older db") / "streams", path / "streams")


def take_of_another(path: Path) -> None:
    shutil.rmtree(path / "streams")
    shutil.copytree(path.with_name("killed other") / "streams", path / "streams")


def remove_all(path: Path) -> None:
    shutil.rmtree(path / "streams")


@pytest.mark.parametrize("way", [remove, remove_wal, take_older, take_of_another, remove_all])
def test_other_parts_are_refused(way: Callable[[Path], None], kept: Path) -> None:
    way(kept)
    message = assert_refused(kept, str(kept / PARTS))
    assert "is missing" in message or "are older, or of another database" in message


def test_parts_of_a_directory_without_any_are_refused(kept: Path, tmp_path: Path) -> None:
    db = viewlet.connect(tmp_path / "new")
    shutil.copytree(kept.with_name("db") / "streams", tmp_path / "new" / "streams")
    with pytest.raises(viewlet.StateError, match="are those of another database"):
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
    assert db.tables == ()
    db.execute("CREATE TABLE t (a BIGINT)")
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MACRO sum(x) AS 42",
        'CREATE VIEW "m[0]" AS SELECT 1',
        "CREATE SCHEMA theirs",
        "CREATE TYPE mood AS ENUM ('sad')",
        "CREATE SEQUENCE numbers",
    ],
)
def test_what_is_no_part_is_refused(statement: str, kept: Path) -> None:
    path = kept.with_name("db")
    with duckdb.connect(str(path / PARTS)) as parts:
        parts.execute(statement)
    assert_refused(path, str(path / PARTS), "is not a file of parts of streams")


def test_the_database_of_another_application_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "db" / PARTS
    viewlet.connect(tmp_path / "db").close()
    place.parent.mkdir()
    with duckdb.connect(str(place)) as theirs:
        theirs.execute("CREATE TABLE letters AS SELECT 1 AS a")
    before = contents(tmp_path / "db")
    with viewlet.connect(tmp_path / "db") as db, pytest.raises(viewlet.StateError, match="the table letters"):
        db.execute("CREATE STREAM m (ts TIMESTAMP) PARTITION LENGTH 60 BY ts")
    assert contents(tmp_path / "db") == before


def test_what_no_database_can_read_is_named(kept: Path) -> None:
    for data in (b"", b"no database", (kept / PARTS).read_bytes()[:5000]):
        (kept / PARTS).write_bytes(data)
        assert_refused(kept, str(kept / PARTS))


def test_an_archived_part_is_missing_or_damaged(tmp_path: Path) -> None:
    db = viewlet.connect(tmp_path)
    db.execute("""CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts LATENESS INTERVAL '0' SECOND
        RETAIN INTERVAL '2' MINUTE ARCHIVE""")
    for minute in range(8):
        db.insert("m", [(f"2026-01-01 00:{minute:02}:00", minute)])
    db.close()
    db = viewlet.connect(tmp_path)
    first, second, *_ = sorted((tmp_path / "streams" / "archive" / "m").iterdir())
    rows = db.archived_rows("m").to_pylist()
    assert [row["x"] for row in rows][:2] == [0, 1]
    whole = first.read_bytes()
    shutil.copy(second, first)
    with pytest.raises(viewlet.StateError, match=f"{first} is damaged"):
        db.archived_rows("m")
    first.unlink()
    with pytest.raises(viewlet.StateError, match=f"{first} is missing"):
        db.archived_rows("m")
    first.symlink_to(second)
    with pytest.raises(viewlet.StateError, match="is a symbolic link"):
        db.archived_rows("m")
    first.unlink()
    first.write_bytes(whole)
    assert db.archived_rows("m").to_pylist() == rows


def test_random_damage(tmp_path: Path) -> None:
    """A slice of `python -m tests.durable.damages`."""
    counts, wrong = damages.run(tmp_path, 12, 7)
    assert not wrong
    assert counts["refused"] > 4


@pytest.mark.slow
def test_random_kills(tmp_path: Path) -> None:
    """A slice of `python -m tests.durable.kills`."""
    counts, wrong = kills.run(tmp_path, 6, 3)
    assert not wrong
    assert counts["kills"] == 6
    assert counts["batches"] > 6


DAMAGES = {
    "a table is dropped": ("DROP TABLE {table}", "is missing"),
    "a table is truncated": ("DELETE FROM {table}", " 0 rows instead of"),
    "a row is deleted": ("DELETE FROM {table} WHERE rowid = 0", "rows instead of"),
    "a row is doubled": ("INSERT INTO {table} SELECT * FROM {table} LIMIT 1", "rows instead of"),
    "a table is renamed": ('ALTER TABLE {table} RENAME TO "another"', "is missing"),
    "a table is added": ("CREATE TABLE strange AS SELECT 1 AS x", "'strange' belongs to no part"),
    "its entry is removed": (
        """DELETE FROM "viewlet catalogue" WHERE key IN
        (SELECT key FROM "viewlet catalogue" WHERE contains(value, {text}))""",
        "belongs to no part",
    ),
}


DAMAGED = [(of, damage) for of in ("m[", "v[", "rolled") for damage in DAMAGES]
DAMAGED.remove(("rolled", "a row is doubled"))  # it may have rows of parts that are no longer kept


@pytest.mark.parametrize(("of", "damage"), DAMAGED)
def test_parts_that_are_not_as_their_catalogue_says_are_refused(tmp_path: Path, of: str, damage: str) -> None:
    """What is missing within the file of parts is refused when it is opened, instead of being missed in answers."""
    roll_up = "ROLLUP INTERVAL '3' MINUTES AFTER INTERVAL '3' MINUTES" if of == "rolled" else ""
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(f"CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts {roll_up}")
        db.execute("CREATE VIEW v AS SELECT g, SUM(x) AS x FROM m [WINDOW 9 MINUTES] GROUP BY g")
        for minute in range(12):
            db.insert("m", [(at(60 * minute), "a", minute), (at(60 * minute + 1), "b", minute)])
        db.insert("m", [(at(60 * 7), "a", 5)])
        before = Counter(db.view("v").rows())
    with viewlet.connect(tmp_path / "db") as db:
        assert Counter(db.view("v").rows()) == before
    statement, message = DAMAGES[damage]
    with duckdb.connect(str(tmp_path / "db" / "streams" / "parts.duckdb")) as parts:
        rows = parts.execute('SELECT key, value FROM "viewlet catalogue" ORDER BY rowid').fetchall()
        entries = [json.loads(value) for key, value in dict(rows).items() if value is not None and '"part"' in key]
        segments = [segment for entry in entries for segment in entry["segments"] if entry["rows"]]
        table = next(name for name, is_rolled in segments if (is_rolled if of == "rolled" else name.startswith(of)))
        parts.execute(statement.format(table=f'"{table}"', text=f"'{table}'"))
    with pytest.raises(viewlet.StateError, match=message):
        viewlet.connect(tmp_path / "db")
