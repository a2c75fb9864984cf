"""In which order new parts are computed: eagerly, by freshness and priority, and several at a time."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import viewlet
from tests.streams.model import at
from viewlet.errors import SchemaError
from viewlet.streams import DuckDBHost, Updates

M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"
SUMS = "SELECT g, SUM(x) AS x FROM m [WINDOW 2 MINUTES] GROUP BY g"
RUNS = "SELECT g, COUNT(*) AS x FROM m PATTERN [a, b+] WHERE b.x > 0 GROUP BY g"
THIRDS = "SELECT g, COUNT(*) AS n FROM TUMBLE(m, INTERVAL '3' MINUTES) GROUP BY g"
VISITS = """SELECT g, window_start, COUNT(*) AS n FROM SESSION(m PARTITION BY g, INTERVAL '2' MINUTES)
    GROUP BY g, window_start"""
"""Windows that are shown while they are under way: of their helpers, they read the parts that are closed."""
MATCHES = """SELECT g, n FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES COUNT(*) AS n
    PATTERN (a b) DEFINE b AS x > 2)"""


def declare(db: viewlet.Connection) -> None:
    db.execute(M)
    db.execute(f"CREATE VIEW sums AS {SUMS} PRIORITY 100")
    db.execute(f"CREATE VIEW runs AS {RUNS}")
    db.execute(f"CREATE VIEW matches AS {MATCHES}")
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT SUM(x) AS x FROM runs")


def contents(db: viewlet.Connection) -> dict[str, Any]:
    return {name: sorted(db.view(name).rows(), key=repr) for name in db.views}


def play(db: viewlet.Connection) -> None:
    for minute in range(5):
        db.insert("m", [(at(60 * minute), g, minute) for g in ("a", "b")])
    db.insert("m", [(at(61), "a", 7)])
    db.delete("m", [(at(60), "b", 1)])


def test_parts_that_wait_are_computed_by_freshness_and_priority() -> None:
    eager, db = viewlet.connect(), viewlet.connect(stream_updates=Updates("freshness", seconds=0))
    told: list[int] = []
    for each in (eager, db):
        declare(each)
        if each is db:
            db.view("runs").subscribe(lambda epoch, rows: told.append(sum(rows["_multiplicity"].to_pylist())))
        play(each)
    counts = {name: len(db.view(name).parts()) for name in ("sums", "runs", "matches")}
    assert counts["sums"] > counts["runs"]  # one part in a batch: the first two views have helpers
    assert contents(db) != contents(eager)
    db.execute(M.replace(" m ", " n "))
    db.insert("n", [(at(0), "a", 1)])
    assert counts == {name: len(db.view(name).parts()) for name in counts}  # what others bring does not count
    db.refresh()
    assert contents(db) == contents(eager)
    assert sum(told) == len(db.view("runs").rows())
    assert "is next" in db.explain("runs", "next")


class ManyJobs(DuckDBHost):
    """Takes several calls at a time, which wait for each other in DuckDB."""

    workers = 2
    lock, waiting, most = threading.RLock(), 0, 0

    def create(self, table: str, query: str) -> int:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        time.sleep(0.01)
        with self.lock:
            self.waiting -= 1
            return super().create(table, query)

    def create_over(self, table: str, query: str, name: str, rows: Any) -> int:
        with self.lock:
            return super().create_over(table, query, name, rows)

    def read(self, query: str) -> Any:
        with self.lock:
            return super().read(query)


def test_parts_of_different_views_are_computed_at_the_same_time() -> None:
    host, eager = ManyJobs(), viewlet.connect()
    db = viewlet.connect(streams=host)
    for each in (eager, db):
        declare(each)
        each.insert("m", [(at(60 * minute), "a", minute) for minute in range(4)])
        each.insert("m", [(at(61), "a", 7), (at(360), "b", 1)])
    assert contents(db) == contents(eager)
    assert host.most == 2


@pytest.mark.parametrize("query", [THIRDS, VISITS])
def test_a_window_under_way_is_computed_after_all_that_is_closed_of_it(query: str) -> None:
    """Not together with the next part of its helper, which it would not see before the next batch."""
    for host in (DuckDBHost(), ManyJobs()):
        db = viewlet.connect(streams=host)
        db.execute(M)
        db.execute(f"CREATE VIEW v AS {query}")
        db.insert("m", [(at(60 * minute), "a", 1) for minute in range(3)])
        assert [row[-2] for row in db.view("v").rows()] == [2]


def test_an_idle_stream_is_closed_for_the_views_over_it_alone() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute("CREATE STREAM n (ts TIMESTAMP, g VARCHAR) PARTITION LENGTH 60 BY ts IDLE AFTER INTERVAL '10' SECONDS")
    db.stream_view("both", initialize="SELECT m.g FROM m[i] NATURAL JOIN n[i]")
    db.stream_view("alone", initialize="SELECT g FROM n[i]")
    db.execute("CREATE MATERIALIZED VIEW seen AS SELECT COUNT(*) AS n FROM alone")
    maintainer = db._session.database().host.warehouse.maintainer  # type: ignore[attr-defined]
    now = maintainer.clock()
    maintainer.clock = lambda: now
    db.insert("n", [(at(0), "a")])
    assert db.view("seen").rows() == [(0,)]
    now += 11_000_000
    db.insert("m", [(at(0), "a", 1), (at(60), "a", 1)])
    assert db.view("alone").rows() == [("a", at(0))]
    assert db.view("seen").rows() == [(1,)]


@pytest.mark.parametrize("wrong", [{"order": "lazy"}, {"seconds": 1.0}, {"workers": 0}])
def test_updates_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Updates(**wrong)
