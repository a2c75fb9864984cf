"""Units of kinds of views that need no other plan on a cluster: every partition runs a local engine over its rows.

    rows of tables ──► partitions, by some of their columns ──► local engines ──► the union of their rows

That is right for a view whose rows depend only on table rows with the same values in these columns, such as one that
keeps something per key. Every batch has one stage at the workers. The state is in the worker processes; a process that
has not seen a partition before catches up from the snapshot and the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from viewlet.algebra.nodes import Var
from viewlet.spark.plan.locations import Dist, ViewLocation
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.run.units.one_stage import OneStageCode, change_name, one_stage_plans
from viewlet.spark.run.units.partitioned_node import MakeEngine, PartitionedNode
from viewlet.spark.run.units.plan_code import Departure
from viewlet.spark.run.units.table_unit import Check
from viewlet.spark.run.units.unit import digest_of
from viewlet.triggers.program import ViewDefinition
from viewlet.types import Table


@dataclass(frozen=True, kw_only=True)
class PartitionedCode(OneStageCode):
    """The code of a partitioned view, as sent to workers; its state is one part."""

    engine_plan: Any
    make: MakeEngine
    state: str

    def evaluated(self, views: Mapping[str, ViewDefinition]) -> PartitionedNode:
        return PartitionedNode(self.name, self.tables, self.engine_plan, self.make, self.state)


@dataclass(frozen=True)
class PartitionedUnit:
    """A plan whose engine runs in every partition; `by` has the columns that the rows of each table go by."""

    name: str
    plan: Any
    make: MakeEngine
    sources: Mapping[str, Table]
    by: Mapping[str, tuple[int, ...]]
    reading = ResultLocation.PARTITIONS
    checks: tuple[Check, ...] = ()
    stored: tuple[ViewDefinition, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    may_generate = False
    is_loadable = False

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset(self.by)

    @property
    def locations(self) -> Mapping[str, ViewLocation]:
        """Where the rows of the tables go."""
        found: dict[str, ViewLocation] = {}
        for name, positions in self.by.items():
            columns = (self.sources[name].columns[i] for i in positions)
            found[name] = Dist(tuple(Var(column.name, column.type) for column in columns))
        return found

    @cached_property
    def digest(self) -> str:
        return digest_of((self.plan, sorted(self.by.items())))

    def code(self, generated: bool) -> PartitionedCode:
        plans = one_stage_plans(
            {table: [Departure(change_name(table), change_name(table), self.by[table])] for table in sorted(self.by)}
        )
        state, digest = f"{self.name}/state", digest_of((self.digest, self.name))
        views = {state: ViewDefinition(state, (), ())}
        return PartitionedCode(
            self.name, digest, views, {}, self.sources, plans, engine_plan=self.plan, make=self.make, state=state
        )
