"""What is declared and dropped again leaves nothing behind in a database that stays open."""

from __future__ import annotations

import gc
from collections import deque
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

import viewlet
from tests.streams.model import at
from viewlet import linalg
from viewlet.runtime.weak_list import WeakList

_OUTSIDE = (type, ModuleType, BuiltinFunctionType, WeakList)
"""What is not followed: code, and lists of weak references, which are cleared at times of their own."""
PARTS = "(ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts LATENESS INTERVAL '1' MINUTE"
STREAM_VIEWS = (
    "SELECT g, SUM(x) AS s FROM {0} [WINDOW 3 MINUTES] GROUP BY g",
    "SELECT ts, g, x - LAG(x) OVER (PARTITION BY g ORDER BY ts) AS d FROM {0}",
    "SELECT g, COUNT(*) AS n FROM SESSION({0} PARTITION BY g, INTERVAL '9' SECONDS) GROUP BY g, window_start",
    "SELECT g, COUNT(*) AS n FROM {0} PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g",
)


def entries(database: Any) -> int:
    """The entries of all containers that a database reaches."""
    found, seen, due = 0, set[int](), [database]
    while due:
        each = due.pop()
        if id(each) in seen or isinstance(each, _OUTSIDE):
            continue
        seen.add(id(each))
        if isinstance(each, (dict, list, set, frozenset, deque)):
            found += len(each)
        due += gc.get_referents(each.__closure__) if isinstance(each, FunctionType) else gc.get_referents(each)
    return found


def stream(db: Any, number: int) -> None:
    db.execute(f"CREATE STREAM m{number} {PARTS}")
    for place, view in enumerate(STREAM_VIEWS):
        db.execute(f"CREATE VIEW v{number}_{place} AS {view.format(f'm{number}')}")
    db.insert(f"m{number}", [(at(60 * minute), "a", minute) for minute in range(3)])
    for place in range(len(STREAM_VIEWS)):
        db.execute(f"DROP VIEW v{number}_{place}")
    db.execute(f"DROP STREAM m{number}")


def tables(db: Any, number: int) -> None:
    db.execute(f"CREATE TABLE r{number} (a BIGINT, b BIGINT); CREATE TABLE s{number} (b BIGINT, c BIGINT)")
    for name, having in (("v", ""), ("w", "HAVING SUM(a) > 1")):
        db.execute(
            f"CREATE MATERIALIZED VIEW {name}{number} AS SELECT c, SUM(a) AS s FROM r{number} JOIN s{number} USING (b) "
            f"GROUP BY c {having}"
        )
    db.apply({f"r{number}": [(1, 2)], f"s{number}": [(2, 3)]})
    db.view(f"w{number}").subscribe(lambda epoch, changes: None)
    db.execute(f"DROP VIEW v{number}; DROP VIEW w{number}; DROP TABLE r{number}; DROP TABLE s{number}")


def others(db: Any, number: int) -> None:
    db.execute(f"CREATE TABLE e{number} (a VARCHAR NOT NULL, at BIGINT NOT NULL, w DOUBLE NOT NULL)")
    signal = db.signal(f"e{number}", key="a", time="at", value="w", unit="ms").sample("10ms", "linear")
    db.create_view(f"levels{number}", signal.power(4, 2))
    db.execute(f"CREATE TABLE l{number} (a VARCHAR NOT NULL, b VARCHAR NOT NULL, w DOUBLE NOT NULL)")
    n = linalg.dim("n")
    links = linalg.matrix("A", n, n, dynamic=True)
    db.program(f"reach{number}", linalg.program(paths=links @ links), A=f"l{number}")
    db.insert(f"e{number}", [("a", 10 * k, 1.0) for k in range(20)])
    db.insert(f"l{number}", [("a", "b", 1.0)])
    db.execute(f"DROP VIEW levels{number}; DROP VIEW reach{number}; DROP TABLE e{number}; DROP TABLE l{number}")


@pytest.mark.parametrize("cycle", [stream, tables, others], ids=lambda cycle: cycle.__name__)
def test_what_was_dropped_is_forgotten(cycle: Any) -> None:
    db = viewlet.connect(engine="interpreter")
    counts = []
    for number in range(10, 16):
        cycle(db, number)
        db.execute("CREATE TABLE other (x BIGINT); INSERT INTO other VALUES (1); DROP TABLE other")
        if number in (11, 15):
            gc.collect()
            counts.append(entries(db))
    assert counts[1] <= counts[0]
