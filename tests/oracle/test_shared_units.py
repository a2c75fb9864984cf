"""Random views on partitions that share units, or become one unit, have the rows that DuckDB finds for each of them.

Views come and go, are followed and kept as files, state moves and is spread otherwise, batches fail, and the checkpoint
is opened again, by the database and by other jobs.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.oracle.comparison import difference
from tests.oracle.oracle import Oracle
from tests.oracle.test_shared_views import COLUMNS, apply_random_batch, random_query
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.connection.stored_view import open_view
from viewlet.hosts import spark as host
from viewlet.spark.plan import partitioning
from viewlet.spark.run.state.partition import forget

SEEDS = int(os.environ.get("VIEWLET_SHARED_VIEWS", "3"))
FAMILIES = (
    ("r JOIN s ON r.b = s.b", "", ("r.a",), "s.c"),
    ("r JOIN s ON r.b = s.b", "WHERE s.c > 1", ("r.a", "s.c"), "r.b"),
    ("r JOIN s ON r.b = s.b JOIN t ON s.c = t.c", "", ("t.d",), "r.a"),
    ("s", "", ("s.b",), "s.c"),
    ("s", "", (), "s.c"),
    ("r LEFT JOIN s ON r.b = s.b", "", ("r.a",), "s.c"),
)
"""What views with the same groups have in common: tables, a condition, the groups, and a number."""

DIFFERENT = {
    "a": "SELECT r.a AS x0, SUM(s.c) AS x1 FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "b": "SELECT r.b AS x0, r.a AS x1, MAX(s.c) AS x2 FROM r JOIN s ON r.b = s.b GROUP BY r.b, r.a",
}
"""Views that have inner views in common, and no result."""


def random_member(choose: Random) -> str:
    """A query over one of a few sets of groups: other columns, aggregates, arithmetic and conditions on groups."""
    tables, where, keys, value = choose.choice(FAMILIES)
    shown = choose.sample(keys, choose.randint(min(len(keys), 1), len(keys)))
    aggregates = (f"SUM({value})", "COUNT(*)", f"AVG({value})", f"SUM({value}) + COUNT(*)", f"MIN({value})")
    chosen = [*shown, *choose.sample(aggregates[: choose.choice((3, 4, 5))], choose.choice((1, 2)))]
    condition = choose.choice(("COUNT(*) > {}", f"SUM({value}) > {{}}", f"AVG({value}) < {{}}"))
    having = f"HAVING {condition.format(choose.randrange(5))}" if choose.random() < 0.6 else ""
    group = f"GROUP BY {', '.join(keys)}" if keys else ""
    named = [f"{text} AS x{i}" for i, text in enumerate(chosen)]
    return f"SELECT {', '.join(named)} FROM {tables} {where} {group} {having if keys else ''}"


class Play:
    """A database on partitions, and DuckDB, with the same tables and changes."""

    def __init__(self, choose: Random, path: Path, engine: str, kind: str) -> None:
        self.choose, self.path, self.engine, self.kind = choose, path, engine, kind
        self.oracle = Oracle()
        self.rows: dict[str, list[tuple[int, int]]] = {table: [] for table in COLUMNS}
        self.queries: dict[str, str] = {}
        self.told: dict[str, Counter[tuple[Any, ...]]] = {}
        self.kept: dict[str, Counter[tuple[Any, ...]]] = {}
        """The rows of views when their changes began to be kept."""
        self.shared = self.declared = self.merged = 0
        self.partitions = 3
        for table, (first, second) in COLUMNS.items():
            self.oracle.create(table, f"CREATE TABLE {table} ({first} BIGINT, {second} BIGINT)")
        self.db = self.opened()
        for table, (first, second) in COLUMNS.items():
            self.db.execute(f"CREATE {kind} {table} ({first} BIGINT NOT NULL, {second} BIGINT NOT NULL)")

    def opened(self) -> SparkConnection:
        return connect_inline(self.path, self.partitions, sync=False, engine=self.engine)

    @property
    def units(self) -> set[str]:
        return {known.unit.name for known in self.db._host._views.values()}

    def declare(self) -> None:
        self.declared += 1
        name, sql = f"v{self.declared}", random_member(self.choose)
        if self.choose.random() < 0.2:
            sql = random_query(self.choose)
        known = list(self.queries)
        if known and self.choose.random() < 0.15:
            inner = self.choose.choice(known)
            self.create(name, f"SELECT x0, COUNT(*) AS n FROM {inner} GROUP BY x0")
            self.queries[name] = f"SELECT x0, COUNT(*) AS n FROM ({self.queries[inner]}) AS q GROUP BY x0"
            return
        self.create(name, sql)
        self.queries[name] = sql

    def create(self, name: str, sql: str) -> None:
        before = self.units
        self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        self.shared += self.units == before

    def drop(self) -> None:
        free = [name for name in sorted(self.queries) if not self.db._host.catalogue.readers(name)]
        if len(free) > 1:
            name = self.choose.choice(free)
            self.db.execute(f"DROP VIEW {name}")
            for known in (self.queries, self.told, self.kept):
                known.pop(name, None)  # type: ignore[attr-defined]

    def follow(self) -> None:
        name = self.choose.choice(sorted(self.queries))
        if name in self.told:
            return
        told = self.told[name] = Counter(self.db.view(name).rows())

        def hear(_: int, changes: Any) -> None:
            for *row, weight in zip(*(column.to_pylist() for column in changes.columns), strict=True):
                told[tuple(row)] += weight

        self.db.view(name).subscribe(hear)

    def keep_changes(self) -> None:
        name = self.choose.choice(sorted(self.queries))
        if name not in self.kept:
            self.kept[name] = Counter(self.db.view(name).rows())
            self.db.changes(name)

    def move(self) -> None:
        """Spreads state over another number of partitions, or by some columns of a view."""
        name = self.choose.choice(sorted(self.queries))
        if self.choose.random() < 0.5:
            self.partitions = self.choose.choice((2, 3, 4))
            self.db.repartition(self.partitions)
        else:
            try:
                self.db.execute(f"ALTER MATERIALIZED VIEW {name} PARTITION BY (x0)")
            except (viewlet.SchemaError, viewlet.UnsupportedError):
                """The column is no key of what is kept, or not one of the view that it is kept for."""

    def lose(self) -> None:
        """The process of the tasks is gone: another one has files of the state, or begins from the log."""
        forget()

    def reopen(self) -> None:
        if self.choose.random() < 0.5:
            self.db.checkpoint()
        self.db.close()
        self.told.clear()
        self.db = self.opened()

    def change(self) -> None:
        apply_random_batch(self)
        self.merged = max(self.merged, *(len(known.kept.merged) for known in self.db._host._views.values()))

    def check(self, after: str) -> None:
        for name, sql in self.queries.items():
            expected = self.oracle.rows(sql)
            said = f"{name} after {after}: {sql}\nbeside {self.queries}"
            assert (found := difference(self.db.view(name).rows(), expected)) is None, f"{found}\n{said}"
            if name in self.told:
                told = list((+self.told[name]).elements())
                assert (found := difference(told, expected)) is None, f"told: {found}\n{said}"
            if name in self.kept:
                kept = Counter(self.kept[name])
                for *row, weight, _ in zip(*(c.to_pylist() for c in self.db.changes(name).columns), strict=True):
                    kept[tuple(row)] += weight
                assert (found := difference(list((+kept).elements()), expected)) is None, f"kept: {found}\n{said}"
        name = self.choose.choice(sorted(self.queries))
        stored = open_view(str(self.path), name)
        tables = [stored.read(task, range(len(stored.columns))) for task in range(stored.tasks)]
        rows = [row for table in tables for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
        found = difference(rows, self.oracle.rows(self.queries[name]))
        assert found is None, f"{name} as other jobs read it after {after}: {found}\nbeside {self.queries}"


def played(seed: int, path: Path, engine: str, kind: str, steps: int = 16) -> Play:
    choose = Random(seed)
    play = Play(choose, path, engine, kind)
    for name, sql in DIFFERENT.items():
        play.create(name, sql)
        play.queries[name] = sql
    for _ in range(choose.choice((3, 5, 7))):
        play.declare()
    moves = [play.change, play.change, play.change, play.drop, play.reopen, play.follow, play.keep_changes, play.move]
    moves += [play.lose]
    if kind == "TABLE":
        moves += [play.declare, play.declare]
    for _ in range(steps):
        move = choose.choice(moves)
        move()
        play.check(move.__name__)
    play.db.close()
    return play


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_views_that_are_read_from_units_of_others_are_right(
    engine: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored views are taken to be few or many so soon that snapshots move them both ways.

    Rows that arrive are left as they come, as if they were many with different keys.
    """
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    monkeypatch.setattr("viewlet.codegen.node.APART_FROM", 0)
    monkeypatch.setattr(host, "BUSY_BATCHES", 3)
    monkeypatch.setattr(host, "FEW_ROWS", 6)
    monkeypatch.setattr(partitioning, "DRIVER_ROWS", 12)
    plays = [played(seed, tmp_path / str(seed), engine, kind) for seed in range(SEEDS)]
    assert any(play.shared for play in plays)
    assert any(play.merged for play in plays)
