"""Ctrl-C while DuckDB runs a query raises KeyboardInterrupt, and leaves a batch whole or undone."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import viewlet
from tests.interrupts.harness import state_of
from tests.streams.model import at
from viewlet.adhoc import AdHoc
from viewlet.sqlgen import bulk_load
from viewlet.streams.duckdb_host import DuckDBHost

LONG = "SELECT SUM(a.range * b.range % 7) AS s FROM range(12000) a, range(12000) b"
"""A second of work."""
ENDLESS = "SELECT SUM(a.range * b.range % 7) AS s FROM range(10000000) a, range(20000) b"
"""Minutes of work, in parts that are so large that DuckDB may not look for signals."""


@contextmanager
def python_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> Iterator[None]:
    """Sends SIGINT to this process once, when a function has been given a long query.

    A signal that arrives earlier may be lost: Python drops what is raised in the callback of a weak reference.
    """
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    called = getattr(where, name)

    def started(*arguments: Any) -> Any:
        if "% 7" in str(arguments) and timer.ident is None:
            timer.start()
        return called(*arguments)

    monkeypatch.setattr(where, name, started)
    with python_handler():
        try:
            yield
        finally:
            timer.join()
            monkeypatch.undo()


def test_a_query_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect()
    db.execute("SELECT 1 AS x")  # DuckDB is started by the first query
    with pytest.raises(KeyboardInterrupt), ctrl_c(monkeypatch, AdHoc, "query"):
        db.execute(LONG)
    assert db.execute("SELECT 1 AS x").to_pylist() == [{"x": 1}]


def test_ctrl_c_does_not_wait_and_others_hear_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect()
    db.execute("SELECT 1 AS x")
    hearing, told = socket.socketpair()
    told.setblocking(False)
    before = signal.set_wakeup_fd(told.fileno())
    try:
        for _ in range(4):
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt), ctrl_c(monkeypatch, AdHoc, "query"):
                db.execute(ENDLESS)
            assert time.monotonic() - started < 5
            assert signal.SIGINT in hearing.recv(8)
    finally:
        assert signal.set_wakeup_fd(before) == told.fileno()
        hearing.close()
        told.close()


def test_a_large_load(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt), ctrl_c(monkeypatch, bulk_load, "evaluate_all"):
        bulk_load.evaluate_all(bulk_load.LoadPlan({"v": LONG}, {"v": 1}, {}, {}), {})


@pytest.fixture
def db() -> viewlet.Connection:
    found = viewlet.connect()
    found.execute("CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts")
    pairs = "SELECT COUNT(*) AS n FROM m[i] AS a, m[i] AS b WHERE a.x * b.x % 7 = 1"
    found.execute(f"CREATE VIEW v AS INITIALIZE v[i] AS {pairs} UPDATE v[j] AS {pairs.replace('[i]', '[j]')}")
    found.insert("m", [(at(0), 1), (at(61), 2)])
    return found


GOOD = [(at(62), 4), (at(130), 1)]


def test_a_part_of_a_view(db: viewlet.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_of(db)
    with pytest.raises(KeyboardInterrupt), ctrl_c(monkeypatch, DuckDBHost, "_run"):
        db.insert("m", [(at(61), x) for x in range(12_000)] + [(at(200), 1)])
    assert (db.epoch, state_of(db)) == (1, before)
    db.insert("m", GOOD)
    assert [row[:1] for row in db.view("v").rows()] == [(1,), (2,)]


def test_the_end_of_a_batch_is_not_interrupted(db: viewlet.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = DuckDBHost._execute

    def interrupted(self: DuckDBHost, sql: str, *values: Any) -> Any:
        if sql.startswith(("INSERT", "COMMIT")):
            signal.raise_signal(signal.SIGINT)
        return execute(self, sql, *values)

    monkeypatch.setattr(DuckDBHost, "_execute", interrupted)
    with pytest.raises(KeyboardInterrupt), python_handler():
        db.insert("m", GOOD)
    monkeypatch.undo()
    assert db.epoch == 2
    assert [row[:1] for row in db.view("v").rows()] == [(1,), (2,)]
    db.insert("m", [(at(200), 1)])
    assert len(db.view("v").rows()) == 3
