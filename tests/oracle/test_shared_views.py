"""Random queries over the same tables, declared together, have the rows that DuckDB finds for each of them.

They read stored views of one another; views come and go, batches fail, and the database is closed and opened again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest

import viewlet
from tests.oracle.comparison import difference
from tests.oracle.oracle import Oracle
from viewlet.codegen import view as codegen_view
from viewlet.connection.facade import Connection
from viewlet.engine import chooser

SEEDS = int(os.environ.get("VIEWLET_SHARED_VIEWS", "3"))
COLUMNS = {"r": ("a", "b"), "s": ("b", "c"), "t": ("c", "d")}
FROM = (
    "r JOIN s ON r.b = s.b",
    "s JOIN t ON s.c = t.c",
    "r JOIN s ON r.b = s.b JOIN t ON s.c = t.c",
    "r LEFT JOIN s ON r.b = s.b",
    "r JOIN r AS r2 ON r.b = r2.a",
    "s",
)
SELECTED = ("r.a", "r.b", "s.b", "s.c", "t.c", "t.d", "r2.b")
NESTED = {
    "r": ("r.a < (SELECT SUM(s.c) FROM s WHERE s.b = r.b)", "r.b IN (SELECT b FROM s GROUP BY b HAVING SUM(c) > 3)"),
    "s": ("s.c <> (SELECT MAX(t.d) FROM t WHERE t.c = s.c)", "EXISTS (SELECT * FROM t WHERE t.c = s.c)"),
}


def random_query(choose: Random) -> str:
    """An aggregate or a join over a few tables; queries often have parts in common."""
    tables = choose.choice(FROM)
    known = [column for column in SELECTED if column.split(".")[0] in tables.split()]
    value, (first, *others) = choose.choice(known), choose.sample(known, len(known))
    nested = [text for table, texts in NESTED.items() if table in tables.split() for text in texts]
    where = choose.choice(("", "", f"WHERE {value} > {choose.randrange(4)}", f"WHERE {choose.choice(nested)}"))
    if choose.random() < 0.15:
        return f"SELECT {first} AS x0, {value} AS x1 FROM {tables} {where}"
    keys = choose.choice(([], [first], [first], [first, *others[:1]]))
    aggregates = choose.sample((f"SUM({value})", "COUNT(*)", f"MIN({value})", f"AVG({value})"), choose.choice((1, 2)))
    having = choose.choice(("", "", f"HAVING COUNT(*) > {choose.randrange(3)}"))
    group = f"GROUP BY {', '.join(keys)}" if keys else ""
    named = [f"{text} AS x{i}" for i, text in enumerate((*keys, *aggregates))]
    return f"SELECT {', '.join(named)} FROM {tables} {where} {group} {having}"


def random_changes(
    choose: Random, tables: dict[str, list[tuple[int, int]]], many: int = 6
) -> tuple[dict[str, list[tuple[tuple[int, int], int]]], dict[str, Any]]:
    """So many new rows for some tables, and some old ones that go: as signed rows, and as `apply` takes them."""
    batch: dict[str, list[tuple[tuple[int, int], int]]] = {}
    for table in choose.sample(sorted(COLUMNS), choose.choice((1, 2, 3))):
        rows = tables[table]
        new = [(choose.randrange(6), choose.randrange(6)) for _ in range(many)]
        old = choose.sample(rows, min(len(rows), choose.randrange(5)))
        for row in old:
            rows.remove(row)
        rows += new
        batch[table] = [(row, 1) for row in new] + [(row, -1) for row in old]
    return batch, {
        table: [{**dict(zip(COLUMNS[table], row, strict=True)), "_multiplicity": sign} for row, sign in changes]
        for table, changes in batch.items()
    }


class Play:
    """A database and DuckDB, with the same tables and changes."""

    def __init__(self, choose: Random, path: Path, engine: str, kind: str) -> None:
        self.choose, self.path, self.engine, self.kind = choose, path, engine, kind
        self.oracle = Oracle()
        self.rows: dict[str, list[tuple[int, int]]] = {table: [] for table in COLUMNS}
        self.queries: dict[str, str] = {}
        self.borrowed = 0
        for table, (first, second) in COLUMNS.items():
            self.oracle.create(table, f"CREATE TABLE {table} ({first} BIGINT, {second} BIGINT)")
        self.db = self.opened()
        for table, (first, second) in COLUMNS.items():
            self.db.execute(f"CREATE {kind} {table} ({first} BIGINT NOT NULL, {second} BIGINT NOT NULL)")
        self.db.execute("CREATE TABLE once (k BIGINT NOT NULL, PRIMARY KEY (k))")

    def opened(self) -> Connection:
        return viewlet.connect(self.path, engine=self.engine, fsync=False)

    def declare(self) -> None:
        name, sql = f"v{len(self.queries)}_{self.choose.randrange(1000)}", random_query(self.choose)
        self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        self.queries[name] = sql

    def drop(self) -> None:
        if len(self.queries) > 1:
            name = self.choose.choice(sorted(self.queries))
            self.db.execute(f"DROP VIEW {name}")
            del self.queries[name]

    def reopen(self) -> None:
        if self.choose.random() < 0.5:
            self.db.checkpoint()
        self.db.close()
        self.db = self.opened()

    def change(self, many: int = 6) -> None:
        apply_random_batch(self, many)

    def check(self, after: str) -> None:
        for name, sql in self.queries.items():
            found = difference(self.db.view(name).rows(), self.oracle.rows(sql))
            assert found is None, f"{name} after {after}: {found}\n{sql}\nbeside {self.queries}"
            self.borrowed += len(self.db.view(name).stats().get("borrowed", ()))


class Played(Protocol):
    """A database and DuckDB that get the same random batches."""

    choose: Random
    oracle: Oracle
    rows: dict[str, list[tuple[int, int]]]

    @property
    def db(self) -> Connection: ...

    def check(self, after: str) -> None: ...


def apply_random_batch(play: Played, many: int = 6) -> None:
    """A batch that adds rows and takes some away; at times it fails first, after everything else has run."""
    batch, given = random_changes(play.choose, play.rows, many)
    if play.choose.random() < 0.2:
        with pytest.raises(RuntimeError), failing(play.db):
            play.db.apply(given)
        play.check("a batch that failed")
    play.db.apply(given)
    play.oracle.apply(batch)


@contextmanager
def failing(db: Connection) -> Iterator[None]:
    """A journal that fails when a batch has run."""
    journal = db._session.database().journal
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(journal, "batch", _fail)
        yield


def _fail(*_: object) -> None:
    raise RuntimeError("no")


def played(seed: int, path: Path, engine: str, kind: str, steps: int = 14) -> Play:
    choose = Random(seed)
    play = Play(choose, path, engine, kind)
    for _ in range(choose.choice((3, 4, 5))):
        play.declare()
    moves = [play.change, play.change, play.change, play.drop, play.reopen, lambda: play.change(40)]
    if kind == "TABLE":
        moves += [play.declare, play.declare]
    for _ in range(steps):
        move = choose.choice(moves)
        move()
        play.check(getattr(move, "__name__", "a large batch"))
    play.db.close()
    return play


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["interpreter", "compiled", "auto"])
def test_views_that_share_stored_views_are_right(
    engine: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under `auto` views are loaded in bulk and move to compiled code on the way, each at a time of its own.

    Generated code takes back what failed as machine code does, or with copies.
    """
    monkeypatch.setattr(chooser, "LARGE_BATCH", 30)
    monkeypatch.setattr(chooser, "WORTH_WAITING", 10_000)
    monkeypatch.setattr(chooser, "COMPILE_AFTER_ROWS", 120)
    borrowed = 0
    for seed in range(SEEDS):
        monkeypatch.setattr(codegen_view, "ENABLED", seed % 2 == 1)
        borrowed += played(seed, tmp_path / str(seed), engine, kind).borrowed
    assert borrowed
