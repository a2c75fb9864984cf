"""Units of kinds of views that run a local engine in every partition, over the rows that are sent there.

    rows of tables ──► rows of relations, by their routes ──► partitions ──► local engines ──► the sum of their rows

That is right for a view whose rows depend only on table rows that meet in a partition: one that keeps something per
key, with routes by that key, or a join that is split into shares. Every batch has one stage at the workers. The state
is in the worker processes, which save copies of it (`state/saved_versions.py`): a process that has not seen a partition
before continues from the last copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from viewlet.spark.plan.locations import ViewLocation
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.run.units.one_stage import OneStageCode, change_name, one_stage_plans
from viewlet.spark.run.units.partitioned_node import MakeEngine, PartitionedNode
from viewlet.spark.run.units.plan_code import Departure
from viewlet.spark.run.units.routes import Route
from viewlet.spark.run.units.table_unit import Check
from viewlet.spark.run.units.unit import digest_of
from viewlet.triggers.program import ViewDefinition
from viewlet.types import Table

Routes = Mapping[str, tuple[Route, ...]]


@dataclass(frozen=True, kw_only=True)
class PartitionedCode(OneStageCode):
    """The code of a partitioned view, as sent to workers; its state is one part."""

    engine_plan: Any
    make: MakeEngine
    state: str
    routes: Routes
    columns: Mapping[str, tuple[int, ...]] | None = None
    """The columns that the engine reads of each table, if it takes columns."""

    def evaluated(self, views: Mapping[str, ViewDefinition]) -> PartitionedNode:
        if self.columns is not None:
            from viewlet.spark.run.units.column_node import ColumnNode

            return ColumnNode(self.name, self.routes, self.engine_plan, self.make, self.state, self.columns)
        return PartitionedNode(self.name, self.routes, self.engine_plan, self.make, self.state)


@dataclass(frozen=True)
class PartitionedUnit:
    """A plan whose engine runs in every partition; `routes` say how the rows of each table get there.

    `identity` tells units apart that would not have the same state in the same places.
    """

    name: str
    plan: Any
    make: MakeEngine
    sources: Mapping[str, Table]
    routes: Routes
    identity: object
    facts: Mapping[str, object] = field(default_factory=dict)
    columns: Mapping[str, tuple[int, ...]] | None = None
    reading = ResultLocation.PARTITIONS
    checks: tuple[Check, ...] = ()
    stored: tuple[ViewDefinition, ...] = ()
    may_generate = False
    is_loadable = False
    is_movable = False
    strategy = None

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset(self.routes)

    @property
    def locations(self) -> Mapping[str, ViewLocation]:
        """Where the rows of the relations go."""
        return {route.relation.name: route.location for routes in self.routes.values() for route in routes}

    @cached_property
    def digest(self) -> str:
        return digest_of(self.identity)

    def code(self, generated: bool) -> PartitionedCode:
        plans = one_stage_plans(
            {table: [_departure(route) for route in self.routes[table]] for table in sorted(self.routes)}
        )
        state, digest = f"{self.name}/state", digest_of((self.digest, self.name))
        views = {state: ViewDefinition(state, (), ())}
        return PartitionedCode(
            self.name,
            digest,
            views,
            {},
            self.sources,
            plans,
            engine_plan=self.plan,
            make=self.make,
            state=state,
            routes=self.routes,
            columns=self.columns,
        )


def _departure(route: Route) -> Departure:
    """The rows of a relation leave for the partitions that its route names."""
    name = change_name(route.relation.name)
    return Departure(name, name, ())
