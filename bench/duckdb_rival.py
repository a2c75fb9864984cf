"""DuckDB as the rival that recomputes: take in a batch, run the query, again and again.

Running the query after every batch of a stream would take hours, so only batches spread evenly over the stream are
timed; what lies between them is loaded in bulk, off the clock. The figure is extrapolated: stream tuples ÷ (mean time
of a timed batch × batches). Tables hold the columns the query names, without keys and indexes, which is the fastest way
to insert.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from bench.sources import Source
from bench.streams import Step, net_changes

SAMPLES = 20
NULL_ON_ZERO_DIVISION = "SET error_on_division_by_zero = false"


@dataclass(slots=True)
class Recomputation:
    """The tables of a query inside DuckDB, and how far each one's stream has been taken in."""

    source: Source
    threads: int = 0
    wide: bool = False
    positions: dict[str, int] = field(default_factory=dict)
    connection: Any = None

    def __post_init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect(config={"threads": self.threads} if self.threads else {})
        self.connection.execute(NULL_ON_ZERO_DIVISION)
        for name, rows in self.source.rows.items():
            self.connection.register("incoming", rows)
            columns = ", ".join(self._declared(field) for field in rows.schema)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM incoming LIMIT 0")
            self.positions[name] = 0

    def _declared(self, column: Any) -> str:
        return f"{column.name}::HUGEINT AS {column.name}" if self.wide and column.type == "int64" else str(column.name)

    def changes_up_to(self, ends: dict[str, int]) -> list[tuple[str, Any, Any]]:
        """Rows to add to and to take from each table, as Arrow tables."""
        changes = []
        for name, end in ends.items():
            added, removed = net_changes(self.source.events[name], self.positions[name], end)
            self.positions[name] = end
            rows = self.source.rows[name]
            changes.append((name, rows.take(added), rows.take(removed)))
        return changes

    def take_in(self, changes: Iterable[tuple[str, Any, Any]]) -> None:
        for name, added, removed in changes:
            if len(removed):
                same = " AND ".join(f"{name}.{column} = leaving.{column}" for column in self.source.keys[name])
                self.connection.register("leaving", removed)
                self.connection.execute(f"DELETE FROM {name} USING leaving WHERE {same}")
            if len(added):
                self.connection.register("incoming", added)
                self.connection.execute(f"INSERT INTO {name} SELECT * FROM incoming")

    def recompute(self, sql: str) -> None:
        """Runs the query to its end without making Python objects of the answer."""
        self.connection.sql(sql).to_arrow_table()

    def answer(self, sql: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return rows


def measure_duckdb(source: Source, batch: int, threads: int, timeout: float) -> dict[str, Any]:
    """Its throughput; where products of BIGINT overflow, with HUGEINT columns instead."""
    import duckdb

    steps = list(source.steps(batch))
    chosen = {int(i) for i in np.linspace(0, len(steps) - 1, min(SAMPLES, len(steps))).round()}
    note = {}
    try:
        seconds = time_samples(Recomputation(source, threads), steps, chosen, timeout)
    except duckdb.OutOfRangeException:
        note = {"note": "integers declared as HUGEINT, because BIGINT overflows in this query"}
        seconds = time_samples(Recomputation(source, threads, wide=True), steps, chosen, timeout)
    whole = sum(seconds) / len(seconds) * len(steps)
    rate = round(source.tuples / whole, 1)
    return note | {
        "stream_tuples": source.tuples,
        "tuples": source.tuples,
        "refreshes": len(steps),
        "samples": len(seconds),
        "extrapolated": True,
        "finished": len(seconds) == len(chosen),
        "seconds": round(whole, 3),
        "tuples_per_second": rate,
        "best_tuples_per_second": rate,
        "progress": [round(batch / each, 1) for each in seconds],
        "progress_at": [round((step + 1) / len(steps), 4) for step in sorted(chosen)[: len(seconds)]],
    }


def time_samples(rival: Recomputation, steps: list[Step], chosen: set[int], timeout: float) -> list[float]:
    """Seconds of each chosen step; the others are taken in together, untimed."""
    seconds: list[float] = []
    pending: dict[str, int] = {}
    deadline = perf_counter() + timeout
    for number, step in enumerate(steps):
        ends = {piece.table: piece.end for piece in step}
        if number not in chosen:
            pending |= ends
            continue
        rival.take_in(rival.changes_up_to(pending))
        pending = {}
        changes = rival.changes_up_to(ends)
        started = perf_counter()
        rival.take_in(changes)
        rival.recompute(rival.source.query.sql)
        seconds.append(perf_counter() - started)
        if perf_counter() > deadline:
            break
    return seconds
