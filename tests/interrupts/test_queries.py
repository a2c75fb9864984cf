"""Ctrl-C while DuckDB runs a query raises KeyboardInterrupt, and leaves a batch whole or undone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import viewlet
from tests.interrupts.harness import state_of
from tests.streams.model import at
from viewlet.sqlgen.bulk_load import LoadPlan, evaluate_all
from viewlet.streams.duckdb_host import DuckDBHost

LONG = "SELECT SUM(a.range * b.range % 7) AS s FROM range(12000) a, range(12000) b"
"""A second of work."""


@contextmanager
def python_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c() -> Iterator[None]:
    """Sends SIGINT to this process once, soon."""
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    with python_handler():
        timer.start()
        try:
            yield
        finally:
            timer.join()


def test_a_query_of_the_user() -> None:
    db = viewlet.connect()
    with pytest.raises(KeyboardInterrupt), ctrl_c():
        db.execute(LONG)
    assert db.execute("SELECT 1 AS x").to_pylist() == [{"x": 1}]


def test_a_large_load() -> None:
    with pytest.raises(KeyboardInterrupt), ctrl_c():
        evaluate_all(LoadPlan({"v": LONG}, {"v": 1}, {}, {}), {})


@pytest.fixture
def db() -> viewlet.Connection:
    found = viewlet.connect()
    found.execute("CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts")
    pairs = "SELECT COUNT(*) AS n FROM m[i] AS a, m[i] AS b WHERE a.x * b.x % 7 = 1"
    found.execute(f"CREATE VIEW v AS INITIALIZE v[i] AS {pairs} UPDATE v[j] AS {pairs.replace('[i]', '[j]')}")
    found.insert("m", [(at(0), 1), (at(61), 2)])
    return found


GOOD = [(at(62), 4), (at(130), 1)]


def test_a_part_of_a_view(db: viewlet.Connection) -> None:
    before = state_of(db)
    with pytest.raises(KeyboardInterrupt), ctrl_c():
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
