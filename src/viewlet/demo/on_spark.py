"""The demonstration on Spark: changes arrive as files, Structured Streaming hands them over, views stay right.

Afterwards the database is opened again from its checkpoint, as after a crash, and every view is compared with what
DuckDB and Spark SQL compute from scratch.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

import viewlet
from viewlet.connection.spark_facade import SparkConnection
from viewlet.demo.check import Rows, Verdict, verdicts
from viewlet.demo.data import Batch, Database, arrivals, generate, withdrawals
from viewlet.demo.screen import make_console, mark
from viewlet.demo.views import SCHEMA, VIEWS, DemoView

ORDERS_PER_BATCH = 500
SHARE_WITHDRAWN = 0.2
CHANGING = ("orders", "lineitem")
PARTITIONS = 2


@dataclass(slots=True)
class Stage:
    """Where everything is: the data, the folders that files arrive in, and the checkpoint."""

    database: Database
    spark: Any
    incoming: Path
    checkpoint: Path

    def connect(self) -> SparkConnection:
        found = viewlet.connect(spark=self.spark, checkpoint=self.checkpoint, partitions=PARTITIONS)
        assert isinstance(found, SparkConnection)
        return found


def run_demo_on_spark(scale: float, seconds: float) -> bool:
    """Run the demonstration, streaming for about `seconds`; true when every view equals its recomputation."""
    console = make_console()
    console.print(
        f"[bold]Viewlet {viewlet.__version__}[/]: {len(VIEWS)} SQL views over a changing TPC-H database, on Spark\n"
    )
    database = generate(scale)
    sizes = ", ".join(f"{table.num_rows:,} {name}" for name, table in database.tables.items())
    console.print(f"generated   {sizes}")
    with tempfile.TemporaryDirectory(prefix="viewlet-demo-") as folder:
        session = viewlet.spark_session("local[*]")
        console.print(f"started     Spark {session.version}, {session.sparkContext.master}")
        stage = Stage(database, session, Path(folder) / "incoming", Path(folder) / "checkpoint")
        try:
            return _play(stage, console, seconds)
        finally:
            session.stop()


def _play(stage: Stage, console: Console, seconds: float) -> bool:
    db = stage.connect()
    for declaration in SCHEMA.values():
        db.execute(declaration)
    for name in ("nation", "customer"):
        db.insert(name, stage.database.tables[name])
    for view in VIEWS:
        db.execute(f"CREATE MATERIALIZED VIEW {view.name} AS {view.query}")
    console.print("loaded      nation (static) and customer; orders and lineitem come as a stream of files")
    console.print(f"declared    {', '.join(view.name for view in VIEWS)}\n")
    planned = _planned(stage.database)
    alive = _stream(stage, db, planned, console, seconds)
    console.print(_latencies(db))
    db.close()
    again = stage.connect()
    console.print(f"\nopened again from the checkpoint, at epoch {again.epoch}")
    good = _check(stage, again, alive, console)
    again.close()
    return good


def _planned(database: Database) -> list[Batch]:
    coming = list(arrivals(database, ORDERS_PER_BATCH))
    cancelled = {order for batch in coming for order in batch.cancelled}
    left = [order for order in range(database.order_count) if order not in cancelled]
    return [*coming, *withdrawals(left, SHARE_WITHDRAWN, ORDERS_PER_BATCH)]


def _stream(stage: Stage, db: SparkConnection, planned: Sequence[Batch], console: Console, seconds: float) -> list[int]:
    """Writes one file per table and batch, each when the one before has been applied; returns the orders left."""
    for name in CHANGING:
        (stage.incoming / name).mkdir(parents=True)
    _write(stage, 0, planned[0])
    sources = {name: _source(stage, name) for name in CHANGING}
    deadline = time.perf_counter() + seconds
    query = db.stream(sources, name="demo").start()
    try:
        for done, batch in enumerate(planned, 1):
            query.processAllAvailable()
            _line(db, done, len(planned), batch, console)
            if time.perf_counter() > deadline or done == len(planned):
                break
            _write(stage, done, planned[done])
    finally:
        query.stop()
    if done < len(planned):
        console.print(f"stopped after {done} of {len(planned)} batches, the time is up (--seconds)")
    alive: dict[int, None] = {}
    for batch in planned[:done]:
        alive.update(dict.fromkeys(batch.arriving))
        for order in batch.cancelled:
            del alive[order]
    return list(alive)


def _source(stage: Stage, name: str) -> Any:
    schema = stage.spark.read.parquet(str(stage.incoming / name)).schema
    reader = stage.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(stage.incoming / name))


def _write(stage: Stage, number: int, batch: Batch) -> None:
    """Files appear whole; should the stream find the first before the second is there, the batch comes in two parts."""
    for name, changes in stage.database.changes(batch).items():
        hidden = stage.incoming / name / f"_{number:05}.parquet"
        pq.write_table(changes, hidden)
        hidden.rename(hidden.with_name(f"{number:05}.parquet"))


def _line(db: SparkConnection, done: int, of: int, batch: Batch, console: Console) -> None:
    cost = db.stats()["batches"][-1]  # type: ignore[index]
    spent = sum(cost["seconds"].values())
    console.print(
        f"batch {done:>3}/{of}  +{len(batch.arriving):<4} -{len(batch.cancelled):<4} orders"
        f"  {spent:6.2f} s  {cost['stages']} stages  {cost['moved_bytes'] / 1000:8.1f} kB moved"
        f"  {cost['log_bytes'] / 1000:8.1f} kB logged"
    )


def _latencies(db: SparkConnection) -> Table:
    batches = [batch for batch in db.stats()["batches"] if set(CHANGING) <= set(batch["tables"])]  # type: ignore[attr-defined]
    table = Table(title="\n[bold]Seconds per batch", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("phase")
    for heading in ("median", "slowest", "first"):
        table.add_column(heading, justify="right")
    phases = list(dict.fromkeys(phase for batch in batches for phase in batch["seconds"]))
    for phase in [*phases, "all"]:
        spent = [sum(b["seconds"].values()) if phase == "all" else b["seconds"].get(phase, 0.0) for b in batches]
        later = spent[1:] or spent
        table.add_row(phase, f"{median(later):.3f}", f"{max(later):.3f}", f"{spent[0]:.3f}")
    return table


def _check(stage: Stage, db: SparkConnection, alive: list[int], console: Console) -> bool:
    orders = tuple(alive)
    tables = {
        name: stage.database.rows(name, orders) if name in CHANGING else table
        for name, table in stage.database.tables.items()
    }
    maintained = {view.name: _tuples(db.view(view.name).to_arrow()) for view in VIEWS}
    found = verdicts(tables, maintained)
    from_scratch = _by_spark(stage.spark, tables)
    console.print(_verdict_table(console, found, from_scratch))
    good = all(verdict.agrees for verdict in found)
    console.print(
        "[bold green]Every view equals its recomputation.[/]" if good else "[bold red]Some views are wrong.[/]",
    )
    return good


def _tuples(table: Any) -> Rows:
    return list(zip(*table.to_pydict().values(), strict=True))


def _by_spark(spark: Any, tables: dict[str, Any]) -> dict[str, float]:
    """Seconds that Spark SQL takes to compute each view from scratch, the second time."""
    for name, table in tables.items():
        spark.createDataFrame(table).createOrReplaceTempView(name)
    return {view.name: min(_timed(spark, view) for _ in range(2)) for view in VIEWS}


def _timed(spark: Any, view: DemoView) -> float:
    started = time.perf_counter()
    spark.sql(view.query).collect()
    return time.perf_counter() - started


def _verdict_table(console: Console, found: list[Verdict], from_scratch: dict[str, float]) -> Table:
    table = Table(title="[bold]Checked against DuckDB", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    table.add_column("view")
    for heading in ("rows", "from scratch, Spark SQL"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for verdict in found:
        seconds = f"{from_scratch[verdict.view.name]:.2f} s"
        table.add_row(
            mark(verdict.agrees, console), verdict.view.name, f"{verdict.rows:,}", seconds, verdict.difference
        )
    return table
