"""What a kept table costs: queries and batches of columns beside a stream, statements by key, reading, memory.

python -m bench.tables
python -m bench.tables --before ../other-checkout/src --out docs/benchmarks/tables.md

Every figure comes from a process of its own, in CPU seconds of that process: the mean of several batches, or the median
of many statements. A table has five columns (two integers, a decimal, a double, a string of 50 values) and one compiled
view, a sum by group. Batches are Arrow tables whose rows are all new. The queries are those of TPC-H: their tables get
batches in turn, with all columns, either new rows alone or (churn) as many new rows as old ones leave. With `--before`
the same is measured with another checkout of the package, the two taking turns.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from bench.isolation import ROOT, isolated

COLUMNS = "k BIGINT NOT NULL, g INTEGER NOT NULL, price DECIMAL(12,2), ratio DOUBLE, name VARCHAR"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT g, SUM(price) AS price, COUNT(*) AS n FROM t GROUP BY g"
KINDS = {
    "stream": f"CREATE STREAM t ({COLUMNS})",
    "table": f"CREATE TABLE t ({COLUMNS})",
    "table with key": f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (k))",
}
PAGE = """# tables

What a kept table costs, written by `python -m bench.tables` ({facts}).
Every figure is from a process of its own: the mean of several batches, or the median of many statements. The table has
five columns and one view, a sum by group.

## TPC-H

Nanoseconds per row of a stream, in Arrow batches with all columns, and how many times that a
table with its primary key takes, compiled. Churn deletes as many old rows as it inserts.

{queries}

## Batches of columns

Nanoseconds per row of Arrow batches with new rows, compiled views; *x* is the ratio to the stream.

{batches}

## Statements and reading

Milliseconds of one statement by primary key, and of reading right after a change of one row, by the number of rows in
the table.

{statements}

## Single rows

Microseconds of `db.insert("t", [row])`.

{inserts}

Microseconds of an Arrow batch of ten rows over three tables.

{three}

## Memory

Bytes of the process per row, in batches of 10,000.

{memory}
"""
SCALE = 0.1
DATA = ROOT / "bench" / "results" / "data"
FIRST = 1_000
"""Rows of the first batch of a table, which is not counted, without churn."""
STEPS = {1: 1_000, 10: 500, 1_000: 200, 100_000: 100}
"""How many batches of a size are counted at most."""
PLOT = "\n![ratios to a stream](tables.png)\n"


@dataclass(frozen=True)
class Run:
    """One figure: what is measured, on which kind of table, with how many rows in a batch or in the table."""

    what: str
    kind: str
    rows: int
    engine: str = "compiled"
    query: str = ""
    churn: bool = False


def arrow(first: int, rows: int) -> Any:
    """Rows with keys from `first` on."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(first)
    cents = pa.array(random.integers(100, 10_000_000, rows)).cast(pa.decimal128(19, 0))
    names = pa.array([f"name {i}" for i in range(50)])
    return pa.table(
        {
            "k": np.arange(first, first + rows),
            "g": pa.array(random.integers(0, 1_000, rows), pa.int32()),
            "price": pa.Array.from_buffers(pa.decimal128(12, 2), rows, cents.buffers()),
            "ratio": random.random(rows),
            "name": names.take(pa.array(random.integers(0, 50, rows))),
        }
    )


def opened(run: Run) -> Any:
    import viewlet

    db = viewlet.connect(engine=run.engine)
    db.execute(KINDS[run.kind])
    db.execute(VIEW)
    return db


def repeated(action: Callable[[], object], seconds: float, least: int = 3, most: int = 2_000) -> float:
    """The median of an action's CPU seconds, for about so many seconds of the clock."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or (time.perf_counter() < end and len(found) < most):
        started = time.process_time()
        action()
        found.append(time.process_time() - started)
    return median(found)


def batches(run: Run) -> float:
    """Seconds of a batch, the mean of several: now and then a store grows."""
    db, starts = opened(run), count(10**9, run.rows)
    db.insert("t", arrow(0, 1_000))
    made = [arrow(next(starts), run.rows) for _ in range(4 if run.rows > 100_000 else 25)]
    started = time.process_time()
    for batch in made:
        db.insert("t", batch)
    return (time.process_time() - started) / len(made)


def inserts(run: Run) -> float:
    """Seconds of a batch of one row, the median over many; the clock of the process is too coarse for one."""
    db, keys = opened(run), count()
    for _ in range(200):
        db.insert("t", [(next(keys), 1, "2.50", 0.5, "name 1")])
    found = []
    for _ in range(15):
        rows = [[(next(keys), 1, "2.50", 0.5, "name 1")] for _ in range(200)]
        started = time.process_time()
        for row in rows:
            db.insert("t", row)
        found.append((time.process_time() - started) / len(rows))
    return median(found)


def tpch_query(run: Run) -> float:
    """Seconds of a row of a TPC-H query, the mean over the stream after a first batch for each table."""
    from pyarrow.parquet import read_table

    import viewlet
    from bench.sources import find_query, plain, tables_read
    from workloads import tpch

    files = tpch.load_tpch(SCALE, DATA)
    query = find_query("tpch", run.query)
    db = viewlet.connect(engine=run.engine)
    for sql in tpch.TABLES.values():
        db.execute(sql if run.kind != "stream" else as_stream(sql))
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query.sql}")
    rows = {name: plain(read_table(files[name])) for name in tables_read(query, tpch.TABLES)}
    batches = list(query_batches(rows, run.rows, run.churn))
    first, later = batches[: len(rows)], batches[len(rows) :]
    for batch in (*first, *warming(first)):
        db.apply(batch)
    started = time.process_time()
    for batch in later:
        db.apply(batch)
    return (time.process_time() - started) / sum(len(data) for batch in later for data in batch.values())


def warming(first: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Takes some rows out and puts them in again, so that code which deletes is loaded too."""
    for sign in (-1, 1):
        for batch in first:
            for name, data in batch.items():
                some = data.slice(0, FIRST // 2)
                yield {name: some.append_column("_multiplicity", [[sign] * len(some)])}


def as_stream(sql: str) -> str:
    """A table of TPC-H that keeps no rows, and so has no key."""
    return re.sub(r",\s*PRIMARY KEY \([^)]*\)", "", sql).replace("CREATE TABLE", "CREATE STREAM")


def query_batches(rows: dict[str, Any], size: int, churn: bool) -> Iterator[dict[str, Any]]:
    """A first batch of each table, then batches of this size of each table in turn, at most `STEPS` of them."""
    from bench.streams import churn_events, insert_events, round_robin

    events = {
        name: churn_events(len(table), max(FIRST, len(table) // 4)) if churn else insert_events(len(table))
        for name, table in rows.items()
    }
    firsts = {
        name: min(len(each), max(FIRST, len(rows[name]) // 4) if churn else FIRST) for name, each in events.items()
    }
    for name, first in firsts.items():
        yield {name: rows[name].slice(0, first)}
    left = {name: len(each) - firsts[name] for name, each in events.items() if len(each) > firsts[name]}
    for (piece,) in islice(round_robin(left, size), STEPS[size]):
        each, begin = events[piece.table], firsts[piece.table]
        cut = slice(begin + piece.begin, begin + piece.end)
        data = rows[piece.table].take(each.rows[cut]).combine_chunks()
        yield {piece.table: data.append_column("_multiplicity", [each.signs[cut]]) if churn else data}


def large(run: Run) -> tuple[Any, Iterator[int]]:
    """A table with so many rows, and keys of them that no statement has named yet."""
    db = opened(run)
    for start in range(0, run.rows, 100_000):
        db.insert("t", arrow(start, min(100_000, run.rows - start)))
    return db, iter(range(run.rows // 2, run.rows))


def statements(run: Run) -> float:
    """Seconds of an UPDATE or DELETE of one row."""
    db, keys = large(run)
    sql = {"UPDATE": "UPDATE t SET price = price + 1 WHERE k = {}", "DELETE": "DELETE FROM t WHERE k = {}"}[run.what]
    db.execute(sql.format(next(keys)))
    return repeated(lambda: db.execute(sql.format(next(keys))), 3)


def readings(run: Run) -> float:
    """Seconds of reading after a change of one row, the change not counted."""
    db, keys = large(run)
    read: Callable[[], object] = {
        "len": lambda: len(db.table("t")),
        "to_arrow": lambda: db.table("t").to_arrow(),
        "SELECT": lambda: db.execute("SELECT COUNT(*) AS n, SUM(price) AS price FROM t"),
    }[run.what]
    read()
    found = []
    end = time.perf_counter() + 3
    while len(found) < 3 or (time.perf_counter() < end and len(found) < 200):
        db.insert("t", [(10**9 + next(keys), 1, "2.50", 0.5, "name 1")])
        started = time.process_time()
        read()
        found.append(time.process_time() - started)
    return median(found)


def three_tables(run: Run) -> float:
    """Seconds of a batch of ten rows of Arrow over three tables, the median over many."""
    import viewlet

    db, starts = viewlet.connect(engine=run.engine), count(10**9, 10)
    for name in "abc":
        db.execute(KINDS[run.kind].replace(" t ", f" {name} "))
        db.execute(VIEW.replace(" v ", f" v_{name} ").replace("FROM t", f"FROM {name}"))
        db.insert(name, arrow(0, 1_000))
    batches = [
        {"a": whole.slice(0, 4), "b": whole.slice(4, 3), "c": whole.slice(7)}
        for whole in (arrow(next(starts), 10) for _ in range(900))
    ]
    for batch in batches[:150]:
        db.apply(batch)
    found = []
    for first in range(150, 900, 50):
        started = time.process_time()
        for batch in batches[first : first + 50]:
            db.apply(batch)
        found.append((time.process_time() - started) / 50)
    return median(found)


def memory(run: Run) -> float:
    """Bytes of a row, by the memory of the process before and after many batches."""
    db = opened(run)
    db.insert("t", arrow(0, 1_000))
    before = resident()
    for start in range(10**6, 10**6 + run.rows, 10_000):
        db.insert("t", arrow(start, 10_000))
    return (resident() - before) / run.rows


def resident() -> int:
    import gc

    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


MEASURES: dict[str, Callable[[Run], float]] = {
    "queries": tpch_query,
    "three tables": three_tables,
    "memory": memory,
    "batches": batches,
    "inserts": inserts,
    **dict.fromkeys(("UPDATE", "DELETE"), statements),
    **dict.fromkeys(("len", "to_arrow", "SELECT"), readings),
}


Figures = dict[tuple[Run, str], float | None]


def runs(batch_sizes: list[int], table_sizes: list[int], query_sizes: list[int], names: list[str]) -> Iterator[Run]:
    for rows in query_sizes:
        for churn in (False, True):
            for name in names:
                for kind in ("stream", "table with key"):
                    yield Run("queries", kind, rows, query=name, churn=churn)
    for rows in batch_sizes:
        for kind in KINDS:
            yield Run("batches", kind, rows)
    for what in ("UPDATE", "DELETE", "len", "to_arrow", "SELECT"):
        for rows in table_sizes:
            yield Run(what, "table with key", rows)
    for engine in ("interpreter", "compiled"):
        for kind in KINDS:
            yield Run("inserts", kind, 1, engine)
            yield Run("three tables", kind, 10, engine)
            yield Run("memory", kind, table_sizes[-1] // 5, engine)


def shown(seconds: float | None, unit: float) -> str:
    if seconds is None:
        return "–"
    number = seconds * unit
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def page(figures: Figures, names: list[str]) -> str:
    """The tables in Markdown, by what was measured."""
    found = list(dict.fromkeys(run for run, _ in figures))

    def cells(run: Run, unit: float) -> list[str]:
        return [shown(figures.get((run, name)), unit) for name in names]

    batch_lines, statement_lines = [], []
    single: dict[str, list[list[str]]] = {"inserts": [], "three tables": [], "memory": []}
    for run in found:
        if run.what == "batches":
            line = [run.kind, f"{run.rows:,}"]
            for name in names:
                mine, stream = figures.get((run, name)), figures.get((Run("batches", "stream", run.rows), name))
                line += [shown(mine, 1e9 / run.rows), f"{mine / stream:.1f}" if mine and stream else ""]
            batch_lines.append(line)
        elif run.what in single:
            single[run.what].append([run.engine, run.kind, *cells(run, 1 if run.what == "memory" else 1e6)])
        elif run.what == "queries":
            pass
        else:
            statement_lines.append([run.what, f"{run.rows:,}", *cells(run, 1e3)])
    facts = f"CPU seconds of the process, Python {platform.python_version()}, {os.cpu_count()} cores"
    doubled = [text for name in names for text in (f"{name} (ns)", "x")]
    return PAGE.format(
        facts=facts,
        batches=table(["kind", "rows of a batch", *doubled], batch_lines),
        statements=table(["what", "rows", *(f"{name} (ms)" for name in names)], statement_lines),
        inserts=table(["engine", "kind", *(f"{name} (us)" for name in names)], single["inserts"]),
        three=table(["engine", "kind", *(f"{name} (us)" for name in names)], single["three tables"]),
        memory=table(["engine", "kind", *names], single["memory"]),
        queries=query_table(figures, names),
    )


def query_table(figures: Figures, names: list[str]) -> str:
    """A line for each query, and for each size of batches what a stream takes and the ratios to it."""
    found = [run for run, _ in figures if run.what == "queries" and run.kind == "stream"]
    modes = list(dict.fromkeys((run.rows, run.churn) for run in found))
    titles = {mode: f"{mode[0]:,}{' churn' if mode[1] else ''}" for mode in modes}
    lines = []
    for query in dict.fromkeys(run.query for run in found):
        line = [query]
        for rows, churn in modes:
            stream, kept = (
                Run("queries", kind, rows, query=query, churn=churn) for kind in ("stream", "table with key")
            )
            line.append(shown(figures.get((stream, names[-1])), 1e9))
            for name in names:
                mine, seconds = figures.get((kept, name)), figures.get((stream, name))
                line.append(f"{mine / seconds:.1f}" if mine and seconds else "–")
        lines.append(line)
    head = [text for mode in modes for text in (f"{titles[mode]} (ns)", *(f"x {name}" for name in names))]
    return table(["query", *head], lines)


def draw(figures: Figures, names: list[str], target: Path) -> None:
    """Bars of the ratios to a stream, one group for each kind and size of batch."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kept = [run for run in dict.fromkeys(run for run, _ in figures) if run.what == "batches" and run.kind != "stream"]
    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        ratios = [
            (figures.get((run, name)) or 0) / (figures.get((Run("batches", "stream", run.rows), name)) or 1)
            for run in kept
        ]
        axes.bar([i + width * (place - (len(names) - 1) / 2) for i in range(len(kept))], ratios, width, label=name)
    axes.set_xticks(range(len(kept)), [f"{run.kind}\n{run.rows:,}" for run in kept])
    axes.set_yscale("log")
    axes.set_ylabel("time per row / that of a stream")
    axes.legend()
    figure.tight_layout()
    figure.savefig(target, dpi=110)


def main(
    what: Annotated[str, typer.Option(help="any of queries,batches,UPDATE,...; all when empty")] = "",
    before: Annotated[Path | None, typer.Option(help="the src folder of a checkout to compare with")] = None,
    batch_sizes: Annotated[str, typer.Option(help="rows of a batch")] = "10000,500000",
    table_sizes: Annotated[str, typer.Option(help="rows of a table")] = "10000,1000000",
    query_sizes: Annotated[str, typer.Option(help="rows of a batch of TPC-H")] = "1000,100000",
    queries: Annotated[str, typer.Option(help="q01,q03,...; all when empty")] = "",
    rounds: Annotated[int, typer.Option(help="how often the checkouts take turns; the best counts")] = 1,
    most_before: Annotated[int, typer.Option(help="rows of a table up to which the other checkout is measured")] = 10
    ** 9,
    timeout: Annotated[float, typer.Option(help="seconds per figure")] = 300.0,
    record: Annotated[Path | None, typer.Option(help="figures as JSON lines; those of earlier runs are kept")] = None,
    out: Annotated[Path | None, typer.Option(help="a file for the tables; a plot is drawn beside it")] = None,
    worker: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure what kept tables cost, and print tables in Markdown."""
    if worker is not None:
        run = Run(**json.loads(worker))
        print(MEASURES[run.what](run))
        return
    sources = ({"before": before.resolve()} if before is not None else {}) | {"now": ROOT / "src"}
    known = record.read_text().splitlines() if record is not None and record.exists() else []
    figures: Figures = {(Run(**run), name): seconds for run, name, seconds in map(json.loads, known)}
    names = queries.split(",") if queries else [f"q{n:02}" for n in range(1, 23)]
    sizes = ([int(size) for size in text.split(",")] for text in (batch_sizes, table_sizes, query_sizes))
    for run in runs(*sizes, names):
        if what and run.what not in what.split(","):
            continue
        for turn in range(rounds):
            for name, source in sources.items():
                skipped = name == "before" and run.what != "batches" and run.rows > most_before
                found = None if skipped else isolated("bench.tables", asdict(run), source, timeout)
                best = figures.get((run, name)) if turn else None
                figures[run, name] = found if best is None else best if found is None else min(best, found)
                if record is not None:
                    with record.open("a") as lines:
                        print(json.dumps([asdict(run), name, figures[run, name]]), file=lines)
        print(run, {name: figures[run, name] for name in sources}, flush=True)
    text = page(figures, [name for name in ("before", "now") if any(name == each for _, each in figures)])
    print(text)
    if out is not None:
        out.write_text(text)
        try:
            draw(figures, list(sources), out.with_suffix(".png"))
            out.write_text(text + PLOT)
        except ImportError:
            print("no plot: matplotlib is not installed (pip install -r bench/requirements.txt)")


if __name__ == "__main__":
    typer.run(main)
