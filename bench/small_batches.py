"""What one row costs: inserts into a table with one view over it, beside SQLite, DuckDB and a Python dictionary.

    python -m bench.small_batches
    python -m bench.small_batches --threads 64 --folder /tmp

The view is a sum and a count by one column. SQLite keeps it by a trigger; DuckDB, which has no views of this kind, only
inserts the row; the dictionary is what one would write by hand. Everybody takes turns, and what is shown is the median
of the rounds, in microseconds a row. The second table is about a directory: rows committed in a second, synced, by one
thread and by many.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import duckdb
import typer

import viewlet

TABLE = "CREATE TABLE t (k INTEGER NOT NULL, g VARCHAR, x BIGINT)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g"
GROUPS = [f"group {i}" for i in range(50)]
Insert = Callable[[int], object]


def database(engine: str, place: Path | None = None) -> viewlet.Connection:
    db = viewlet.connect(place, engine=engine)
    db.execute(TABLE)
    db.execute(VIEW)
    for i in range(200):
        db.insert("t", [row(i)])
    db.settle()
    return db


def row(i: int) -> tuple[int, str, int]:
    return i, GROUPS[i % 50], i


def ways() -> Iterator[tuple[str, Insert]]:
    """Names, and what inserts a row."""
    for engine in ("compiled", "interpreter"):
        db = database(engine)
        db.execute("PREPARE one AS INSERT INTO t VALUES ($1, $2, $3)")
        yield f"`insert`, {engine}", lambda i, db=db: db.insert("t", [row(i)])  # type: ignore[misc]
        yield (
            f"`INSERT` with parameters, {engine}",
            lambda i, db=db: db.execute("INSERT INTO t VALUES (?, ?, ?)", row(i)),  # type: ignore[misc]
        )
        yield (
            f"`EXECUTE` of a prepared INSERT, {engine}",
            lambda i, db=db: db.execute(f"EXECUTE one({i}, '{GROUPS[i % 50]}', {i})"),  # type: ignore[misc]
        )
    lite = sqlite3.connect(":memory:", isolation_level=None)
    lite.executescript(f"""{TABLE}; CREATE TABLE v (g VARCHAR PRIMARY KEY, s BIGINT, n BIGINT);
        CREATE TRIGGER keep AFTER INSERT ON t BEGIN
            INSERT INTO v VALUES (NEW.g, NEW.x, 1) ON CONFLICT (g) DO UPDATE SET s = s + NEW.x, n = n + 1;
        END;""")
    yield "SQLite, a trigger", lambda i: lite.execute("INSERT INTO t VALUES (?, ?, ?)", row(i))
    duck = duckdb.connect()
    duck.execute(TABLE)
    yield "DuckDB, the table alone", lambda i: duck.execute("INSERT INTO t VALUES (?, ?, ?)", row(i))
    rows: list[tuple[int, str, int]] = []
    view: dict[str, list[int]] = {}

    def by_hand(i: int) -> None:
        given = row(i)
        rows.append(given)
        group = view.setdefault(given[1], [0, 0])
        group[0] += given[2]
        group[1] += 1

    yield "a dictionary, by hand", by_hand
    db = viewlet.connect(engine="interpreter")
    db.execute(TABLE)
    for i, group in enumerate(GROUPS * 20):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS SELECT COUNT(*) AS n, SUM(x) AS s FROM t WHERE g = '{group} {i}'")
    yield (
        "`insert` under 1,000 views of one group each",
        lambda i: db.insert("t", [(i, f"{GROUPS[i % 50]} {i % 50}", i)]),
    )


def microseconds(rounds: int, size: int) -> dict[str, float]:
    """The median time of a row for each way, which take turns."""
    every = dict(ways())
    found: dict[str, list[float]] = {name: [] for name in every}
    for number in range(rounds):
        for name, insert in every.items():
            rows = range(number * size, (number + 1) * size)
            started = time.perf_counter()
            for i in rows:
                insert(i)
            found[name].append(1e6 * (time.perf_counter() - started) / size)
    return {name: statistics.median(times) for name, times in found.items()}


def rows_in_a_second(threads: int, seconds: float, folder: str | None) -> tuple[float, float]:
    """Rows that threads commit to a directory, and rows of a batch."""
    with tempfile.TemporaryDirectory(dir=folder) as place, database("compiled", Path(place) / "db") as db:
        before, done, end = db.epoch, [0] * threads, time.perf_counter() + seconds

        def work(number: int) -> None:
            while time.perf_counter() < end:
                db.insert("t", [row(number)])
                done[number] += 1

        workers: list[Any] = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(done) / (time.perf_counter() - started), sum(done) / (db.epoch - before)


def main(
    rounds: Annotated[int, typer.Option(help="rounds, of which the median counts")] = 15,
    size: Annotated[int, typer.Option(help="rows of a round")] = 500,
    threads: Annotated[int, typer.Option(help="threads that insert into a directory")] = 64,
    seconds: Annotated[float, typer.Option(help="how long they do")] = 5,
    folder: Annotated[str | None, typer.Option(help="where the directory is made")] = None,
) -> None:
    typer.echo("| one row | microseconds |\n|---|---|")
    for name, time_of_row in microseconds(rounds, size).items():
        typer.echo(f"| {name} | {time_of_row:.1f} |")
    typer.echo("\n| threads | rows a second, synced | rows of a batch | times one thread |\n|---|---|---|---|")
    alone = 0.0
    for count in (1, 8, threads):
        speed, together = rows_in_a_second(count, seconds, folder)
        alone = alone or speed
        typer.echo(f"| {count} | {speed:,.0f} | {together:.1f} | {speed / alone:.1f}x |")


if __name__ == "__main__":
    typer.run(main)
