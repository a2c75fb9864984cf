"""The kernel of generated code against the reference kernel: the same bytes in and out, block by block."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.spark_plan.distributing import Reference, program_of
from tests.spark_plan.test_workloads import MEASURED, order_book, warehouse
from viewlet.changes import Changes
from viewlet.runtime import ordered
from viewlet.runtime.jit import ENABLED
from viewlet.spark.plan.compile import DistributedProgram, compile_distributed
from viewlet.spark.plan.locations import LOCAL, REPLICATED
from viewlet.spark.run.code import DriverBlock, PlanCode, Receipt
from viewlet.spark.run.generated import GeneratedNode
from viewlet.spark.run.kernel import Node, ReferenceNode
from viewlet.spark.run.reading import reading_of
from viewlet.spark.run.steps import DRIVER, EVERYWHERE, Piece
from viewlet.spark.run.tasks import leaving
from viewlet.spark.run.unit import AT_DRIVER, SPREAD, ProgramUnit
from viewlet.spark.run.wire import decode
from viewlet.triggers.program import Statement, ViewDefinition
from viewlet.types import Row, Table
from workloads import finance, tpch
from workloads.query import NamedQuery

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
PARTITIONS = 3


class Pipeline:
    """Driver and workers of one kind, without Spark."""

    def __init__(self, program: DistributedProgram, tables: Mapping[str, Table], generated: bool) -> None:
        self.program = program
        unit = ProgramUnit(program.program.name, program, reading_of(program), tables)
        self.unit = unit.code(generated)
        assert not generated or self.unit.module is not None
        self.driver = self._made(self.unit.local)
        self.workers = [self._made(self.unit.views) for _ in range(PARTITIONS)]
        self.code: PlanCode = self.unit.plans.get(SPREAD, self.unit.plans[AT_DRIVER])

    def _made(self, views: Mapping[str, ViewDefinition]) -> Node:
        return ReferenceNode(views) if self.unit.module is None else GeneratedNode(self.unit, views)

    def apply(self, batch: Mapping[str, Changes]) -> None:
        pieces: list[Piece] = []
        for table, block in self.code.mappers.items():
            mapper = self._made({name: self.program.view(name) for name in block.beside})
            for name in block.beside:
                mapper.restore(name, self.workers[0].contents(name))
            mapper.begin(self.code)
            mapper.change(table, batch.get(table, {}))
            mapper.run(block.statements)
            pieces += leaving("", mapper, block.departures, PARTITIONS, 0)
        for node in (self.driver, *self.workers):
            node.begin(self.code)
        for table in self.code.tables:
            if table not in self.code.mappers:
                self.driver.change(table, batch.get(table, {}))
        for block in self.code.blocks:
            if isinstance(block, DriverBlock):
                self._at_driver(block, pieces)
                continue
            sent = [piece for piece in pieces if piece[2] != DRIVER]
            pieces = [piece for piece in pieces if piece[2] == DRIVER]
            for number, worker in enumerate(self.workers):
                for _, target, partition, blob in sent:
                    if partition in (number, EVERYWHERE):
                        worker.put(target, [blob])
                worker.run(block.statements)
                pieces += leaving("", worker, block.departures, PARTITIONS, number)

    def _at_driver(self, block: DriverBlock, pieces: list[Piece]) -> None:
        for step in block.steps:
            if isinstance(step, Statement):
                self.driver.run([step])
            elif isinstance(step, Receipt):
                self.driver.put(step.target, [b for _, t, p, b in pieces if t == step.target and p == DRIVER])
            else:
                pieces += leaving("", self.driver, [step], PARTITIONS, 0)

    def contents(self) -> dict[str, dict[Row, tuple[object, ...]]]:
        found: dict[str, dict[Row, tuple[object, ...]]] = {}
        for view in self.program.program.views:
            home = self.program.homes[view.name]
            nodes = [self.driver] if home == LOCAL else self.workers[:1] if home == REPLICATED else self.workers
            rows = [item for node in nodes for item in decode(view, node.contents(view.name))]
            found[view.name] = {
                key: tuple(round(float(n), 6) if f.is_float else n for n, f in zip(numbers, view.fields, strict=True))
                for key, numbers in rows
            }
        return found


def test_a_batch_is_taken_back() -> None:
    for query in (tpch.QUERIES[2], tpch.QUERIES[14], tpch.QUERIES[17]):
        tables, batches = warehouse()
        program, sources = program_of(query, tables)
        fast = Pipeline(compile_distributed(program, sources, MEASURED), sources, True)
        mine = [{t: changes for t, changes in batch.items() if t in sources} for batch in batches]
        fast.apply(mine[0])
        before = fast.contents()
        fast.apply(mine[1])
        assert fast.contents() != before
        for node in (fast.driver, *fast.workers):
            node.rollback()
        assert fast.contents() == before


def check(query: NamedQuery, tables: dict[str, Table], batches: list[dict[str, Changes]]) -> None:
    program, sources = program_of(query, tables)
    plan = compile_distributed(program, sources, MEASURED)
    slow, fast = Pipeline(plan, sources, False), Pipeline(plan, sources, True)
    reference = Reference(program, sources)
    for batch in batches:
        mine = {table: changes for table, changes in batch.items() if table in sources}
        reference.apply(mine)
        slow.apply(mine)
        fast.apply(mine)
        assert fast.contents() == slow.contents()


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.name)
def test_warehouse(query: NamedQuery) -> None:
    check(query, *warehouse())


@pytest.mark.parametrize("query", [q for q in tpch.QUERIES if q.name in ("q11", "q15", "q22")], ids=lambda q: q.name)
def test_ordered_indexes_are_kept(query: NamedQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows there are: what is added to a view goes to its ordered indexes too."""
    if ENABLED:
        pytest.skip("compiled code does not see what a test changes")
    monkeypatch.setattr(ordered, "SHORT", 0)
    check(query, *warehouse())


@pytest.mark.parametrize("query", finance.QUERIES, ids=lambda query: query.name)
def test_order_book(query: NamedQuery) -> None:
    check(query, *order_book())
