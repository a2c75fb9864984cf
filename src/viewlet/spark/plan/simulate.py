"""Distributed programs on simulated workers: plain dictionaries, real partitions, every block run worker by worker.

This is what a plan means. A worker sees nothing but its own stores, so a plan that reads what is elsewhere goes wrong
here as it would on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from viewlet.algebra.evaluate import State
from viewlet.errors import InternalError
from viewlet.spark.plan.compile import DistributedProgram
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import LOCAL, RANDOM, REPLICATED, Arrival, Dist, Location
from viewlet.spark.plan.program import BatchPlan, Block, Compute, Mode, Move, Movement, Temporary
from viewlet.triggers.compose import layer_rows
from viewlet.triggers.executor import Executor
from viewlet.triggers.program import ViewDefinition
from viewlet.triggers.result import evaluate_result
from viewlet.triggers.step import defined_contents, initial_contents
from viewlet.triggers.store import MapStore, Payload
from viewlet.types import Row

Contents = dict[Row, Payload]


class Cluster:
    """A driver and some workers that keep one program fresh."""

    def __init__(self, program: DistributedProgram, workers: int, seed: int = 0) -> None:
        self.program = program
        views = program.program.views
        here = [view for view in views if program.locations[view.name] == LOCAL]
        there = [view for view in views if program.locations[view.name] != LOCAL]
        self.driver = Executor(here)
        self.workers = [Executor(there) for _ in range(workers)]
        self._random = Random(seed)
        layers = layer_rows(program.program.layers, {})
        for name, contents in initial_contents(program.program.views, layers).items():
            self._distribute(program.view(name), program.locations[name], contents)

    def load(self, tables: Mapping[str, MapStore]) -> None:
        """Fills every view from base tables."""
        state = State({**tables, **layer_rows(self.program.program.layers, tables)})
        for view in self.program.program.views:
            self._distribute(view, self.program.locations[view.name], defined_contents(view, state))

    def apply(self, batch: Mapping[str, Mapping[Row, int]], arrivals: Mapping[str, Arrival] | None = None) -> BatchPlan:
        """Runs a batch; the plan it followed is the one for the tables in `arrivals`, or in the batch."""
        if arrivals is None:
            arrivals = {table: RANDOM for table in batch if table in self.program.program.changing}
        plan = self.program.plan(arrivals)
        local = {name: each.view for name, each in plan.temporaries.items() if each.at == LOCAL}
        remote = {name: each.view for name, each in plan.temporaries.items() if each.at != LOCAL}
        self.driver.begin(arrivals, local)
        for worker in self.workers:
            worker.begin(arrivals, remote)
        for table, arrival in arrivals.items():
            self._arrive(table, batch.get(table, {}), arrival)
        for block in plan.blocks:
            self._run(block, plan.temporaries)
        return plan

    def result(self) -> dict[Row, int]:
        """The rows of the query."""
        query = self.program.program
        return evaluate_result(query, {view.name: self.gathered(view) for view in query.views})

    def gathered(self, view: ViewDefinition) -> MapStore:
        """A view in one place; fails if some row of it is where it should not be."""
        location = self.program.locations[view.name]
        whole = MapStore([f.name for f in view.fields], view.presence)
        for number, node in enumerate(self._nodes(location)):
            contents = dict(node.views[view.name].items())
            if isinstance(location, Dist):
                self._check_place(view, location, contents, number)
            if location != REPLICATED or number == 0:
                for key, payload in contents.items():
                    whole.add(key, payload)
            elif contents != dict(self.workers[0].views[view.name].items()):
                raise InternalError(f"copies of {view.name} differ")
        return whole

    def _check_place(self, view: ViewDefinition, location: Dist, contents: Contents, number: int) -> None:
        for key in contents:
            if self._worker_of(view, location, key) != number:
                raise InternalError(f"{view.name}: {key} is at worker {number}")

    def _nodes(self, at: Location) -> list[Executor]:
        return [self.driver] if at == LOCAL else self.workers

    def _worker_of(self, view: ViewDefinition, location: Dist, key: Row) -> int:
        return partition_of((key[view.keys.index(var)] for var in location.by), len(self.workers))

    def _arrive(self, table: str, changes: Mapping[Row, int], arrival: Arrival) -> None:
        """Spreads changes over the workers; now and then two of them get halves that only make sense together."""
        for row, multiplicity in changes.items():
            if arrival == LOCAL:
                self.driver.deltas[table].add(row, (multiplicity,))
                continue
            extra = self._random.choice((0, 0, 1, -1))
            for part in (multiplicity + extra, -extra):
                if part:
                    self._random.choice(self.workers).deltas[table].add(row, (part,))

    def _run(self, block: Block, temporaries: Mapping[str, Temporary]) -> None:
        nodes = [self.driver] if block.mode is Mode.LOCAL else self.workers
        for node in nodes:
            for step in block.steps:
                if isinstance(step, Compute):
                    node.run(step.statement)
                else:
                    self._move(step, temporaries)

    def _move(self, move: Move, temporaries: Mapping[str, Temporary]) -> None:
        source, target = temporaries[move.source], temporaries[move.target]
        nodes = self._nodes(source.at)
        total = MapStore([f.name for f in target.view.fields], None)
        for node in nodes[:1] if source.at == REPLICATED else nodes:
            for key, payload in node.stores[move.source].items():
                total.add(key, payload)
        if move.movement is Movement.GATHER:
            self.driver.put(target.view.name, dict(total.items()))
        else:
            self._distribute(target.view, target.at, dict(total.items()))

    def _distribute(self, view: ViewDefinition, location: Location, contents: Contents) -> None:
        nodes = self._nodes(location)
        for number, node in enumerate(nodes):
            mine: Iterable[tuple[Row, Payload]] = contents.items()
            if isinstance(location, Dist):
                mine = [(key, payload) for key, payload in mine if self._worker_of(view, location, key) == number]
            node.put(view.name, dict(mine))
