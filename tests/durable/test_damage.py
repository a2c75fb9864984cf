"""Directories that are damaged, foreign or in use: a clear error, and nothing in them is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import viewlet
from tests.durable.scripts import HISTORY, abandon, state_of
from viewlet.runtime.durable.files import LocalFiles
from viewlet.runtime.durable.log import HEADER, LogWriter, Record, read_log
from viewlet.runtime.durable.manifest import Manifest, to_bytes


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A directory with a snapshot and a log."""
    db = viewlet.connect(tmp_path / "db")
    for step in HISTORY[:11]:
        step(db)
    abandon(db)
    return tmp_path / "db"


def contents(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != "LOCK")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def one(path: Path, pattern: str) -> Path:
    (found,) = path.glob(pattern)
    return found


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0x40
    file.write_bytes(data)


def assert_refused(path: Path, *expected: str) -> str:
    before = contents(path)
    with pytest.raises(viewlet.StateError) as caught:
        viewlet.connect(path)
    message = str(caught.value)
    assert all(part in message for part in expected), message
    assert contents(path) == before
    return message


def test_a_damaged_log_names_the_place_and_the_last_good_epoch(kept: Path) -> None:
    log = one(kept, "log-*")
    whole = log.read_bytes()
    lengths = [len(memoryview(record.payload)) + 21 for record in read_log(whole, "log")]
    second = len(HEADER) + lengths[0]
    flip(log, second + 30)
    message = assert_refused(kept, str(log), f"at byte {second}", "good up to epoch 3", "4 is committed")
    assert "restore the file" in message
    log.write_bytes(whole)
    assert viewlet.connect(kept).epoch == 4


@pytest.mark.parametrize("at", [0, 16, 20, 24, 30, 33])
def test_any_flipped_bit_at_the_beginning_of_a_log_is_noticed(kept: Path, at: int) -> None:
    flip(one(kept, "log-*"), at)
    assert_refused(kept, "is damaged at byte", "good up to the last snapshot")


def test_what_follows_the_committed_part_of_a_log_does_not_count(kept: Path) -> None:
    log = one(kept, "log-*")
    log.write_bytes(log.read_bytes() + b"\1\0\0half a record")
    assert viewlet.connect(kept).epoch == 4


def test_a_log_cut_short(kept: Path) -> None:
    log = one(kept, "log-*")
    log.write_bytes(log.read_bytes()[:-1])
    assert_refused(kept, str(log), "is damaged", "are committed")


@pytest.mark.parametrize("pattern", ["log-*", "snapshot-*/index.json", "snapshot-*/00000.table"])
def test_a_missing_file(kept: Path, pattern: str) -> None:
    file = one(kept, pattern)
    file.unlink()
    assert_refused(kept, str(file), "is missing")


def test_a_missing_snapshot(kept: Path) -> None:
    folder = one(kept, "snapshot-*")
    shutil.rmtree(folder)
    assert_refused(kept, str(folder), "is missing")


@pytest.mark.parametrize("pattern", ["snapshot-*/index.json", "snapshot-*/00000.table", "manifest-*"])
def test_a_damaged_file(kept: Path, pattern: str) -> None:
    file = one(kept, pattern)
    flip(file, file.stat().st_size // 2)
    assert_refused(kept, str(file), "is damaged")


def test_a_missing_manifest(kept: Path) -> None:
    one(kept, "manifest-*").unlink()
    assert_refused(kept, "there are logs or snapshots, but no manifest")


def test_an_older_manifest(kept: Path) -> None:
    """What it does not name is left alone, so that the newest one can be restored."""
    newest = one(kept, "manifest-*")
    older = kept / "manifest-000000000003.json"
    text = newest.read_text()
    newest.unlink()
    older.write_bytes(to_bytes(Manifest(3)))
    assert_refused(kept, "the newest manifest is number 3", "LOCK says that number", "restore the manifest")
    (kept / "LOCK").unlink()
    with viewlet.connect(kept) as db:
        assert db.epoch == 0
        assert db.tables == ()
    assert not list(kept.glob("snapshot-*"))
    newest.write_text(text)
    assert_refused(kept, "is missing")


def test_a_log_of_another_directory(tmp_path: Path) -> None:
    """It has as many records of the same sizes and epochs."""
    for name in ("mine", "theirs"):
        db = viewlet.connect(tmp_path / name)
        db.execute("CREATE TABLE t (a VARCHAR)")
        db.insert("t", [(name[:4],)])
        abandon(db)
    log = one(tmp_path / "mine", "log-*")
    theirs = one(tmp_path / "theirs", "log-*")
    assert log.stat().st_size == theirs.stat().st_size
    shutil.copy(theirs, log)
    assert_refused(tmp_path / "mine", str(log), "that of another directory")


def test_a_refused_directory_keeps_all_files(kept: Path) -> None:
    """Also those that the newest manifest does not name: somebody may restore the one that does."""
    (kept / "log-000000000999.bin").write_bytes(b"of a manifest that is lost")
    flip(one(kept, "snapshot-*/index.json"), 20)
    assert_refused(kept, "is damaged")


def test_another_format(kept: Path) -> None:
    manifest = one(kept, "manifest-*")
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    assert_refused(kept, "has format 2", "reads and writes format 1")


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(viewlet.StateError, match="is a file"):
        viewlet.connect(file)
    assert file.read_text() == "mine"


def test_a_directory_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    assert_refused(tmp_path, "holds other files, such as letter.txt")
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_an_empty_directory_and_one_to_be_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "to" / "be" / "made"):
        assert viewlet.connect(str(path)).epoch == 0


@pytest.mark.parametrize("wrong", ["", 7, b"db"])
def test_a_path_is_a_path(wrong: object) -> None:
    with pytest.raises(viewlet.StateError, match="path of a directory"):
        viewlet.connect(wrong)  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_that_may_not_be_written(kept: Path) -> None:
    kept.chmod(0o500)
    try:
        assert_refused(kept, "Permission denied")
    finally:
        kept.chmod(0o700)


def test_the_second_to_open_a_directory_is_refused(kept: Path) -> None:
    with viewlet.connect(kept) as db:
        assert_refused(kept, "is open already", f"process {os.getpid()}", "since")
        command = [sys.executable, "-c", f"import viewlet; viewlet.connect({str(kept)!r})"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert f"StateError: {kept} is open already: process {os.getpid()}" in answer.stderr
        db.insert("item", [(100, "still ours", "1.00", None)])
    viewlet.connect(kept).close()


def test_an_error_on_opening_lets_go_of_the_lock(kept: Path) -> None:
    log = one(kept, "log-*")
    whole = log.read_bytes()
    log.write_bytes(b"")
    assert_refused(kept, "is damaged")
    log.write_bytes(whole)
    assert viewlet.connect(kept).epoch == 4


def test_leftovers_of_interrupted_commits_are_removed(kept: Path) -> None:
    log, snapshot = kept / "log-000000000999.bin", kept / "snapshot-000000000999"
    log.write_bytes(b"never committed")
    snapshot.mkdir()
    (snapshot / "00000.table").write_bytes(b"half")
    (kept / "manifest.tmp").write_bytes(b"{")
    (kept / "notes.txt").write_text("mine")
    state_of(viewlet.connect(kept))
    assert not log.exists()
    assert not snapshot.exists()
    assert not (kept / "manifest.tmp").exists()
    assert (kept / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_without_a_manifest_a_log_ends_at_a_torn_record(cut: int, tmp_path: Path) -> None:
    writer = LogWriter(LocalFiles(tmp_path), "log")
    writer.append([Record(1, 1, b"first"), Record(2, 2, b"second" * 5)])
    data = (tmp_path / "log").read_bytes()
    found = [bytes(record.payload) for record in read_log(data[: len(data) - cut], "log")]
    assert found == [b"first", b"second" * 5][: 2 if cut == 0 else 1 if cut <= 51 else 0]


def test_without_a_manifest_a_bad_record_before_good_ones_is_damage(tmp_path: Path) -> None:
    writer = LogWriter(LocalFiles(tmp_path), "log")
    writer.append([Record(1, 1, b"first"), Record(2, 2, b"second")])
    data = bytearray((tmp_path / "log").read_bytes())
    data[len(HEADER) + 22] ^= 1
    with pytest.raises(viewlet.StateError, match=f"damaged at byte {len(HEADER)}"):
        list(read_log(bytes(data), "log"))


def test_a_failing_snapshot_does_not_stop_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from viewlet.runtime.durable import snapshot, store

    monkeypatch.setattr(store, "SHORTEST_LOG", 100)
    db = viewlet.connect(tmp_path)
    db.execute("CREATE TABLE t (a BIGINT)")

    def full(*args: object) -> Callable[..., None]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot.SnapshotWriter, "table", full)
    for number in range(10):
        db.insert("t", [(number,)])
    assert "the log continues" in caplog.text
    with pytest.raises(viewlet.StateError, match="No space left"):
        db.checkpoint()
    db.close()
    monkeypatch.undo()
    assert len(viewlet.connect(tmp_path).table("t")) == 10
