"""SQL to a distributed program, and a cluster of simulated workers held against the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.conformance.engines import Player
from tests.planning import remembered
from viewlet.changes import Changes, RowChange
from viewlet.spark.plan.compile import DistributedProgram, compile_distributed
from viewlet.spark.plan.locations import RANDOM, Arrival
from viewlet.spark.plan.simulate import Cluster
from viewlet.sql import CreateView, bind_statement, split_statements
from viewlet.triggers.compiler import compile_query
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table
from workloads.query import NamedQuery

compiled = remembered(compile_query)
"""All files here compile the same queries."""


def program_of(
    query: NamedQuery, tables: Mapping[str, Table], strategy: str = "higher-order"
) -> tuple[Program, dict[str, Table]]:
    """The trigger program of a query, and the tables it reads."""
    view = bind_statement(next(split_statements(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")), tables)
    assert isinstance(view, CreateView)
    sources = {name: tables[name] for name in sorted(view.sources)}
    return compiled(query.name, view.query, sources, strategy), sources


def distributed(
    query: NamedQuery,
    tables: Mapping[str, Table],
    strategy: str = "higher-order",
    rows: Mapping[str, float] | None = None,
    partition_by: Mapping[str, Sequence[str]] | None = None,
) -> DistributedProgram:
    program, sources = program_of(query, tables, strategy)
    return compile_distributed(program, sources, rows, partition_by)


class Reference:
    """The interpreter, with base tables of its own."""

    def __init__(self, program: Program, tables: Mapping[str, Table]) -> None:
        self.stores = {name: MapStore() for name in tables}
        self._interpreter = Interpreter(program, self.stores)
        self._interpreter.load()

    def apply(self, batch: Mapping[str, Changes]) -> dict[Row, int]:
        for name, store in self.stores.items():
            self._interpreter.apply(name, RowChange(batch.get(name, {})))
            for row, count in batch.get(name, {}).items():
                store.add(row, (count,))
        self._interpreter.finish()
        return self.result()

    def result(self) -> dict[Row, int]:
        return self._interpreter.result()


class Simulation:
    """A plan on simulated workers; `whole` runs the plan for all tables, whichever the batch changes."""

    def __init__(self, plan: DistributedProgram, workers: int, arrival: Arrival, whole: bool) -> None:
        self._cluster = Cluster(plan, workers, seed=workers)
        self._tables = [trigger.table for trigger in plan.program.triggers]
        self._arrival = arrival
        self._whole = whole

    def apply(self, batch: Mapping[str, Changes]) -> None:
        self._cluster.apply(batch, {table: self._arrival for table in self._tables if self._whole or table in batch})

    def result(self) -> dict[Row, int]:
        return self._cluster.result()


def on_workers(
    program: Program,
    plan: DistributedProgram,
    tables: Mapping[str, Table],
    workers: Sequence[int] = (1, 2, 7),
    arrival: Arrival = RANDOM,
    whole: bool = False,
) -> dict[str, Player]:
    """A program on the interpreter, and its plan on clusters of several sizes."""
    clusters = {f"{count} workers": Simulation(plan, count, arrival, whole) for count in workers}
    return {"interpreter": Reference(program, tables), **clusters}
