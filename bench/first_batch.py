"""What a new connection makes of its first batch, and of those that follow: is there a batch that takes far longer?

python -m bench.first_batch
python -m bench.first_batch --before ../other-checkout/src --sizes 1000,500000

For every query and kind of table a database starts empty, takes one batch of so many rows, then 20 batches of 1,000. In
the rows "declared after" the tables are filled first and the view is declared then. Three figures: the seconds of the
first batch (or of the declaration), of the longest batch after it, and of all together. `cold` starts with an empty
cache of generated code, `warm` with one in which the same view has been compiled before. Beside the default there is
`engine="compiled"`, whose seconds include the declaration, because that is when it compiles.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.isolation import ROOT, isolated

TABLES = {
    "customer": "custkey BIGINT NOT NULL, nation INTEGER NOT NULL",
    "orders": "orderkey BIGINT NOT NULL, custkey BIGINT NOT NULL",
    "lineitem": "orderkey BIGINT NOT NULL, price DECIMAL(12,2) NOT NULL, quantity INTEGER NOT NULL",
}
QUERIES = {
    "group": "SELECT quantity, SUM(price) AS price, COUNT(*) AS n FROM lineitem GROUP BY quantity",
    "join": "SELECT custkey, SUM(price) AS price FROM orders JOIN lineitem USING (orderkey) GROUP BY custkey",
    "nested": """SELECT nation, COUNT(*) AS n, SUM(total) AS total
        FROM customer JOIN orders USING (custkey)
        JOIN (SELECT orderkey, SUM(quantity) AS total FROM lineitem GROUP BY orderkey) AS large USING (orderkey)
        WHERE total > 100 GROUP BY nation""",
}
LATER_BATCHES, LATER_ROWS = 20, 1_000
DECLARED_AFTER = "declared after"
PAGE = """# first-batch

A database starts empty, takes a first batch of so many rows, then {batches} batches of {rows:,}. Where the view is
*declared after*, the tables hold the rows already. Seconds of the first batch (or of the declaration) / of the longest
batch after it / of all together. *default* is `connect()`; *cold* starts with an empty cache of generated code, *warm*
with one in which the view has been compiled before; *compiled* is `connect(engine="compiled")` with an empty cache, its
declaration included. Written by `python -m bench.first_batch` ({facts}).

{table}
"""


@dataclass(frozen=True)
class Run:
    query: str
    kind: str
    rows: int
    engine: str
    declared_after: bool = False
    clock: str = "wall"


@dataclass(frozen=True)
class Measured:
    first: float
    longest: float
    total: float
    engine: str


def rows_of(first: int, count: int) -> dict[str, Any]:
    """Arrow tables: line items, a quarter as many orders, and a tenth as many customers as orders."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(first)
    orders = np.arange(first // 4, max(first // 4 + 1, (first + count) // 4))
    customers = np.arange(orders[0] // 10, max(orders[0] // 10 + 1, orders[-1] // 10))
    cents = pa.array(random.integers(100, 10_000_000, count)).cast(pa.decimal128(19, 0))
    price = pa.Array.from_buffers(pa.decimal128(12, 2), count, cents.buffers())
    return {
        "customer": pa.table({"custkey": customers, "nation": pa.array(customers % 25, pa.int32())}),
        "orders": pa.table({"orderkey": orders, "custkey": random.choice(customers, len(orders))}),
        "lineitem": pa.table(
            {
                "orderkey": random.choice(orders, count),
                "price": price,
                "quantity": pa.array(random.integers(1, 51, count), pa.int32()),
            }
        ),
    }


def measure(run: Run) -> Measured:
    """One run in this process; only what a connection offers its users is called."""
    import viewlet

    db = viewlet.connect(engine=run.engine)
    used = [table for table in TABLES if table in QUERIES[run.query]]
    for table in used:
        db.execute(f"CREATE {run.kind} {table} ({TABLES[table]})")
    starts = range(run.rows, run.rows + LATER_BATCHES * LATER_ROWS, LATER_ROWS)
    batches = [rows_of(0, run.rows), *(rows_of(start, LATER_ROWS) for start in starts)]
    seconds: list[float] = []

    clock = time.process_time if run.clock == "cpu" else time.perf_counter

    def timed(action: Any) -> None:
        started = clock()
        action()
        seconds.append(clock() - started)

    declare = f"CREATE MATERIALIZED VIEW v AS {QUERIES[run.query]}"
    batches = [{table: batch[table] for table in used} for batch in batches]
    if run.declared_after:
        db.apply(batches[0])
        timed(lambda: db.execute(declare))
    elif run.engine == "compiled":
        timed(lambda: (db.execute(declare), db.apply(batches[0])))
    else:
        db.execute(declare)
        timed(lambda: db.apply(batches[0]))
    for batch in batches[1:]:
        timed(lambda batch=batch: db.apply(batch))
    engine = str(db.view("v").stats()["engine"])
    db.view("v").rows()
    db.close()
    return Measured(seconds[0], max(seconds[1:]), sum(seconds), engine)


def measured(run: Run, source: Path, cache: str, timeout: float) -> Measured | None:
    """One run in a process of its own, with the package from `source`; None if it took too long."""
    found = isolated("bench.first_batch", asdict(run), source, timeout, VIEWLET_CACHE=cache)
    return None if found is None else Measured(**found)


def runs(queries: list[str], kinds: list[str], sizes: list[int], clock: str) -> Iterator[Run]:
    for query, kind in product(queries, kinds):
        for rows in sizes:
            yield Run(query, kind, rows, "auto", clock=clock)
        if kind == "TABLE":
            yield Run(query, kind, max(sizes), "auto", declared_after=True, clock=clock)


def shown(measured: Measured | None, timeout: float) -> str:
    if measured is None:
        return f"> {timeout:.0f}"
    return f"{measured.first:.2f} / {measured.longest:.3f} / {measured.total:.2f}"


def line_of(run: Run, sources: dict[str, Path], timeout: float) -> str:
    """A row of the table: every source, compiled and default, cold and warm."""
    cells = []
    for source in sources.values():
        with tempfile.TemporaryDirectory() as warm, tempfile.TemporaryDirectory() as cold:
            compiled = measured(replace(run, engine="compiled"), source, warm, timeout)
            cells += [measured(run, source, cold, timeout), measured(run, source, warm, timeout), compiled]
    what = f"{run.rows:,}" + (f", {DECLARED_AFTER}" if run.declared_after else "")
    return " | ".join((f"| {run.query}", run.kind, what, *(shown(cell, timeout) for cell in cells))) + " |"


def main(
    before: Annotated[Path | None, typer.Option(help="the src folder of a checkout to compare with")] = None,
    queries: Annotated[str, typer.Option(help="any of group, join, nested")] = ",".join(QUERIES),
    kinds: Annotated[str, typer.Option(help="STREAM, TABLE or both")] = "STREAM,TABLE",
    sizes: Annotated[str, typer.Option(help="rows of the first batch")] = "1,1000,50000,500000",
    timeout: Annotated[float, typer.Option(help="seconds per run")] = 180.0,
    clock: Annotated[str, typer.Option(help="wall, or cpu where other programs keep the machine busy")] = "wall",
    out: Annotated[Path | None, typer.Option(help="a file for the table, besides the terminal")] = None,
    worker: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure first batches and print a table in Markdown."""
    if worker is not None:
        print(json.dumps(asdict(measure(Run(**json.loads(worker))))))
        return
    sources = ({"before": before.resolve()} if before is not None else {}) | {"now": ROOT / "src"}
    columns = [f"{name}, {what}" for name in sources for what in ("default cold", "default warm", "compiled cold")]
    lines = ["| query | kind | first rows | " + " | ".join(columns) + " |", "|" + "---|" * (3 + len(columns))]
    print("\n".join(lines), flush=True)
    for run in runs(queries.split(","), kinds.split(","), [int(size) for size in sizes.split(",")], clock):
        lines.append(line_of(run, sources, timeout))
        print(lines[-1], flush=True)
    if out is not None:
        unit = "CPU seconds of the process" if clock == "cpu" else "elapsed seconds"
        facts = f"{unit}, Python {platform.python_version()}, {os.cpu_count()} cores"
        table = "\n".join(lines)
        out.write_text(PAGE.format(batches=LATER_BATCHES, rows=LATER_ROWS, facts=facts, table=table))


if __name__ == "__main__":
    typer.run(main)
