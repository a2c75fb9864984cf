"""Kills a process that commits batches, at random moments and for good (SIGKILL), and checks what it left.

    python -m bench.kill_soak --kills 200

After each kill the directory is opened again and compared with an independent account: batches are a function of their
number alone, so DuckDB can be given every batch up to the epoch found and asked the queries of the views. Every batch
that was acknowledged must be there, at most one more, and none twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import viewlet
from viewlet.runtime.durable import store

TABLES = {
    "orders": "CREATE TABLE orders (k BIGINT PRIMARY KEY, customer VARCHAR, price BIGINT)",
    "line": "CREATE TABLE line (k BIGINT, part BIGINT, quantity DECIMAL(9,2))",
    "click": "CREATE STREAM click (customer VARCHAR, seconds BIGINT)",
}
VIEWS = {
    "spend": "SELECT customer, SUM(price) AS total, COUNT(*) AS n FROM orders GROUP BY customer",
    "sold": "SELECT part, SUM(quantity) AS q, MAX(price) AS p FROM orders JOIN line USING (k) GROUP BY part",
    "active": "SELECT customer, SUM(seconds) AS s, COUNT(*) AS n FROM click GROUP BY customer",
    "idle": "SELECT k FROM orders WHERE NOT EXISTS (SELECT * FROM line WHERE line.k = orders.k)",
    "best": "SELECT customer, total FROM spend WHERE total > 500",
}
PASSING = ("passing", "SELECT part, COUNT(*) AS n FROM line WHERE quantity > 2 GROUP BY part")
"""A view that comes and goes."""
SHORT_LOG = 30_000
LAG = 12
"""Epochs after which half of the rows of a batch are deleted."""
Rows = list[tuple[Any, ...]]


def inserted(epoch: int) -> dict[str, Rows]:
    rng = random.Random(epoch)
    orders = [(epoch * 100 + i, f"c{rng.randrange(9)}", rng.randrange(100)) for i in range(rng.randrange(1, 8))]
    lines = [
        (k, rng.randrange(5), f"{rng.randrange(400) / 100:.2f}") for k, *_ in orders for _ in range(rng.randrange(3))
    ]
    clicks = [(f"c{rng.randrange(9)}", rng.randrange(60)) for _ in range(rng.randrange(1, 9))]
    return {"orders": orders, "line": lines, "click": clicks}


def deleted(epoch: int) -> dict[str, Rows]:
    old = inserted(epoch - LAG) if epoch > LAG else {}
    return {name: old[name][::2] for name in ("orders", "line") if name in old}


def batch(epoch: int) -> dict[str, Any]:
    """What leads to an epoch."""
    columns = {
        "orders": ("k", "customer", "price"),
        "line": ("k", "part", "quantity"),
        "click": ("customer", "seconds"),
    }
    changes: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for rows, sign in ((inserted(epoch), 1), (deleted(epoch), -1)):
        for name, many in rows.items():
            changes[name] += [dict(zip(columns[name], row, strict=True)) | {"_multiplicity": sign} for row in many]
    return changes


def work(path: str, engine: str) -> None:
    """Commits batch after batch and says so, until it is killed."""
    store.SHORTEST_LOG = SHORT_LOG
    db = viewlet.connect(path, engine=engine)
    for name, sql in TABLES.items():
        if name not in db.tables:
            db.execute(sql)
    for name, sql in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {sql}")
    print("ready", flush=True)
    if db.epoch:
        db.apply(batch(db.epoch), batch_id=db.epoch)  # committed before: must do nothing
    while True:
        epoch = db.epoch + 1
        if epoch % 9 == 0:
            db.execute(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {PASSING[0]} AS {PASSING[1]}")
        elif epoch % 9 == 4:
            db.execute(f"DROP VIEW IF EXISTS {PASSING[0]}")
        print(db.apply(batch(epoch), batch_id=epoch), flush=True)


@dataclass(slots=True)
class Account:
    """The same history in DuckDB."""

    epoch: int = 0
    duck: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        for sql in TABLES.values():
            self.duck.execute(sql.replace("STREAM", "TABLE").replace(" PRIMARY KEY", ""))

    def advance(self, epoch: int) -> None:
        while self.epoch < epoch:
            self.epoch += 1
            for name, rows in deleted(self.epoch).items():
                self._delete(name, rows)
            for name, rows in inserted(self.epoch).items():
                if rows:
                    self.duck.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def _delete(self, name: str, rows: Rows) -> None:
        columns = ("k", "customer", "price") if name == "orders" else ("k", "part", "quantity")
        where = " AND ".join(f"{column} = ?" for column in columns)
        for row in rows:  # one of several equal rows
            one = f"SELECT MIN(rowid) FROM {name} WHERE {where}"
            self.duck.execute(f"DELETE FROM {name} WHERE rowid = ({one})", row)

    def answer(self, sql: str) -> list[tuple[Any, ...]]:
        known = "WITH spend AS (" + VIEWS["spend"] + ") "
        return _sorted(self.duck.execute(known + sql).fetchall())


def check(path: str, acknowledged: int, account: Account, rng: random.Random) -> int:
    """Opens what a killed process left; returns its epoch."""
    db = viewlet.connect(path)
    try:
        assert acknowledged <= db.epoch <= acknowledged + 1, f"acknowledged {acknowledged}, found {db.epoch}"
        account.advance(db.epoch)
        for name in set(TABLES) & set(db.tables) - {"click"}:
            _same(name, db.table(name).to_arrow(), account.answer(f"SELECT * FROM {name}"))
        for name, sql in [*VIEWS.items(), PASSING]:
            if name in db.views:
                _same(name, db.view(name).to_arrow(), account.answer(sql))
        assert not db.epoch or set(VIEWS) <= set(db.views)
        return db.epoch
    finally:
        if rng.random() < 0.5:
            db.close()  # writes a snapshot
        else:
            db._session.database().journal.storage.close()  # type: ignore[attr-defined]


def _same(name: str, found: pa.Table, expected: list[tuple[Any, ...]]) -> None:
    rows = _sorted([tuple(row.values()) for row in found.to_pylist()])
    assert rows == expected, f"{name}: {rows[:5]} ... instead of {expected[:5]} ..."


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def kills(path: str, count: int, engine: str, seed: int) -> Iterator[tuple[int, int]]:
    """Kills so many processes one after the other; yields the epoch after each, and how many it had acknowledged."""
    rng, account, epoch = random.Random(seed), Account(), 0
    for _ in range(count):
        command = [sys.executable, "-m", "bench.kill_soak", "--work", path, "--engine", engine]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
            assert process.stdout is not None
            # One in five may die while it opens the directory, the others while they commit.
            if rng.random() < 0.8:
                lines = [process.stdout.readline() for _ in range(rng.randrange(1, 30))]
                time.sleep(rng.random() * 0.05)
            else:
                lines = []
                time.sleep(rng.random() * 1.5)
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        assert process.returncode == -signal.SIGKILL, f"it ended by itself with {process.returncode}"
        told = [int(line) for line in lines if line.endswith("\n") and line != "ready\n"]
        before, epoch = epoch, check(path, told[-1] if told else epoch, account, rng)
        yield epoch, epoch - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--engine", default="interpreter", choices=("auto", "interpreter", "compiled"))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--verbose", action="store_true", help="a line for every kill")
    parser.add_argument("--work", metavar="PATH", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked.work, asked.engine)
    print(f"seed {asked.seed}, engine {asked.engine}")
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "db")
        for number, (epoch, committed) in enumerate(kills(path, asked.kills, asked.engine, asked.seed), 1):
            if asked.verbose or number % 20 == 0:
                print(f"kill {number}: epoch {epoch} is right, {committed} new", flush=True)
        size = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    print(f"{asked.kills} kills, {epoch} batches, no row lost and none twice; {size:,} bytes at the end")


if __name__ == "__main__":
    main()
