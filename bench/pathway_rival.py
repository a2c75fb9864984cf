"""Pathway as the rival that maintains: the same stream goes into a Pathway dataflow, one commit per batch.

    thread of the feeder       next next next commit | next next next commit | ...      a subject per table
    engine                        one minibatch      |     one minibatch     | ...
    subscriber                      changed rows     |      changed rows     | ...

The input is made into Python rows beforehand; the clock runs from the first row handed over until the last batch has
been worked off and its changes were delivered. Rows go in through Pathway's Python connector, its entrance for data
that a process has in memory. The feeder does not wait for an answer between batches, so the engine is never idle, nor
does it stop at a full queue: with limited queues several connectors can wait for each other for ever. Pathway runs with
one worker thread, beside the threads of its connectors.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

from bench.sources import Source, words_of
from viewlet.types import Kind


@dataclass(slots=True)
class Answer:
    """What the subscriber sees: the rows of the view, how often they changed, and when the stream was worked off."""

    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)
    refreshes: int = 0
    ended: float = 0.0
    ended_cpu: float = 0.0

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """A row that is replaced leaves and comes in any order, under one key."""
        if is_addition:
            self.rows[key] = row
        elif self.rows.get(key) == row:
            del self.rows[key]

    def on_time_end(self, time: int) -> None:
        """Called for those batches only that change the answer."""
        self.refreshes += 1

    def on_end(self) -> None:
        self.ended, self.ended_cpu = perf_counter(), process_time()


@dataclass(slots=True)
class Feeder:
    """Hands the batches of all tables over in the order of the stream, as far as the time allows."""

    source: Source
    batch: int
    timeout: float
    rows: dict[str, list[dict[str, Any]]]
    subjects: dict[str, Any] = field(default_factory=dict)
    tuples: int = 0
    started: float = 0.0
    started_cpu: float = 0.0
    seconds: float = 0.0

    def feed(self) -> None:
        signs = {name: events.signs.tolist() for name, events in self.source.events.items()}
        self.started, self.started_cpu = perf_counter(), process_time()
        for step in self.source.steps(self.batch):
            for table, begin, end in step:
                subject, rows = self.subjects[table], self.rows[table]
                for n in range(begin, end):
                    if signs[table][n] > 0:
                        subject.next(**rows[n])
                    else:
                        subject.delete(**rows[n])
                subject.commit()
                self.tuples += end - begin
            if perf_counter() - self.started > self.timeout:
                break
        self.seconds = perf_counter() - self.started


def measure_pathway(source: Source, batch: int, timeout: float) -> dict[str, Any]:
    """Its throughput over one pass, and the answer it ends with."""
    from bench.pathway_queries import QUERIES, UNGROUPED

    if source.query.name not in QUERIES:
        return {"status": "skipped", "note": "not written as a Pathway dataflow"}
    feeder = Feeder(source, batch, timeout, {name: python_rows(source, name) for name in source.events})
    answer = Answer()
    _run(feeder, QUERIES[source.query.name], answer)
    seconds = answer.ended - feeder.started
    rows = [tuple(row.values()) for row in answer.rows.values()]
    if not rows and source.query.name in UNGROUPED:
        rows = [(None,)]
    rate = round(feeder.tuples / seconds, 1)
    return {
        "status": "ok",
        "stream_tuples": source.tuples,
        "tuples": feeder.tuples,
        "refreshes": answer.refreshes,
        "finished": feeder.tuples == source.tuples,
        "seconds": round(seconds, 3),
        "feeding_seconds": round(feeder.seconds, 3),
        "cpu_seconds": round(answer.ended_cpu - feeder.started_cpu, 3),
        "tuples_per_second": rate,
        "best_tuples_per_second": rate,
        "progress": [rate],
        "progress_at": [round(feeder.tuples / source.tuples, 4)],
        "result": rows,
    }


def python_rows(source: Source, name: str) -> list[dict[str, Any]]:
    """The events of a table as the connector takes them: strings, and integers for all else."""
    columns = {}
    for column in source.tables[name].columns:
        if column.name not in _columns(source, name):
            continue
        values = source.rows[name].column(column.name)
        is_text = column.type.kind is Kind.VARCHAR
        columns[column.name] = values.to_pylist() if is_text else words_of(column, values, None).tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [rows[n] for n in source.events[name].rows.tolist()]


def _columns(source: Source, name: str) -> list[str]:
    """Those the query names; the key only where rows are deleted by it."""
    held = source.rows[name].column_names
    return held if _has_deletes(source, name) else [column for column in held if column in source.query.sql]


def _has_deletes(source: Source, name: str) -> bool:
    return bool((source.events[name].signs < 0).any())


def _run(feeder: Feeder, query: Any, answer: Answer) -> None:
    """Builds the dataflow and runs it; when all subjects have a thread, one of these feeds them all."""
    import pathway as pw

    pw.set_license_key(None)  # without a key there is no telemetry
    pw.set_monitoring_config(server_endpoint=None)
    ready, over = threading.Barrier(len(feeder.rows)), threading.Event()

    class Subject(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def __init__(self, deletes: bool) -> None:
            super().__init__()
            self._deletes = deletes

        @property
        def _deletions_enabled(self) -> bool:
            return self._deletes

        def run(self) -> None:
            if ready.wait() == 0:
                try:
                    feeder.feed()
                finally:
                    over.set()
            over.wait()

    tables = {}
    for name in feeder.rows:
        feeder.subjects[name] = Subject(_has_deletes(feeder.source, name))
        tables[name] = pw.io.python.read(
            feeder.subjects[name], schema=_schema(feeder.source, name), autocommit_duration_ms=None
        )
    pw.io.subscribe(query(tables), on_change=answer.on_change, on_time_end=answer.on_time_end, on_end=answer.on_end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def _schema(source: Source, name: str) -> Any:
    """Columns with their types, and the primary key where rows are deleted by it."""
    import pathway as pw

    key = source.keys[name] if _has_deletes(source, name) else []
    return pw.schema_builder(
        {
            column.name: pw.column_definition(
                dtype=str if column.type.kind is Kind.VARCHAR else int, primary_key=column.name in key
            )
            for column in source.tables[name].columns
            if column.name in _columns(source, name)
        }
    )
