"""Mutated statements: each works or is refused by an error of ours, prints nothing, and leaves views right.

`VIEWLET_FUZZ=20000 VIEWLET_FUZZ_SEED=1 pytest -s tests/fuzz` runs more of them and says how many worked.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import os
import random
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence

import pytest

import viewlet
from tests.fuzz.mutations import SEEDS, mutate
from tests.patience import TooSlow, at_most
from viewlet.types import Kind

COUNT = int(os.environ.get("VIEWLET_FUZZ", "400"))
SEED = int(os.environ.get("VIEWLET_FUZZ_SEED", "7"))
SCHEMA = """
CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT); CREATE TABLE t (c BIGINT, d BIGINT);
CREATE TABLE orders (orderkey BIGINT PRIMARY KEY, custkey BIGINT, total DECIMAL(15,2), day DATE, name VARCHAR,
                     ts TIMESTAMP, x DOUBLE);
CREATE TABLE customer (custkey BIGINT PRIMARY KEY, name VARCHAR, nation VARCHAR);
CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts;
CREATE TABLE ev (g VARCHAR NOT NULL, at BIGINT NOT NULL, x DOUBLE);
CREATE TABLE mx (i BIGINT, j BIGINT, x DOUBLE); CREATE TABLE my (i BIGINT, k BIGINT, x DOUBLE)
"""
ROWS = {
    "r": [(1, 2), (3, 4), (None, 2), (2, None)],
    "s": [(2, 5), (4, None), (2, 1)],
    "t": [(5, 1), (1, 3)],
    "orders": [
        (1, 1, "1.5", "2025-01-01", "a", "2025-01-01 10:00:00", 1.5),
        (2, 2, None, None, None, None, None),
        (3, 1, "7.25", "2024-02-29", "abc", "2024-02-29 23:59:59", -0.5),
    ],
    "customer": [(1, "a", "DE"), (2, None, "FR")],
    "ev": [("a", 10, 1.0), ("a", 35, 2.0), ("b", 20, None)],
    "mx": [(1, 1, 2.0), (1, 2, 1.0), (2, 2, 0.5)],
    "my": [(1, 1, 2.0), (2, 1, 1.0)],
}
EXTREMES = {
    "r": [(0, -5), (2**62, 1), (-(2**63), None), (7, 0)],
    "s": [(0, 0), (-5, 2**62), (None, -(2**63))],
    "t": [(0, 0), (2**63 - 1, 1)],
    "orders": [
        (10, None, "-9999999999999.99", "0001-01-01", "", "9999-12-31 23:59:59.999999", -1e308),
        (11, 0, "0", "9999-12-31", "\0é%_", "0001-01-01", 0.0),
        (12, -1, "1.5", "2024-02-29", "-12", "2024-02-29 00:00:00", 1e308),
    ],
    "customer": [(0, "", "")],
    "ev": [("a", 2**62, 1e308), ("", -5, -1e308)],
    "mx": [(2, 1, -1e308), (3, 3, 0.0)],
}
EVENTS = [("a", 3), ("b", 5), ("a", 1), (None, None), ("a", 2), ("a", -(2**63)), ("b", 7)]
"""Of the stream, a minute apart; the times go on from one view to the next."""
QUERY = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
PATIENCE = 20


def database() -> viewlet.Connection:
    db = viewlet.connect(engine="interpreter")
    db.execute(SCHEMA)
    db.apply(ROWS)
    return db


def comparable(row: Sequence[object]) -> str:
    """A row as text: numbers of all types alike and to nine digits, dates like timestamps."""
    return repr(tuple(_comparable(value) for value in row))


def _comparable(value: object) -> object:
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return float(f"{value:.9g}") + 0.0
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return f"{value} 00:00:00"
    return value if value is None or isinstance(value, bool) else str(value)


class Run:
    """What the statements so far have come to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.outcomes: Counter[str] = Counter()
        self.failures: dict[str, str] = {}
        self.db = database()
        self.time = datetime.datetime(2025, 1, 1)

    def step(self, number: int) -> None:
        if number % 200 == 0:
            self.db = database()
        sql = mutate(self.rng.choice(SEEDS), self.rng)
        if QUERY.match(sql) and self.rng.random() < 0.6:
            sql = f"CREATE OR REPLACE MATERIALIZED VIEW fz AS {sql}"
        try:
            with at_most(PATIENCE):
                self.db.execute(sql)
                self.outcomes["worked"] += 1
                if "fz" in self.db.views:
                    self.compare(sql)
                    self.feed(sql)
                    self.reset()
                elif self.db.views:
                    self.feed_events()
                    self.reset()
        except viewlet.InternalError as error:
            self.failed(error, sql)
        except viewlet.ViewletError as error:
            self.outcomes[type(error).__name__] += 1
            if self.db.views or set(self.db.tables) < set(ROWS):
                self.db = database()
        except TooSlow:
            self.outcomes["slow"] += 1
            print("slow:", sql)
            self.db = database()
        except BaseException as error:
            self.failed(error, sql)

    def compare(self, sql: str) -> None:
        """The view holds what DuckDB answers, where it knows the query too."""
        if self.rng.random() < 0.5 or re.search("LIMIT|COFACTOR|FACTORIZED", sql, re.IGNORECASE):
            return
        rows = self.db.view("fz").rows()
        try:
            answer = self.db.execute(sql.split(" AS ", 1)[1])
        except viewlet.SqlError:
            return
        expected = zip(*(column.to_pylist() for column in answer.columns), strict=True)
        assert sorted(map(comparable, rows)) == sorted(map(comparable, expected)), "DuckDB has another answer"
        self.outcomes["views compared with DuckDB"] += 1

    def feed(self, sql: str) -> None:
        """Rows at the edges of their types, one table after another; the view is what one declared now would be."""
        self.outcomes["views fed"] += 1
        for table, rows in EXTREMES.items():
            with contextlib.suppress(viewlet.DataError):
                self.db.insert(table, rows)
                self.outcomes["batches"] += 1
        with contextlib.suppress(viewlet.DataError):
            self.db.delete("r", [(1, 2)])
            self.db.insert("r", [(1, 2)])
        maintained = self.db.view("fz").rows()
        exact = all(column.type.kind not in (Kind.DOUBLE, Kind.REAL) for column in self.db.view("fz").schema)
        if exact and self.rng.random() < 0.5 and "LIMIT" not in sql.upper() and "COFACTOR" not in sql.upper():
            self.db.execute(sql.replace("VIEW fz", "VIEW fresh", 1))
            assert sorted(map(repr, self.db.view("fresh").rows())) == sorted(map(repr, maintained)), "the view is wrong"
            self.outcomes["views compared"] += 1

    def feed_events(self) -> None:
        """Rows of the stream and of the tables that are no rows for SQL; every view is read."""
        self.outcomes["views of events fed"] += 1
        for name, value in EVENTS:
            self.time += datetime.timedelta(minutes=1)
            with contextlib.suppress(viewlet.DataError):
                self.db.insert("m", [(self.time, name, value)])
        with contextlib.suppress(viewlet.DataError):
            self.db.insert("m", [(self.time - datetime.timedelta(minutes=3), "late", 4)])
        for table in ("ev", "mx"):
            with contextlib.suppress(viewlet.DataError):
                self.db.insert(table, EXTREMES[table])
        for view in self.db.views:
            self.db.view(view).rows()

    def reset(self) -> None:
        """The rows of the beginning and no views, in the database there is: DuckDB takes a while to start."""
        for view in reversed(self.db.views):
            self.db.execute(f'DROP MATERIALIZED VIEW "{view}"')
        for table in set(self.db.tables) - {*ROWS, "m"}:
            self.db.execute(f'DROP TABLE "{table}"')
        changes = {name: self.db.table(name).to_arrow() for name in ROWS}
        for name, rows in changes.items():
            self.db.delete(name, rows)
            self.db.insert(name, ROWS[name])

    def failed(self, error: BaseException, sql: str) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = re.sub(r"'[^']*'|\d+", "_", str(error))[:80]
        key = f"{type(error).__name__}: {kind} at {os.path.basename(place.filename)}:{place.lineno}"
        self.outcomes["failed"] += 1
        if key not in self.failures or len(sql) < len(self.failures[key]):
            self.failures[key] = sql
        self.db = database()


def test_mutated_statements_work_or_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    run, start = Run(SEED), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(COUNT):
            run.step(number)
            if number % 1000 == 999 and "VIEWLET_FUZZ" in os.environ:
                with capfd.disabled():
                    print(
                        f"{number + 1} after {time.monotonic() - start:.0f} s:",
                        dict(run.outcomes),
                        run.failures,
                        flush=True,
                    )
    printed = capfd.readouterr()
    with capfd.disabled():
        if "VIEWLET_FUZZ" in os.environ:
            print(f"\n{COUNT} statements in {time.monotonic() - start:.0f} s: {dict(run.outcomes)}\n{printed.out}")
            for key, sql in run.failures.items():
                print(f"{key}\n    {sql!a}")
    assert not run.failures, "\n".join(f"{key}\n    {sql}" for key, sql in run.failures.items())
    assert printed.err == ""
    assert run.outcomes["worked"] >= COUNT / 3, run.outcomes
