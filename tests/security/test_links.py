"""Links that somebody has put into a directory, a checkpoint or the state of workers: nothing follows them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline
from viewlet.runtime.durable.mapped_state import STAMP, MappedState
from viewlet.runtime.private_folders import private_folder
from viewlet.spark.run.state.partition import forget

PRECIOUS = "precious\n" * 3
STREAM = "CREATE STREAM p (ts TIMESTAMP, n BIGINT) PARTITION LENGTH 60 BY ts RETAIN INTERVAL '1' MINUTE ARCHIVE"


def use(path: Path) -> None:
    """Every kind of file of a directory is written."""
    with viewlet.connect(path) as db:
        for number in range(4):
            db.insert("t", [(number,)])
            db.insert("p", [(f"2026-01-01 00:0{number}:00", number)])
            if number == 2:
                db.checkpoint()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    db = viewlet.connect(tmp_path / "db")
    db.execute(f"CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t; {STREAM}")
    db.insert("t", [(1,)])
    db.insert("p", [("2025-12-31 00:00:00", 1)])
    db.close()
    return tmp_path / "db"


def names(path: Path) -> list[str]:
    """What is there, and what the next commits will be called."""
    found = [str(file.relative_to(path)) for file in path.rglob("*")]
    found += [
        f"{kind}-{number:012}{end}" for number in range(1, 14) for kind, end in (("log", ".bin"), ("snapshot", ""))
    ]
    return [*found, "manifest.tmp", "streams/parts.duckdb.wal", "streams/archive", "streams/archive/p"]


@pytest.mark.parametrize("to_folder", [False, True])
def test_nothing_is_written_through_a_link(to_folder: bool, made: Path, tmp_path: Path) -> None:
    refused: list[tuple[str, str]] = []
    for number, name in enumerate(names(made)):
        path, victim = Path(shutil.copytree(made, tmp_path / f"{number}")), tmp_path / f"victim-{number}"
        if to_folder:
            victim.mkdir()
            (victim / "kept").write_text(PRECIOUS)
        else:
            victim.write_text(PRECIOUS)
        target = path / name
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
        target.parent.mkdir(exist_ok=True)
        target.symlink_to(victim)
        try:
            use(path)
        except viewlet.StateError as error:
            refused.append((str(path), str(error)))
        kept = victim / "kept" if to_folder else victim
        assert kept.read_text() == PRECIOUS, name
        assert not to_folder or os.listdir(victim) == ["kept"], name
    assert len(refused) > 8
    assert all(path in message for path, message in refused)


def test_a_hard_link_is_not_written(made: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text(PRECIOUS)
    (made / "LOCK").unlink()
    os.link(victim, made / "LOCK")
    use(made)
    assert victim.read_text() == PRECIOUS


def test_a_pipe_is_no_file(made: Path) -> None:
    for name in ("LOCK", next(made.glob("manifest-*")).name):
        (made / name).unlink()
        os.mkfifo(made / name)
        with pytest.raises(viewlet.StateError, match="not a regular file"):
            viewlet.connect(made)
        (made / name).unlink()
        (made / name).write_text("")


def test_the_directory_itself_may_be_a_link(made: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(made)
    use(tmp_path / "link")
    with viewlet.connect(made) as db:
        assert len(db.table("t")) == 5


@pytest.mark.parametrize("find", [lambda path: next(path.glob("log-*")), lambda path: path / "LOCK"])
def test_a_checkpoint_follows_no_link(
    find: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "state"))
    with connect_inline(str(tmp_path / "c"), 2) as db:
        db.execute("CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        db.insert("t", [(1,)])
    forget()
    victim = tmp_path / "victim"
    victim.write_text(PRECIOUS)
    file = find(tmp_path / "c")
    file.unlink()
    file.symlink_to(victim)
    with pytest.raises(viewlet.StateError, match="it is a symbolic link"):
        connect_inline(str(tmp_path / "c"), 2)
    assert victim.read_text() == PRECIOUS


def test_state_of_workers_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text(PRECIOUS)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / STAMP).symlink_to(victim)
    with pytest.raises(OSError, match="it is a symbolic link"):
        MappedState.open(tmp_path / "state", "identity")
    assert victim.read_text() == PRECIOUS
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    private_folder(tmp_path / "link", "")
    lstat = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda path: os.stat_result((0o120777, 0, 0, 1, 4711, 0, 0, 0, 0, 0)))
    with pytest.raises(viewlet.StateError, match="a symbolic link of user 4711"):
        private_folder(tmp_path / "link", "")
    monkeypatch.setattr(Path, "lstat", lstat)
