"""Queries on an engine over partitions, held against the interpreter after every batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.engines import Player
from tests.conformance.workload import MEASURED, VALUES, order_book, warehouse
from tests.spark_plan.distributing import Reference
from viewlet.changes import Change, Changes, RowChange, rows_to_arrow
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.execution.batch import Batch, BatchStats
from viewlet.spark.run.execution.cluster import InlineCluster
from viewlet.spark.run.execution.frame_change import FrameChange
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.units.unit import ProgramUnit
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.sql import CreateView, bind_statement, split_statements
from viewlet.triggers.plan import plan_query
from viewlet.types import Table, TableKind
from workloads import finance
from workloads.query import NamedQuery

Batches = list[dict[str, Changes]]


@cache
def unit_of(query: NamedQuery) -> tuple[ProgramUnit, dict[str, Table]]:
    """A query over one of the workloads, planned once for all tests, and the tables it is fed from."""
    tables = (order_book() if query in finance.QUERIES else warehouse()).tables
    view = bind_statement(next(split_statements(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")), tables)
    assert isinstance(view, CreateView)
    sources = {name: replace(tables[name], kind=TableKind.STREAM) for name in sorted(view.sources)}
    program = plan_query(query.name, view.query, sources, "higher-order")
    distributed = compile_distributed(program, sources, {} if query in finance.QUERIES else {**MEASURED, **VALUES})
    return ProgramUnit(query.name, distributed, sources), sources


class Run:
    """Some queries on one engine in a directory, which can be opened again and again."""

    def __init__(
        self,
        directory: Path | str,
        queries: Iterable[NamedQuery],
        tables: Mapping[str, Table],
        partitions: int,
        cluster: Any = None,
        generated: bool = False,
    ) -> None:
        self.generated = generated
        self.directory = directory
        self.tables = tables
        self.partitions = partitions
        self.cluster = cluster if cluster is not None else InlineCluster()
        self.units = [unit_of(query) for query in queries]
        self.references = {unit.name: Reference(unit.program, sources) for unit, sources in self.units}
        self.engine = self._open()

    def _open(self) -> Engine:
        engine = Engine(self.cluster, Checkpoint(self.directory, sync=False), self.partitions, self.generated)
        saved = engine.checkpoint.snapshot()
        if saved is not None:
            engine.checkpoint.take_up(saved.facts)
        for unit, _ in self.units:
            engine.add(unit)
            if saved is not None:
                engine.restore(unit.name, saved)
        for record in engine.checkpoint.records():
            engine.replay(record)
        return engine

    def reopen(self) -> None:
        self.engine.checkpoint.close()
        self.engine = self._open()

    def apply(self, batch: Mapping[str, Changes], spread: bool = False) -> tuple[BatchStats, dict[str, Changes]]:
        """Applies a batch from the driver, or as frames of two parts; tells its cost and the changes it announces."""
        given: dict[str, Change] = {
            name: self.frame(name, changes) if spread else RowChange(changes) for name, changes in batch.items()
        }
        run, stats = self.engine.apply(self.engine.checkpoint.epoch + 1, given)
        self.commit(run, stats)
        return stats, run.changes if run is not None else {}

    def commit(self, run: Batch | None, stats: BatchStats) -> None:
        engine = self.engine
        engine.checkpoint.commit([engine.record(run, stats.epoch)], stats.epoch, {})
        engine.finish(run, stats)

    def snapshot(self) -> None:
        self.engine.checkpoint.checkpoint(lambda writer: self.engine.save(writer, {}))
        self.engine.settle()

    def frame(self, name: str, changes: Changes) -> FrameChange:
        columns = self.tables[name].columns
        parts = [[], []]  # type: list[list[Any]]
        for number, item in enumerate(changes.items()):
            parts[number % 2].append(item)
        tables = [rows_to_arrow(columns, part, with_multiplicity=True) for part in parts]
        return FrameChange(self.tables[name], tables, 1, encoded=True)

    def expect(self, batch: Mapping[str, Changes]) -> dict[str, Changes]:
        """What the interpreter makes of the batch."""
        return {
            name: reference.apply({table: batch[table] for table in reference.stores if table in batch})  # type: ignore[misc]
            for name, reference in self.references.items()
        }

    def results(self) -> dict[str, Changes]:
        return {name: self.engine.result(ResultKey(name)) for name in self.references}


class _Expected:
    """The interpreter's results of all queries of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._results: dict[str, Changes] = {}

    def apply(self, batch: Mapping[str, Changes]) -> None:
        self._results = self._run.expect(batch)

    def result(self) -> dict[str, Changes]:
        return self._results


class _Found:
    """The same of the engine over partitions."""

    def __init__(self, run: Run, spread: bool) -> None:
        self._run = run
        self._spread = spread

    def apply(self, batch: Mapping[str, Changes]) -> None:
        self._run.apply(batch, self._spread)

    def result(self) -> dict[str, Changes]:
        return self._run.results()


def players(run: Run, spread: bool = False) -> dict[str, Player]:
    """The queries of a run on the interpreter and over partitions."""
    return {"interpreter": _Expected(run), "partitions": _Found(run, spread)}
