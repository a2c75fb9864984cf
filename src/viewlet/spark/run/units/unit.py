"""A unit maintains one query, for all views that declare it. Its state is somewhere else only after a snapshot.

Other queries may be read from what it stores too (`unit_result`).

It is planned when the first view is declared, with others whose programs become parts of its own before the first
batch (`engine/unit_merging.py`), and again when a snapshot moves its state (`relocation`).

Most units are trigger programs; views over rings are maintained by view trees (`tree_unit`).

Units share nothing but the changes of tables. Each has a plan for changes at the driver. It may have another one for
changes that are spread over the cluster, of all tables or of all that are not small. The tables that a batch changes
decide how much of the plan is run.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from viewlet.errors import InternalError
from viewlet.spark.plan.compile import DistributedProgram
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import LOCAL, RANDOM, Dist, ViewLocation, locations_to_json
from viewlet.spark.plan.partitioning import SMALL_ROWS
from viewlet.spark.plan.result_location import ResultLocation, views_of
from viewlet.spark.run.exchange.wire import encode
from viewlet.spark.run.units.node import Node, ReferenceNode, SharedNode
from viewlet.spark.run.units.plan_code import NotMappable, PlanCode, plan_code
from viewlet.spark.run.units.restrict import restrict
from viewlet.spark.run.units.table_unit import Check
from viewlet.triggers.compose import layer_rows
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.triggers.step import initial_contents
from viewlet.triggers.store import Payload
from viewlet.triggers.view_shapes import ViewsByShape, views_by_shape
from viewlet.triggers.wide_numbers import wide_numbers, wide_values
from viewlet.types import Row, Table

if TYPE_CHECKING:
    from viewlet.codegen.blocks import BlockModule
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.runtime.memory import Memories

AT_DRIVER, SPREAD = "local", "spread"
LOCATIONS = "locations"
"""The fact of a unit that says where its views are."""
STRATEGY = "planned_strategy"
"""The fact of a unit that says by which strategy it is maintained."""


@dataclass(frozen=True, slots=True)
class Initial:
    """Rows that a view has before the first batch, and the positions of the keys that it is partitioned by.

    Without such keys they are wherever the view is.
    """

    rows: tuple[tuple[Row, Payload], ...]
    by: tuple[int, ...] | None

    def part(self, partition: int, partitions: int) -> list[tuple[Row, Payload]]:
        by = self.by
        if by is None:
            return list(self.rows)
        return [row for row in self.rows if partition_of((row[0][i] for i in by), partitions) == partition]


@dataclass(frozen=True)
class UnitCode(ABC):
    """The code of a unit, as sent to workers; equal digests mean equal code."""

    name: str
    digest: str
    views: Mapping[str, ViewDefinition]
    """What lives at the workers."""
    local: Mapping[str, ViewDefinition]
    """What lives at the driver."""
    tables: Mapping[str, Table]
    plans: Mapping[str, PlanCode]
    checks: tuple[Check, ...] = ()
    module: BlockModule | None = None
    """The statements as generated code; without it they are evaluated."""
    initial: Mapping[str, Initial] = field(default_factory=dict)
    """What views hold before the first batch, those left out that hold nothing."""
    _restricted: dict[tuple[str, frozenset[str]], PlanCode] = field(default_factory=dict, compare=False, repr=False)

    @property
    def changing(self) -> frozenset[str]:
        """The tables whose changes concern it."""
        return frozenset(self.plans[AT_DRIVER].tables)

    def plan(self, key: str, tables: Collection[str]) -> PlanCode:
        """One of the plans, for a batch that changes some tables."""
        known = (key, frozenset(tables))
        if known not in self._restricted:
            if not known[1] <= set(self.plans[key].tables):
                raise InternalError(f"{self.name}: the plan for {key} changes has none of {sorted(known[1])}")
            self._restricted[known] = restrict(self.plans[key], tables)
        return self._restricted[known]

    def at_driver(self) -> dict[str, bytes]:
        """What the views at the driver hold before the first batch."""
        return {name: encode(self.local[name], self.initial[name].rows) for name in self.local if name in self.initial}

    def at_worker(self, partition: int, partitions: int) -> dict[str, bytes]:
        """What the views of a partition hold before the first batch."""
        found = {name: self.initial[name].part(partition, partitions) for name in self.views if name in self.initial}
        return {name: encode(self.views[name], rows) for name, rows in found.items()}

    @abstractmethod
    def evaluated(self, views: Mapping[str, ViewDefinition]) -> Node:
        """An empty state of some of its views, in the memory of this process, that needs no generated module."""

    @property
    def is_mapped(self) -> bool:
        """Its views at the workers are arrays, which live in files that the processes of a machine share."""
        return False

    def mapped(self, dictionary: StringDictionary, memory: Memories) -> SharedNode:
        """The worker's views in such memory, with what it holds; only for code that `is_mapped`."""
        raise InternalError(f"the state of {self.name} is not arrays")

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_restricted": {}}


@dataclass(frozen=True, kw_only=True)
class ProgramCode(UnitCode):
    """The code of a trigger program."""

    program: Program

    def evaluated(self, views: Mapping[str, ViewDefinition]) -> ReferenceNode:
        return ReferenceNode(views, self.program)

    @property
    def is_mapped(self) -> bool:
        return self.module is not None

    def mapped(self, dictionary: StringDictionary, memory: Memories) -> SharedNode:
        from viewlet.runtime.flat import FlatStore, Layout
        from viewlet.spark.run.units.generated_node import GeneratedNode

        here = {*self.views, *(f"{plan.key}/{name}" for plan in self.plans.values() for name in plan.temporaries)}

        def make_store(layout: Layout) -> FlatStore:
            return FlatStore(layout, memory(layout.name)) if layout.name in here else FlatStore(layout)

        return GeneratedNode(self, self.views, dictionary, make_store)

    def gathered(self, program: Program) -> tuple[Node, Mapping[str, ViewDefinition]]:
        """A place for all the views that a result reads, and these views."""
        wanted = {name: self.program.view(name) for name in views_of(program)}
        if self.module is None:
            return self.evaluated(wanted), wanted
        from viewlet.spark.run.units.generated_node import GeneratedNode

        return GeneratedNode(self, wanted), wanted


class Unit(Protocol):
    """The interface between the engine and a unit."""

    @property
    def name(self) -> str: ...

    @property
    def stored(self) -> tuple[ViewDefinition, ...]:
        """Its stored views, if other units may not have views of the same names."""

    @property
    def sources(self) -> Mapping[str, Table]: ...

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose changes concern it."""

    @property
    def digest(self) -> str:
        """Units with the same digest have the same state in the same places."""

    @property
    def facts(self) -> Mapping[str, object]:
        """What the catalogue notes of it, as JSON, because planning it again need not lead to the same."""

    @property
    def reading(self) -> ResultLocation: ...

    @property
    def locations(self) -> Mapping[str, ViewLocation]:
        """Where what it keeps is."""

    @property
    def checks(self) -> tuple[Check, ...]: ...

    @property
    def may_generate(self) -> bool:
        """Generated code may take over from the evaluator once there is much to do."""

    @property
    def is_loadable(self) -> bool:
        """Spark SQL can compute its views."""

    @property
    def is_movable(self) -> bool:
        """Its state is rows by their keys, which a snapshot can write to other places."""

    @property
    def strategy(self) -> str | None:
        """The strategy of its program; None where there is no choice."""

    def code(self, generated: bool) -> UnitCode: ...


@dataclass(frozen=True)
class ProgramUnit:
    """A trigger program and how it is distributed."""

    name: str
    distributed: DistributedProgram
    sources: Mapping[str, Table]
    checks: tuple[Check, ...] = ()
    earlier: bool = False
    """Its views are where an earlier version has put them, without noting where that is."""
    is_loadable = True
    is_movable = True

    @property
    def strategy(self) -> str | None:
        return self.program.strategy

    @cached_property
    def reading(self) -> ResultLocation:
        return self.distributed.reading

    @property
    def facts(self) -> Mapping[str, object]:
        if self.earlier:
            return {}
        return {LOCATIONS: locations_to_json(self.program.views, self.locations), STRATEGY: self.program.strategy}

    @property
    def program(self) -> Program:
        return self.distributed.program

    @property
    def locations(self) -> Mapping[str, ViewLocation]:
        return self.distributed.locations

    @property
    def stored(self) -> tuple[ViewDefinition, ...]:
        return self.program.views

    @cached_property
    def by_shape(self) -> ViewsByShape:
        """Its stored views, by what other queries would need of them."""
        return views_by_shape(self.program)

    @cached_property
    def may_generate(self) -> bool:
        """There is a module, and all numbers fit its words."""
        layers = (layer.table for layer in self.program.layers)
        wide = wide_values((*self.sources.values(), *layers)) or wide_numbers(self.program)
        return wide is None and self.module is not None

    @cached_property
    def tables(self) -> frozenset[str]:
        return self.program.changing

    @cached_property
    def digest(self) -> str:
        return digest_of((self.program.views, sorted(self.distributed.locations.items())))

    @cached_property
    def plans(self) -> dict[str, PlanCode]:
        found = {AT_DRIVER: plan_code(self.distributed.plan(dict.fromkeys(self.tables, LOCAL)), AT_DRIVER)}
        for left_out in (frozenset[str](), self._small_tables):
            with suppress(NotMappable):
                spread = dict.fromkeys(self.tables - left_out, RANDOM)
                found[SPREAD] = plan_code(self.distributed.plan(spread), SPREAD)
                break
        return found

    @property
    def _small_tables(self) -> frozenset[str]:
        """Tables whose changes may as well go to the driver."""
        rows = {name: self.distributed.facts.table_rows(name) for name in self.tables}
        return frozenset(name for name, count in rows.items() if count is not None and count <= SMALL_ROWS)

    @cached_property
    def module(self) -> BlockModule | None:
        """Generated code for all plans; None if some statement has no compiled form."""
        from viewlet.codegen.blocks import write_blocks
        from viewlet.codegen.not_compilable import NotCompilable
        from viewlet.spark.run.units.generated_node import block_plan

        try:
            return write_blocks(self.program, [block_plan(plan) for plan in self.plans.values()])
        except NotCompilable:
            return None

    def views_at(self, driver: bool) -> dict[str, ViewDefinition]:
        locations = self.distributed.locations
        return {view.name: view for view in self.program.views if (locations[view.name] == LOCAL) is driver}

    def code(self, generated: bool) -> ProgramCode:
        module = self.module if generated else None
        digest = digest_of((self.digest, self.name, module.generated.source if module else None))
        views, local = self.views_at(driver=False), self.views_at(driver=True)
        return ProgramCode(
            self.name,
            digest,
            views,
            local,
            self.sources,
            self.plans,
            self.checks,
            module,
            self._initial(),
            program=self.program,
        )

    def _initial(self) -> dict[str, Initial]:
        found: dict[str, Initial] = {}
        layers = layer_rows(self.program.layers, {})
        for name, contents in initial_contents(self.program.views, layers).items():
            location, keys = self.locations[name], self.program.view(name).keys
            by = tuple(map(keys.index, location.by)) if isinstance(location, Dist) else None
            found[name] = Initial(tuple(contents.items()), by)
        return found


def unit_stats(unit: Unit) -> dict[str, object]:
    """Where the result of a unit is read, and where what it keeps is."""
    return {"reading": unit.reading.value, "homes": {each: str(location) for each, location in unit.locations.items()}}


def digest_of(known: object) -> str:
    return hashlib.blake2b(repr(known).encode(), digest_size=16).hexdigest()
