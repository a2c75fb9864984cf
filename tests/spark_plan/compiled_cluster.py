"""A cluster whose driver and workers run generated code, with the moves made here, value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import numpy as np

from viewlet.algebra.evaluate import State, evaluate
from viewlet.changes import Changes
from viewlet.codegen.blocks import BlockPlan, write_blocks
from viewlet.codegen.node import CompiledNode, Contents
from viewlet.rings import Dyadic
from viewlet.spark.plan.compile import DistributedProgram
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import LOCAL, RANDOM, REPLICATED, Dist, Location
from viewlet.spark.plan.program import BatchPlan, Compute, Mode, Move, Movement
from viewlet.triggers.program import ViewDefinition
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table

PLAN = "plan"


class CompiledCluster:
    """Runs the plan for all tables."""

    def __init__(self, program: DistributedProgram, tables: Mapping[str, Table], workers: int) -> None:
        self.program = program
        self.tables = tables
        triggered = [trigger.table for trigger in program.program.triggers]
        self.plan: BatchPlan = program.plan(dict.fromkeys(triggered, RANDOM))
        steps = [step for block in self.plan.blocks for step in block.steps]
        self.statements = [step.statement for step in steps if isinstance(step, Compute)]
        block = BlockPlan(
            PLAN,
            tuple(self.statements),
            {name: each.view for name, each in self.plan.temporaries.items()},
            tuple((step.target, step.source) for step in steps if isinstance(step, Move)),
        )
        self.module = write_blocks(program.program, [block])
        self.driver = CompiledNode(self.module)
        self.workers = [CompiledNode(self.module) for _ in range(workers)]
        self._random = Random(workers)

    def apply(self, batch: Mapping[str, Changes]) -> None:
        for table, changes in batch.items():
            for row, count in changes.items():
                self._arrive(self._random.choice(self.workers), table, row, count)
        position = 0
        for block in self.plan.blocks:
            nodes = [self.driver] if block.mode is Mode.LOCAL else self.workers
            for step in block.steps:
                if isinstance(step, Move):
                    self._move(step)
                    continue
                for node in nodes:
                    node.run(PLAN, [position])
                position += 1
        for node in (self.driver, *self.workers):
            node.end_batch()

    def _arrive(self, node: CompiledNode, table: str, row: Row, count: int) -> None:
        types = [column.type for column in self.tables[table].columns]
        node.add_change(table, lambda i: node.encode(types[i], [row[i]]), np.array([count]))

    def _move(self, move: Move) -> None:
        source, target = self.plan.temporaries[move.source], self.plan.temporaries[move.target]
        stores = self.module.temporaries
        name = stores[PLAN, move.target]
        from_nodes = [self.driver] if source.at == LOCAL else self.workers
        for node in from_nodes[:1] if source.at == REPLICATED else from_nodes:
            contents = node.contents(stores[PLAN, move.source])
            types = node.key_types(stores[PLAN, move.source])
            keys = list(
                zip(*(node.decode(words, t) for words, t in zip(contents.keys, types, strict=True)), strict=True)
            ) or [()] * len(contents)
            if move.movement is Movement.GATHER:
                self._deliver(self.driver, name, contents, keys, lambda key: True)
                continue
            for number, worker in enumerate(self.workers):
                self._deliver(worker, name, contents, keys, self._belongs(target.view, target.at, number))

    def _belongs(self, view: ViewDefinition, at: Location, number: int) -> Callable[[Row], bool]:
        if not isinstance(at, Dist):
            return lambda key: True
        positions = [view.keys.index(var) for var in at.by]
        return lambda key: partition_of((key[i] for i in positions), len(self.workers)) == number

    def _deliver(
        self, node: CompiledNode, store: str, contents: Contents, keys: list[Row], mine: Callable[[Row], bool]
    ) -> None:
        rows = [i for i, key in enumerate(keys) if mine(key)]
        if rows:
            types = node.key_types(store)
            words = tuple(node.encode(t, [keys[i][j] for i in rows]) for j, t in enumerate(types))
            numbers = tuple(tuple(column[rows] for column in number) for number in contents.numbers)
            node.add(store, Contents(words, numbers))

    def result(self) -> dict[Row, int]:
        query = self.program.program
        state = State({}, {}, {view.name: self._gathered(view) for view in query.views})
        return {row: int(n) for row, n in evaluate(query.result, query.query.output, state).items()}  # type: ignore[arg-type]

    def _gathered(self, view: ViewDefinition) -> MapStore:
        location = self.program.locations[view.name]
        whole = MapStore([f.name for f in view.fields], view.presence)
        nodes = [self.driver] if location == LOCAL else self.workers
        for node in nodes[:1] if location == REPLICATED else nodes:
            types = [key.type for key in view.keys]
            for words, numbers in node.stores[view.name].items():
                key = tuple(node.decode(np.array([w]), t)[0] for w, t in zip(words, types, strict=True))
                whole.add(key, tuple(Dyadic.of(n) if isinstance(n, float) else n for n in numbers))  # type: ignore[arg-type]
        return whole
