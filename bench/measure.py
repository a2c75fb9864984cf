"""One measurement of the compiled engine: how many tuples a second keep a view fresh.

The clock covers cutting a batch out of arrays that are already coded, and the engine's work on it. Reading and coding
the input, planning and compiling come before and are reported apart.

Two modes. `batch` hands the engine one batch per call. `single` keeps the view fresh after every tuple: triggers visit
the rows of a call one by one, and assign after each what they would otherwise assign at the end of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

from bench.sources import Source, coded
from bench.streams import Step
from viewlet.changes import ColumnChange

CHUNKS = 20
"""Parts of the stream whose throughput is reported one by one."""

LOOP = 1000
"""Rows of a call in single mode, in which the trigger itself goes row by row."""

WARM_UP = 200
"""Rows that go in and out before the clock starts, enough for every store to have grown once."""

Columns = dict[str, dict[int, Any]]


@dataclass(slots=True)
class Run:
    """One pass over the stream, or over as much of it as the time allows."""

    tuples: int = 0
    refreshes: int = 0
    seconds: float = 0.0
    progress: list[tuple[int, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.tuples / self.seconds if self.seconds else 0.0

    def chunk_rates(self) -> list[float]:
        """Tuples a second in each chunk of the stream."""
        marks = [(0, 0.0), *self.progress]
        return [round((b[0] - a[0]) / max(b[1] - a[1], 1e-9), 1) for a, b in pairwise(marks)]


def measure_engine(
    source: Source, strategy: str, mode: str, batch: int, repeats: int, timeout: float
) -> dict[str, Any]:
    """Plans, compiles, warms up and runs; the record says what each took."""
    started = perf_counter()
    from viewlet.codegen.engine import CompiledEngine
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.sql import bind_query
    from viewlet.triggers.plan import plan_query

    imported = perf_counter()
    query = bind_query(source.query.sql, source.tables).query
    program = plan_query(source.query.name, query, source.tables, strategy)
    planned = perf_counter()
    engine = CompiledEngine(program, source.tables, StringDictionary())
    built = perf_counter()
    columns: Columns = {
        table: {i: coded(source, table, i, engine.dictionary) for i in engine.columns_used(table)}
        for table in source.events
    }
    coding = perf_counter() - built
    warm = perf_counter()
    warm_up(engine, source, columns)
    compiling = perf_counter() - warm + built - planned
    record: dict[str, Any] = {
        "import_seconds": round(imported - started, 3),
        "plan_seconds": round(planned - imported, 3),
        "compile_seconds": round(compiling, 3),
        "coding_seconds": round(coding, 3),
        "stream_tuples": source.tuples,
    }
    if mode == "compile":
        return record
    driven, rows = _call_size(mode, batch)
    deadline = perf_counter() + timeout
    runs: list[Run] = []
    for _ in range(repeats):
        if runs and perf_counter() + runs[-1].seconds > deadline:
            break
        clear(engine)
        if mode == "single":
            engine.keep_result_in_order()
        runs.append(run_stream(engine, source.steps(rows), source, columns, deadline, mode == "single"))
    record |= {"driven": driven} | summary(runs, source.tuples) | memory(engine)
    return record | reading(engine, record, mode) | {"result": engine}


def _call_size(mode: str, batch: int) -> tuple[str, int]:
    """How the stream is handed over, and in how many rows per call."""
    if mode == "batch":
        return f"calls of {batch}", batch
    return f"row by row in calls of {LOOP}", LOOP


def warm_up(engine: Any, source: Source, columns: Columns) -> None:
    """Compiles, or loads from the cache, everything a run calls; leaves the engine empty."""
    engine.warm_up()
    for table, words in columns.items():
        inserts = source.events[table].signs[:WARM_UP]
        head = {i: array[:WARM_UP] for i, array in words.items()}
        if len(inserts):
            change = ColumnChange(head, inserts, source.tables[table], engine.dictionary)
            engine.apply(table, change)
            engine.apply(table, change.negated())
    clear(engine)


def clear(engine: Any) -> None:
    for store in engine.stores.values():
        store.clear()


def run_stream(
    engine: Any, steps: Iterator[Step], source: Source, columns: Columns, deadline: float, each_row: bool = False
) -> Run:
    """Feeds the stream until it or the time is over."""
    run = Run()
    signs = {table: events.signs for table, events in source.events.items()}
    stride = max(1, -(-source.tuples // CHUNKS))
    mark = stride
    started = now = perf_counter()
    for step in steps:
        for table, begin, end in step:
            given = {i: words[begin:end] for i, words in columns[table].items()}
            change = ColumnChange(given, signs[table][begin:end], source.tables[table], engine.dictionary)
            engine.apply(table, change, each_row)
            run.tuples += end - begin
        run.refreshes += 1
        now = perf_counter()
        if run.tuples >= mark or now > deadline:
            run.progress.append((run.tuples, now - started))
            mark = (run.tuples // stride + 1) * stride
            if now > deadline:
                break
    run.seconds = now - started
    if not run.progress or run.progress[-1][0] < run.tuples:
        run.progress.append((run.tuples, run.seconds))
    return run


def summary(runs: list[Run], stream: int) -> dict[str, Any]:
    best = max(runs, key=lambda run: run.rate)
    return {
        "tuples": best.tuples,
        "refreshes": best.refreshes,
        "finished": best.tuples == stream,
        "seconds": round(median(run.seconds for run in runs), 6),
        "tuples_per_second": round(median(run.rate for run in runs), 1),
        "best_tuples_per_second": round(best.rate, 1),
        "runs": [round(run.rate, 1) for run in runs],
        "progress": best.chunk_rates(),
        "progress_at": [round(tuples / stream, 4) for tuples, _ in best.progress],
    }


def reading(engine: Any, record: dict[str, Any], mode: str) -> dict[str, Any]:
    """What reading the result takes, and the throughput with it where triggers alone do not make the view fresh.

    Most results are views that the triggers keep, or a stretch of an ordered index that they keep, and reading is a
    look-up. Any other result with a comparison in it is a selection over views, left to the reader: that work belongs
    to each refresh. It is timed once, on the final views, and charged to every refresh.
    """
    engine.result()  # the code that reads is compiled on first use
    started = perf_counter()
    engine.result()
    seconds = perf_counter() - started
    found: dict[str, Any] = {"read_seconds": round(seconds, 6)}
    reader = engine.module.generated.result
    if reader is None or not reader.selects_by_order:
        refreshes = record["tuples"] if mode == "single" else record["refreshes"]
        triggers = record["tuples"] / record["tuples_per_second"]
        found["fresh_tuples_per_second"] = round(record["tuples"] / (triggers + refreshes * seconds), 1)
    return found


def memory(engine: Any) -> dict[str, Any]:
    """Bytes of all stores at the end of the stream, and of their keys and payloads alone."""
    stores = list(engine.stores.values())
    return {
        "bytes": sum(store.nbytes() for store in stores),
        "packed_bytes": sum(store.packed_bytes() for store in stores),
        "rows": sum(len(store) for store in stores),
    }
