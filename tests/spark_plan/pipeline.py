"""A driver and workers of one kind, reference or generated, without Spark: blocks run here, bytes go between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from viewlet.algebra.evaluate import State, evaluate
from viewlet.changes import Changes, RowChange, rows_to_arrow
from viewlet.spark.plan.compile import DistributedProgram
from viewlet.spark.plan.locations import LOCAL, REPLICATED
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.run.exchange.stage_record import DRIVER, EVERYWHERE, Piece
from viewlet.spark.run.exchange.wire import decode
from viewlet.spark.run.execution.scan_task import ArrowResult, output_columns
from viewlet.spark.run.execution.tasks import leaving
from viewlet.spark.run.units.generated_node import GeneratedNode
from viewlet.spark.run.units.node import Node, with_result
from viewlet.spark.run.units.plan_code import DriverBlock, PlanCode, Receipt
from viewlet.spark.run.units.unit import AT_DRIVER, SPREAD, ProgramUnit
from viewlet.triggers.program import Statement, ViewDefinition
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table


class Pipeline:
    """Runs the plan for spread changes, if there is one and it is wanted, or that for changes at the driver."""

    def __init__(
        self,
        program: DistributedProgram,
        tables: Mapping[str, Table],
        generated: bool,
        partitions: int = 3,
        plan: str = SPREAD,
    ) -> None:
        self.program = program
        self.partitions = partitions
        unit = ProgramUnit(program.program.name, program, tables)
        self.unit = unit.code(generated)
        self.driver = self._made(self.unit.local)
        self.workers = [self._made(self.unit.views) for _ in range(partitions)]
        self._begin()
        self._readers = {
            ResultLocation.DRIVER: [self.driver],
            ResultLocation.PARTITIONS: self.workers,
        }.get(program.reading, [])
        for node in self._readers:
            with_result(node).watch()
        self._key = plan if plan in self.unit.plans else AT_DRIVER
        self.code: PlanCode = self.unit.plans[self._key]

    @property
    def is_generated(self) -> bool:
        return self.unit.module is not None

    def _made(self, views: Mapping[str, ViewDefinition]) -> Node:
        return self.unit.evaluated(views) if self.unit.module is None else GeneratedNode(self.unit, views)

    def _begin(self) -> None:
        """Brings every node to where it is before the first batch."""
        for name, blob in self.unit.at_driver().items():
            self.driver.restore(name, blob)
        for number, worker in enumerate(self.workers):
            for name, blob in self.unit.at_worker(number, self.partitions).items():
                worker.restore(name, blob)

    def apply(self, batch: Mapping[str, Changes]) -> None:
        """Runs what is left of the plan for the tables of the batch."""
        self.code = self.unit.plan(self._key, set(self.unit.plans[self._key].tables).intersection(batch))
        pieces: list[Piece] = []
        for table, block in self.code.mappers.items():
            mapper = self._made({name: self.program.view(name) for name in block.beside})
            for name in block.beside:
                mapper.restore(name, self.workers[0].contents(name))
            mapper.begin(self.code)
            mapper.change(table, RowChange(batch.get(table, {})))
            mapper.run(block.statements)
            pieces += leaving("", mapper, block.departures, self.partitions, 0)
        for node in (self.driver, *self.workers):
            node.begin(self.code)
        for table in self.code.tables:
            if table not in self.code.mappers:
                self.driver.change(table, RowChange(batch.get(table, {})))
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
                pieces += leaving("", worker, block.departures, self.partitions, number)

    def _at_driver(self, block: DriverBlock, pieces: list[Piece]) -> None:
        for step in block.steps:
            if isinstance(step, Statement):
                self.driver.run([step])
            elif isinstance(step, Receipt):
                self.driver.put(step.target, [b for _, t, p, b in pieces if t == step.target and p == DRIVER])
            else:
                pieces += leaving("", self.driver, [step], self.partitions, 0)

    def _rows(self, view: ViewDefinition) -> list[tuple[Row, tuple[object, ...]]]:
        return [item for node in self._holders(view) for item in decode(view, node.contents(view.name))]

    def _holders(self, view: ViewDefinition) -> list[Node]:
        """The nodes that together have a view."""
        location = self.program.locations[view.name]
        return [self.driver] if location == LOCAL else self.workers[:1] if location == REPLICATED else self.workers

    def contents(self) -> dict[str, dict[Row, tuple[object, ...]]]:
        """All views; sums of doubles are rounded."""
        return {
            view.name: {
                key: tuple(round(float(n), 6) if f.is_float else n for n, f in zip(numbers, view.fields, strict=True))  # type: ignore[arg-type]
                for key, numbers in self._rows(view)
            }
            for view in self.program.program.views
        }

    def result(self) -> dict[Row, int]:
        """The rows of the query."""
        query, views = self.program.program, {}
        for view in query.views:
            store = views[view.name] = MapStore([f.name for f in view.fields], view.presence)
            for key, numbers in self._rows(view):
                store.add(key, numbers)
        found = evaluate(query.result, query.query.output, State({}, {}, views))
        return {row: int(number) for row, number in found.items()}  # type: ignore[arg-type]

    def read(self) -> dict[Row, int]:
        """The rows of the query as a kernel reads them that has all views."""
        node, wanted = self.unit.gathered(self.unit.program)
        for view in wanted.values():
            node.put(view.name, [holder.contents(view.name) for holder in self._holders(view)])
        return with_result(node).result()

    def told(self) -> dict[Row, int] | None:
        """What the nodes say that the batch has done to the rows of the query; None if none of them can tell."""
        if not self._readers:
            return None
        total: Counter[Row] = Counter()
        for node in self._readers:
            result = with_result(node)
            changes = result.result_change()
            if isinstance(result, ArrowResult) and (found := result.change_arrow()) is not None:
                assert _counted(*found) == _counted(*self._as_arrow(changes))
            total.update(changes)
        return {row: count for row, count in total.items() if count}

    def _as_arrow(self, changes: Changes) -> tuple[list[Any], Any]:
        columns = output_columns(self.unit.program.query)
        table = rows_to_arrow(columns, changes.items(), with_multiplicity=True)
        return table.columns[:-1], table.columns[-1].to_numpy()


def _counted(columns: Sequence[Any], weights: Any) -> dict[tuple[object, ...], int]:
    """Rows in Arrow with their multiplicities, as Python values."""
    values = [column.to_pylist() for column in columns]
    return dict(zip(zip(*values, strict=True) if values else [()] * len(weights), weights.tolist(), strict=True))
