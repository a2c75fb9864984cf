"""The demonstration itself: generate, declare, stream, withdraw, check."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import viewlet
from viewlet.connection import Connection
from viewlet.demo.check import Rows, Verdict, verdicts
from viewlet.demo.data import Batch, Database, arrivals, generate, withdrawals
from viewlet.demo.replay import replay
from viewlet.demo.screen import SHOWN_ROWS, Pace, Picture, Screen, make_console, mark
from viewlet.demo.views import SCHEMA, VIEWS, DemoView

ORDERS_PER_BATCH = 100
SHARE_WITHDRAWN = 0.2
SHARE_OF_TIME_FOR_ARRIVALS = 0.8


@dataclass(slots=True)
class State:
    """The connection under demonstration, and the demonstration's own account of which orders are alive."""

    db: Connection
    database: Database
    alive: dict[int, None] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    batches: int = 0
    seconds: float = 0.0

    @property
    def seconds_per_batch(self) -> float:
        return self.seconds / max(self.batches, 1)


def run_demo(scale: float, seconds: float | None) -> bool:
    """Run the demonstration, for at most about `seconds`; true when every view equals its recomputation."""
    console = make_console()
    console.print(f"[bold]Viewlet {viewlet.__version__}[/]: {len(VIEWS)} SQL views over changing orders\n")
    state = _prepare(console, scale)
    _stream(state, console, seconds)
    return _report(state, console)


def _prepare(console: Console, scale: float) -> State:
    database = generate(scale)
    sizes = ", ".join(f"{table.num_rows:,} {name}" for name, table in database.tables.items())
    console.print(f"generated   {sizes}")
    db = viewlet.connect(engine="interpreter")
    for declaration in SCHEMA.values():
        db.execute(declaration)
    for name in ("nation", "customer"):
        db.insert(name, database.tables[name])
    console.print("loaded      nation (static) and customer; orders and lineitem start empty")
    state = State(db, database)
    for view in VIEWS:
        db.execute(f"CREATE MATERIALIZED VIEW {view.name} AS {view.query}")
        state.pictures[view.name] = Picture()
        db.view(view.name).subscribe(_recorder(state.pictures[view.name]))
    console.print(f"declared    {', '.join(view.name for view in VIEWS)}\n")
    return state


def _recorder(picture: Picture) -> Callable[..., None]:
    """A subscriber that notes which result rows came and went in the batch."""

    def record(epoch: int, changes: Any) -> None:
        *columns, multiplicities = changes.to_pydict().values()
        picture.added.clear()
        picture.removed = 0
        for *row, multiplicity in zip(*columns, multiplicities, strict=True):
            if multiplicity > 0:
                picture.added[tuple(row)] += multiplicity
            else:
                picture.removed -= multiplicity

    return record


def _stream(state: State, console: Console, seconds: float | None) -> None:
    incoming = list(arrivals(state.database, ORDERS_PER_BATCH))
    limit = math.inf if seconds is None else seconds
    _phase(state, console, "arriving", incoming, limit * SHARE_OF_TIME_FOR_ARRIVALS)
    leaving = list(withdrawals(list(state.alive), SHARE_WITHDRAWN, ORDERS_PER_BATCH))
    _phase(state, console, "leaving", leaving, limit * (1 - SHARE_OF_TIME_FOR_ARRIVALS))


def _phase(state: State, console: Console, name: str, batches: Iterable[Batch], seconds: float) -> None:
    """Apply batches until they run out or the time does."""
    planned = list(batches)
    start_rows, start_batches, start_seconds = state.rows, state.batches, state.seconds
    deadline = time.perf_counter() + seconds
    with Screen(console, name, len(planned)) as screen:
        for done, batch in enumerate(planned, 1):
            _apply(state, batch)
            pace = Pace(state.rows - start_rows, state.batches - start_batches, state.seconds - start_seconds)
            out_of_time = time.perf_counter() > deadline
            if screen.wants_rows or done == len(planned) or out_of_time:
                _read_views(state)
            screen.show(done, pace, state.pictures)
            if out_of_time:
                break
    if done < len(planned):
        console.print(f"{name}: stopped after {done} of {len(planned)} batches, the time is up (--seconds)\n")


def _apply(state: State, batch: Batch) -> None:
    changes = state.database.changes(batch)
    for picture in state.pictures.values():
        picture.added.clear()
        picture.removed = 0
    start = time.perf_counter()
    state.db.apply(changes)
    state.seconds += time.perf_counter() - start
    state.batches += 1
    state.history.append(changes)
    state.rows += sum(table.num_rows for table in changes.values())
    state.alive.update(dict.fromkeys(batch.arriving))
    for order in batch.cancelled:
        del state.alive[order]


def _read_views(state: State) -> None:
    for name, picture in state.pictures.items():
        table = state.db.view(name).to_arrow()
        picture.columns = tuple(table.column_names)
        picture.rows = _tuples(table.slice(0, SHOWN_ROWS))
        picture.total = table.num_rows


def _tuples(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*table.to_pydict().values(), strict=True))


def _report(state: State, console: Console) -> bool:
    """Check every view against DuckDB and against a view declared now; print both, and the times."""
    alive = tuple(state.alive)
    tables = {
        name: table if name in ("nation", "customer") else state.database.rows(name, alive)
        for name, table in state.database.tables.items()
    }
    maintained = {view.name: _tuples(state.db.view(view.name).to_arrow()) for view in VIEWS}
    found = verdicts(tables, maintained)
    from_scratch = [_recompute_here(state.db, view) for view in VIEWS]
    console.print(_verdict_table(console, found, from_scratch))
    incremental, again = state.seconds_per_batch, sum(from_scratch)
    batch_size = state.rows / max(state.batches, 1)
    console.print(
        f"A batch of {batch_size:,.0f} rows refreshed all views in {1000 * incremental:,.1f} ms on the reference"
        f" interpreter; from scratch it needs {1000 * again:,.1f} ms, {again / incremental:,.1f} times as long."
    )
    good = all(verdict.agrees for verdict in found) & _replay_compiled(state, console, maintained)
    console.print(
        "[bold green]Every view equals its recomputation.[/]" if good else "[bold red]Some views are wrong.[/]",
    )
    return good


def _replay_compiled(state: State, console: Console, maintained: dict[str, Rows]) -> bool:
    """The same changes through the compiled engine."""
    console.print(
        "\nThe same changes through the compiled engine; compiling five views takes some seconds the first time."
    )
    done = replay(state.database.tables, state.history, maintained)
    console.print(
        f"{done.rows:,} rows in batches: {done.rows / done.seconds:,.0f} rows/s,"
        f" {1000 * done.seconds / max(done.batches, 1):,.2f} ms a batch; compiled in {done.compile_seconds:,.1f} s."
    )
    for difference in done.differences:
        console.print(f"[bold red]{difference}[/]")
    return not done.differences


def _recompute_here(db: Connection, view: DemoView) -> float:
    """Seconds of one evaluation over the full tables by the engine under demonstration."""
    start = time.perf_counter()
    db.execute(f"CREATE MATERIALIZED VIEW {view.name}_again WITH (strategy = 'recompute') AS {view.query}")
    seconds = time.perf_counter() - start
    db.execute(f"DROP VIEW {view.name}_again")
    return seconds


def _verdict_table(console: Console, found: list[Verdict], from_scratch: list[float]) -> Table:
    table = Table(title="[bold]Checked against DuckDB", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    table.add_column("view")
    for heading in ("rows", "from scratch, here", "from scratch, DuckDB"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for verdict, seconds in zip(found, from_scratch, strict=True):
        table.add_row(
            mark(verdict.agrees, console),
            verdict.view.name,
            f"{verdict.rows:,}",
            f"{1000 * seconds:,.1f} ms",
            f"{1000 * verdict.duckdb_seconds:,.1f} ms",
            verdict.difference,
        )
    return table
