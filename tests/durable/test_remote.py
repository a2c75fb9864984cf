"""A state in an object store: fsspec's in-memory one stands for all of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from viewlet.errors import MissingExtraError, StateError
from viewlet.runtime.durable import lease
from viewlet.runtime.durable.files import LocalFiles, files_at, is_url
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.remote import RemoteFiles
from viewlet.runtime.durable.store import StateStore, open_location

fsspec = pytest.importorskip("fsspec")
URL = "memory://bucket/state"


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    system = fsspec.filesystem("memory")
    if system.exists("/bucket"):
        system.rm("/bucket", recursive=True)


@pytest.fixture
def store() -> Iterator[StateStore]:
    store = open_location(URL)
    yield store
    store.close()


def commit(store: StateStore, epoch: int, *payloads: bytes) -> None:
    store.commit([Record(1, epoch, payload) for payload in payloads], epoch)


def payloads(store: StateStore) -> list[bytes]:
    return [bytes(record.payload) for record in store.records()]


def names(prefix: str = "") -> list[str]:
    return [name for name in RemoteFiles(URL).list() if name.startswith(prefix)]


def test_commits_are_there_after_opening_again(store: StateStore) -> None:
    """Also what was appended before a commit; what was abandoned is not."""
    commit(store, 1, b"one", b"two")
    store.append([Record(1, 2, b"three")])
    store.append([Record(1, 2, b"four")])
    commit(store, 2, b"five")
    store.append([Record(1, 3, b"six")])
    store.abandon()
    commit(store, 3, b"seven")
    expected = [b"one", b"two", b"three", b"four", b"five", b"seven"]
    assert payloads(store) == expected
    assert len(names("log-")) == 6
    store.close()
    again = open_location(URL + "/")
    assert payloads(again) == expected
    assert again.manifest.epoch == 3
    again.remove_left_over()
    assert len(names("log-")) == 5, "what does not count is removed"
    assert names("manifest") == [again.manifest.name]
    commit(again, 4, b"eight")
    assert payloads(again) == [*expected, b"eight"]
    again.close()


def test_a_snapshot_takes_the_place_of_the_logs(store: StateStore) -> None:
    commit(store, 1, b"one")
    store.checkpoint(lambda writer: {"known": 7})
    assert names("log-") == []
    commit(store, 2, b"two")
    store.close()
    again = open_location(URL)
    snapshot = again.snapshot()
    assert snapshot is not None
    assert snapshot.facts == {"known": 7}
    assert payloads(again) == [b"two"]
    again.close()


def test_damage_is_named(store: StateStore) -> None:
    commit(store, 1, b"one")
    commit(store, 2, b"two")
    store.close()
    (_, log) = names("log-")
    system = fsspec.filesystem("memory")
    data = system.cat_file(f"/bucket/state/{log}")
    system.pipe_file(f"/bucket/state/{log}", data[:-1] + b"?")
    again = open_location(URL)
    with pytest.raises(StateError, match=rf"{URL}/{log} is damaged at byte 16: the state is good up to epoch 1"):
        payloads(again)
    system.rm(f"/bucket/state/{log}")
    with pytest.raises(StateError, match=f"{URL}/{log} is missing"):
        payloads(again)
    again.close()


def test_a_second_process_is_refused(store: StateStore) -> None:
    with pytest.raises(StateError, match=f"{URL} is open already: process .* was there"):
        open_location(URL)
    store.close()
    open_location(URL).close()
    assert names("LOCK") == []


def sign_of_life(ago: float) -> None:
    """As another process on another machine would have left it."""
    known = {"token": "x", "pid": 7, "host": "elsewhere", "since": 0, "renewed": time.time() - ago}
    fsspec.filesystem("memory").pipe_file("/bucket/state/LOCK", json.dumps(known).encode())


def test_a_process_that_died_counts_as_gone_after_a_while(store: StateStore) -> None:
    commit(store, 1, b"one")
    store.close()
    sign_of_life(ago=lease.EXPIRES - 5)
    with pytest.raises(StateError, match="process 7 on elsewhere was there 40 s ago"):
        open_location(URL)
    sign_of_life(ago=lease.EXPIRES + 1)
    again = open_location(URL)
    assert payloads(again) == [b"one"]
    again.close()


def test_a_process_that_slept_too_long_does_not_commit(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease has been taken over: it finds out before it writes a manifest, and writes over nothing."""
    commit(store, 1, b"one")
    monkeypatch.setattr(lease, "EXPIRES", 0.0)
    other = open_location(URL)
    commit(other, 2, b"two")
    with pytest.raises(StateError, match=r"another process has taken over .*nothing was committed"):
        commit(store, 2, b"three")
    assert payloads(other) == [b"one", b"two"]
    with pytest.raises(StateError, match="taken over"):
        store.checkpoint(lambda writer: {})
    other.close()


def test_the_number_of_a_manifest_is_taken_once(store: StateStore) -> None:
    """Even where two processes both believe they hold the lease."""
    commit(store, 1, b"one")
    other = StateStore(RemoteFiles(URL))
    commit(other, 2, b"two")
    with pytest.raises(StateError, match="another process has committed something"):
        commit(store, 2, b"three")
    with pytest.raises(StateError, match="open memory://bucket/state again"):
        commit(store, 2, b"three")
    assert payloads(other) == [b"one", b"two"]


def test_the_lease_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWS", 0.02)
    store = open_location(URL)
    first = json.loads(RemoteFiles(URL).read("LOCK"))["renewed"]
    deadline = time.monotonic() + 10
    while json.loads(RemoteFiles(URL).read("LOCK"))["renewed"] == first:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    store.close()


def test_other_files_are_left_alone() -> None:
    fsspec.filesystem("memory").pipe_file("/bucket/state/letter.txt", b"Dear")
    with pytest.raises(StateError, match="holds other files, such as letter"):
        open_location(URL)


def test_locations(tmp_path: Path) -> None:
    assert not is_url("C:/state")
    assert isinstance(files_at(f"file://{tmp_path}"), LocalFiles)
    store = open_location(f"file://{tmp_path}/state")
    commit(store, 1, b"one")
    store.close()
    assert (tmp_path / "state" / "LOCK").exists()
    with pytest.raises((StateError, MissingExtraError), match="nosuch://x cannot be reached"):
        open_location("nosuch://x")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"needs fsspec: pip install 'viewlet\[fsspec\]'"):
        open_location("s3://bucket/state")


def test_a_process_that_ends_without_closing_leaves_no_lease(tmp_path: Path) -> None:
    url = f"dir::file://{tmp_path}/state"
    code = f"from viewlet.runtime.durable.store import open_location; store = open_location({url!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    open_location(url).close()


def test_a_file_system_with_folders_and_renaming(tmp_path: Path) -> None:
    """`dir://` files are put into place by renaming, as on HDFS or over SFTP."""
    (tmp_path / "state").mkdir()
    url = "dir::file://" + str(tmp_path / "state")
    store = open_location(url)
    commit(store, 1, b"one")
    store.checkpoint(lambda writer: {"known": 7})
    commit(store, 2, b"two")
    store.close()
    again = open_location(url)
    assert payloads(again) == [b"two"]
    assert not list(tmp_path.rglob("*.draft"))
    again.close()


def test_a_database_in_process() -> None:
    import viewlet

    for number in range(3):
        with viewlet.connect(URL) as db:
            if number == 0:
                db.execute("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
            db.insert("t", [(number,), (10,)])
    with viewlet.connect(URL) as db:
        assert db.view("v").rows() == [(33,)]


def test_a_stream_in_parts_at_a_url_is_refused_before_it_is_written_down() -> None:
    with viewlet.connect(URL) as db:
        db.execute("CREATE TABLE t (x BIGINT)")
        with pytest.raises(viewlet.UnsupportedError, match="a partitioned stream in a database at a URL"):
            db.execute("CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts")
        db.insert("t", [(1,)])
    with viewlet.connect(URL) as db:
        assert db.table("t").rows() == [(1,)]
