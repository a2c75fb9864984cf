"""The demonstration on Spark: changes arrive as files, Structured Streaming hands them over, views stay right.

Beside each batch stands how long Spark SQL takes to recompute the same views from the rows that are left. Afterwards
the database is opened again from its checkpoint, as after a crash, and every view is compared with what DuckDB computes
from scratch.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
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
from viewlet.demo.screen import format_value, make_console, mark
from viewlet.demo.views import SCHEMA, VIEWS, DemoView

ORDERS_PER_BATCH = 1000
SHARE_WITHDRAWN = 0.2
CHANGING = ("orders", "lineitem")
PARTITIONS = 2
FOLLOWED, NAME, NUMBER = "revenue_by_nation", 0, 1
"""The view whose rows are shown after each batch, and which of its columns."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One batch: how long the views took to follow, and how long recomputing them took beside it."""

    incremental: float
    recomputed: float


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


def run_demo_on_spark(scale: float, seconds: float | None) -> bool:
    """Run the demonstration, streaming for at most about `seconds`; true when every view equals its recomputation."""
    console = make_console()
    console.print(f"[bold]Viewlet {viewlet.__version__}[/]: {len(VIEWS)} SQL views over changing orders, on Spark\n")
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


def _play(stage: Stage, console: Console, seconds: float | None) -> bool:
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
    alive, steps = _stream(stage, db, planned, console, seconds)
    console.print(_latencies(db))
    console.print(_comparison(steps))
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


def _stream(
    stage: Stage, db: SparkConnection, planned: Sequence[Batch], console: Console, seconds: float | None
) -> tuple[list[int], list[Step]]:
    """Writes one file per table and batch, each when the one before has been applied; returns the orders left."""
    for name in CHANGING:
        (stage.incoming / name).mkdir(parents=True)
    _write(stage, 0, planned[0])
    sources = {name: _source(stage, name) for name in CHANGING}
    alive: dict[int, None] = {}
    steps: list[Step] = []
    shown: dict[str, Any] = {}
    deadline = None if seconds is None else time.perf_counter() + seconds
    query = db.stream(sources, name="demo").start()
    try:
        for done, batch in enumerate(planned, 1):
            query.processAllAvailable()
            _follow(alive, batch)
            steps.append(Step(_seconds_of_last_batch(db), _recomputed(stage, alive)))
            console.print(_line(db, f"{done}/{len(planned)}", batch, steps[-1]))
            shown = _show_changes(db, shown, console)
            if done == len(planned) or (deadline is not None and time.perf_counter() > deadline):
                break
            _write(stage, done, planned[done])
    finally:
        query.stop()
    if done < len(planned):
        console.print(f"stopped after {done} of {len(planned)} batches, the time is up (--seconds)")
    return list(alive), steps


def _follow(alive: dict[int, None], batch: Batch) -> None:
    """The demonstration's own account of which orders are left."""
    alive.update(dict.fromkeys(batch.arriving))
    for order in batch.cancelled:
        del alive[order]


def _recomputed(stage: Stage, alive: Iterable[int]) -> float:
    """Seconds that Spark SQL takes to compute all views from the rows that are left."""
    _register(stage.spark, _tables_left(stage.database, alive))
    return sum(_timed(stage.spark, view) for view in VIEWS)


def _show_changes(db: SparkConnection, before: dict[str, Any], console: Console) -> dict[str, Any]:
    """Prints the first rows of a view that the batch changed, as they were and as they are."""
    after = {row[NAME]: row[NUMBER] for row in _tuples(db.view(FOLLOWED).to_arrow())}
    changed = [name for name, number in after.items() if before.get(name) != number]
    for name in changed[:SHOWN]:
        old = format_value(before[name]) if name in before else "new"
        console.print(f"          {FOLLOWED}  {name:<15} {old:>15}  ->  {format_value(after[name]):>15}", style="dim")
    if len(changed) > SHOWN:
        console.print(f"          ... and {len(changed) - SHOWN} more rows of {FOLLOWED}", style="dim")
    return after


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


def _seconds_of_last_batch(db: SparkConnection) -> float:
    return float(sum(db.stats()["batches"][-1]["seconds"].values()))  # type: ignore[index]


def _line(db: SparkConnection, position: str, batch: Batch, step: Step) -> str:
    cost = db.stats()["batches"][-1]  # type: ignore[index]
    return (
        f"batch {position:>5}  +{len(batch.arriving):<4} -{len(batch.cancelled):<4} orders  {step.incremental:5.2f} s"
        f"  recomputing: {step.recomputed:5.2f} s  {cost['stages']} stages  {cost['moved_bytes'] / 1000:6.1f} kB moved"
    )


def _comparison(steps: Sequence[Step]) -> str:
    """The first batch compiles and is left out where there are others."""
    later = steps[1:] or steps
    incremental, recomputed = (median(getattr(step, name) for step in later) for name in ("incremental", "recomputed"))
    return (
        f"A batch refreshed all views in {incremental:.2f} s (median); recomputing them with Spark SQL takes"
        f" {recomputed:.2f} s, {recomputed / incremental:.1f} times as long, and grows with the tables."
    )


def _latencies(db: SparkConnection) -> Table:
    """Of the batches of the stream; loads of views have stages too, over all tables."""
    batches = [batch for batch in db.stats()["batches"] if set(batch["tables"]) == set(CHANGING)]  # type: ignore[attr-defined]
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
    maintained = {view.name: _tuples(db.view(view.name).to_arrow()) for view in VIEWS}
    found = verdicts(_tables_left(stage.database, alive), maintained)
    console.print(_verdict_table(console, found))
    good = all(verdict.agrees for verdict in found)
    console.print(
        "[bold green]Every view equals its recomputation.[/]" if good else "[bold red]Some views are wrong.[/]",
    )
    return good


def _tables_left(database: Database, alive: Iterable[int]) -> dict[str, Any]:
    """The tables without the orders that are gone."""
    orders = tuple(alive)
    return {name: database.rows(name, orders) if name in CHANGING else t for name, t in database.tables.items()}


def _tuples(table: Any) -> Rows:
    return list(zip(*table.to_pydict().values(), strict=True))


def _register(spark: Any, tables: dict[str, Any]) -> None:
    for name, table in tables.items():
        spark.createDataFrame(table).createOrReplaceTempView(name)


def _timed(spark: Any, view: DemoView) -> float:
    started = time.perf_counter()
    spark.sql(view.query).collect()
    return time.perf_counter() - started


def _verdict_table(console: Console, found: list[Verdict]) -> Table:
    table = Table(title="[bold]Checked against DuckDB", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    table.add_column("view")
    table.add_column("rows", justify="right")
    table.add_column("")
    for verdict in found:
        table.add_row(mark(verdict.agrees, console), verdict.view.name, f"{verdict.rows:,}", verdict.difference)
    return table
