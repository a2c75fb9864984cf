"""Failures after the commit of a batch: the call returns, the batch counts once, and nothing of it is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connection.database import Database
from viewlet.connection.journal import LogJournal
from viewlet.connection.session import Session
from viewlet.connection.spark_facade import connect_inline
from viewlet.engine import chooser
from viewlet.engine.maintainer import Maintainer
from viewlet.hosts.local import LocalHost
from viewlet.hosts.spark import SparkHost
from viewlet.runtime.durable import store
from viewlet.runtime.durable.snapshot import SnapshotWriter
from viewlet.spark.run.engine import Engine
from viewlet.streams.duckdb_host import DuckDBHost

ERRORS: list[type[BaseException]] = [MemoryError, OSError, RuntimeError, KeyboardInterrupt]
EVERYWHERE: list[tuple[Any, str]] = [(Database, "_finish"), (Maintainer, "commit"), (Session, "_deliver")]
LOCAL = [
    (LocalHost, "commit"),
    (LocalHost, "settle"),
    (chooser.EngineChooser, "compile_if_busy"),
    (DuckDBHost, "commit"),
]
IN_FILES = [(LogJournal, "settled"), (SnapshotWriter, "finish"), (store.StateStore, "_remove_quietly")]
ON_SPARK = [(SparkHost, "commit"), (SparkHost, "settle"), (Engine, "finish")]
PLACES = {
    "memory": [*EVERYWHERE, *LOCAL],
    "directory": [*EVERYWHERE, *LOCAL, *IN_FILES],
    "checkpoint": [*EVERYWHERE, *ON_SPARK],
}


def opened(where: str, path: Path) -> viewlet.Connection:
    if where == "memory":
        return viewlet.connect()
    return connect_inline(path, 2) if where == "checkpoint" else viewlet.connect(path)


def declare(db: viewlet.Connection, where: str) -> None:
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    if where != "checkpoint":
        sums = "SELECT SUM(n)::BIGINT AS n FROM p"
        db.execute("CREATE STREAM p (ts TIMESTAMP, n BIGINT) PARTITION LENGTH 60 BY ts")
        db.execute(f"CREATE VIEW h AS INITIALIZE h[i] AS {sums}[i] UPDATE h[j] AS {sums}[j] PARTITION LENGTH 60")


def batch(number: int, where: str) -> dict[str, Any]:
    parts = {} if where == "checkpoint" else {"p": [(f"2026-01-01 00:{number:02}:00", number)]}
    return {"t": [(number, "x")], **parts}


def assert_has(db: viewlet.Connection, batches: int, where: str) -> None:
    assert db.epoch == batches
    assert db.view("v").rows() == [("x", batches)]
    assert len(db.table("t")) == batches
    if where != "checkpoint":
        assert [n for _, n in db.table("p").rows()] == list(range(1, batches + 1))
        assert sum(row[0] for row in db.view("h").rows()) == sum(range(1, batches))


def failing(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: type[BaseException]) -> list[int]:
    """The next call of a method fails."""
    whole, calls = getattr(owner, name), list[int]()

    def fail(*args: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise error("no memory for it")
        return whole(*args, **named)

    monkeypatch.setattr(owner, name, fail)
    return calls


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("where", "owner", "name"), [(where, *step) for where in PLACES for step in PLACES[where]])
def test_the_batch_counts_once(
    where: str, owner: Any, name: str, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SHORTEST_LOG", 1)  # every batch is followed by a snapshot
    db = opened(where, tmp_path / "db")
    declare(db, where)
    told: list[int] = []
    db.view("v").subscribe(lambda epoch, _: told.append(epoch))
    assert db.apply(batch(1, where)) == 1
    calls = failing(monkeypatch, owner, name, error)
    if issubclass(error, Exception):
        assert db.apply(batch(2, where)) == 2
    else:
        with pytest.raises(error):
            db.apply(batch(2, where))
    assert calls
    assert_has(db, 2, where)
    assert db.apply(batch(3, where)) == 3
    assert_has(db, 3, where)
    assert told == [1, 2, 3]
    db.close()
    if where != "memory":
        with opened(where, tmp_path / "db") as again:
            assert_has(again, 3, where)


@pytest.mark.parametrize("error", [MemoryError, OSError])
def test_a_declaration_counts_once(error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with viewlet.connect(tmp_path) as db:
        declare(db, "directory")
        db.apply(batch(1, "directory"))
        failing(monkeypatch, LocalHost, "commit", error)
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM t")
        assert db.view("w").rows() == [(1,)]
    with viewlet.connect(tmp_path) as db:
        assert db.view("w").rows() == [(1,)]


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
@pytest.mark.parametrize("broken", ["thread", "request", "draft"])
def test_a_compilation_that_cannot_begin_leaves_the_view_where_it_is(
    broken: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(chooser, "COMPILE_AFTER_ROWS", 5)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")

    def fail(*_: object, **__: object) -> Any:
        raise error("no memory for it")

    with monkeypatch.context() as patched:
        if broken == "thread":
            patched.setattr(threading.Thread, "start", fail)
        else:
            patched.setattr(chooser, {"request": "request", "draft": "draft_for_auto"}[broken], fail)
        for number in range(10):
            assert db.insert("t", [(1,), (2,)]) == number + 1
        assert db.settle(30)
        assert db.view("v").rows() == [(1, 10), (2, 10)]
        assert db.view("v").stats()["engine"] == "interpreter"
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM t")
    assert db.settle(30)
    assert db.view("w").rows() == [(20,)]


def test_a_full_disk_for_parts_is_found_by_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is in the log: whatever happens, it is there when the directory is opened again."""

    def fail(*_: object) -> None:
        raise viewlet.StateError("no room for the parts")

    db = viewlet.connect(tmp_path / "db")
    declare(db, "directory")
    db.apply(batch(1, "directory"))
    with monkeypatch.context() as patched:
        patched.setattr(DuckDBHost, "commit", fail)
        assert db.apply(batch(2, "directory")) == 2
        calls: list[Callable[[], object]] = [
            lambda: db.apply(batch(3, "directory")), lambda: db.view("v").rows(), lambda: db.epoch,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(viewlet.StateError, match="no room"):
                call()
        db.close()
    with viewlet.connect(tmp_path / "db") as db:
        assert_has(db, 2, "directory")
