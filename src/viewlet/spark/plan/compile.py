"""The whole pipeline, from a trigger program to blocks (thesis, Figure 5.1).

| step                                        | module                     |
|---------------------------------------------|----------------------------|
| base tables become views                    | `stored`                   |
| views get locations                         | `partitioning`             |
| large scalars get short names               | `abbreviate`               |
| statements get transformers                 | `annotate`                 |
| one transformer per step, shared            | `single`, `temporaries`    |
| unused steps are removed                    | `dead`                     |
| steps become blocks                         | `blocks`                   |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from viewlet.algebra.nodes import Delta, Expr, View
from viewlet.algebra.traverse import Names, size, walk
from viewlet.errors import InternalError
from viewlet.spark.plan.abbreviate import Abbreviations
from viewlet.spark.plan.annotate import PlanCache, Planner
from viewlet.spark.plan.blocks import fuse, one_by_one, stage_count
from viewlet.spark.plan.dead import live
from viewlet.spark.plan.locations import LOCAL, RANDOM, Arrival, Dist, ViewLocation, locations_of_json
from viewlet.spark.plan.partitioning import SMALL_ROWS, Facts, Spread, facts_of, locations, ranking
from viewlet.spark.plan.program import (
    BatchPlan,
    Compute,
    Footprint,
    Mode,
    Owned,
    Step,
    Temporary,
    owned_by,
    state_moves,
)
from viewlet.spark.plan.result_location import ResultLocation, result_location
from viewlet.spark.plan.single import Normalizer, in_sequence
from viewlet.spark.plan.table_views import tables_as_views
from viewlet.spark.plan.temporaries import Temporaries
from viewlet.spark.plan.wellformed import Placement, rename
from viewlet.triggers.compose import read_or_assigned
from viewlet.triggers.program import Program, Statement, Trigger, ViewDefinition
from viewlet.types import Table

FEWEST_STAGES = 2
"""A join of changes that arrive anywhere takes one stage that sends them to where the views are, and one there."""

SEARCHED_NODES = 800
"""Programs whose statements have more nodes than this are not planned more than once."""


def compile_distributed(
    program: Program,
    tables: Mapping[str, Table],
    cardinalities: Mapping[str, float] | None = None,
    partition_by: Mapping[str, Sequence[str]] | None = None,
    earlier: bool = False,
) -> DistributedProgram:
    """The program distributed over workers.

    `cardinalities` gives rows of views and tables as far as they are known; `partition_by` names, for views, the keys
    to go by (none: keep at the driver), and, for tables, the columns that views go by that have them among their keys.
    `earlier` asks for the choice of earlier versions, which kept views at the driver unless a key spoke for more.
    """
    stored = tables_as_views(program, tables)
    facts = facts_of(stored, _with_layers(tables, stored), cardinalities or {}, by_column=not earlier)
    best = _best_ranking(facts, partition_by or {}, Spread.LARGE)
    for spread in () if earlier else _spreads(facts, best):
        with suppress(InternalError):  # not every placement can be planned
            other = _best_ranking(facts, partition_by or {}, spread)
            if other.locations != best.locations and _is_no_more_burden(other, best):
                return other
    return best


def _is_no_more_burden(other: DistributedProgram, best: DistributedProgram) -> bool:
    """Other locations of the same views burden batches and readers no more.

    Planning with the known locations, which is slow for large programs, is left out where it decides nothing. Where a
    view is that statements only add to makes no difference to the state that moves: what is added is computed in the
    same way, and then sent.
    """
    if other.is_read_whole != best.is_read_whole:
        return best.is_read_whole and other.is_planned
    moved = {name for name, location in other.locations.items() if location != best.locations[name]}
    if moved.isdisjoint(read_or_assigned(other.program)):
        return other.is_planned
    moves = state_moves(other.plan())
    return moves == 0 or moves <= state_moves(best.plan())


def compile_at(
    program: Program, tables: Mapping[str, Table], cardinalities: Mapping[str, float], known: Mapping[str, Any]
) -> DistributedProgram | None:
    """The program with its views where they are already (`locations_to_json`); None if it has other views."""
    stored = tables_as_views(program, tables)
    placed = locations_of_json(stored.views, known)
    if placed is None:
        return None
    return DistributedProgram(stored, facts_of(stored, _with_layers(tables, stored), cardinalities), placed)


def _with_layers(tables: Mapping[str, Table], program: Program) -> dict[str, Table]:
    return {**tables, **{layer.table.name: layer.table for layer in program.layers}}


def _spreads(facts: Facts, known: DistributedProgram) -> list[Spread]:
    """What is considered, the first best, where some view is in one place although it may be large."""
    kept = [view for view in facts.program.views if view.keys and not isinstance(known.locations[view.name], Dist)]
    if not any(map(facts.may_be_large, kept)):
        return []
    is_searched = _nodes(facts.program) <= SEARCHED_NODES
    return [Spread.ALL, Spread.RESULTS] if is_searched else [Spread.RESULTS]


def _best_ranking(facts: Facts, partition_by: Mapping[str, Sequence[str]], spread: Spread) -> DistributedProgram:
    """Views go by the keys of the largest tables.

    While the tables are unmeasured, access patterns decide: two keys change ranks if a batch of all tables then
    needs fewer stages. Keys that are looked up together should decide together where views go.
    """
    ranked = ranking(facts)
    best = DistributedProgram(facts.program, facts, locations(facts, ranked, partition_by, spread))
    if all(name in facts.rows for name in facts.tables) or _nodes(facts.program) > SEARCHED_NODES:
        return best
    for i in range(len(ranked) - 1):
        if best.stages() <= FEWEST_STAGES:
            break
        swapped = [*ranked[:i], ranked[i + 1], ranked[i], *ranked[i + 2 :]]
        other = DistributedProgram(facts.program, facts, locations(facts, swapped, partition_by, spread))
        if other.locations != best.locations and other.stages() < best.stages():
            ranked, best = swapped, other
    return best


def _nodes(program: Program) -> int:
    return sum(size(update.expr) for statement in program.statements for update in statement.updates)


@dataclass(slots=True)
class DistributedProgram:
    """A trigger program over partitioned views; `plan` says what a batch of changes does."""

    program: Program
    facts: Facts
    locations: Mapping[str, ViewLocation]
    _abbreviations: Abbreviations = field(default_factory=Abbreviations)
    _stored: PlanCache = field(default_factory=PlanCache)
    _planners: dict[frozenset[str], Planner] = field(default_factory=dict)
    _ordered: dict[Expr, Expr] = field(default_factory=dict)
    _plans: dict[tuple[tuple[str, Arrival], ...], BatchPlan] = field(default_factory=dict)

    def view(self, name: str) -> ViewDefinition:
        return self.program.view(name)

    def plan(self, arrivals: Mapping[str, Arrival] | None = None) -> BatchPlan:
        """What a batch does that changes these tables; all tables, spread over the workers, if none are given."""
        if arrivals is None:
            arrivals = dict.fromkeys(self.program.changing, RANDOM)
        key = tuple(sorted(arrivals.items()))
        if key not in self._plans:
            self._plans[key] = self._plan(dict(key))
        return self._plans[key]

    @property
    def reading(self) -> ResultLocation:
        """Where the rows of the query are computed from its views."""
        return result_location(self.program, self.locations)

    @property
    def is_planned(self) -> bool:
        """Batches can be distributed with the views where they are."""
        try:
            self.plan()
        except InternalError:
            return False
        return True

    @property
    def burden(self) -> tuple[bool, int]:
        """What should not grow with the state: comparing all of it for the result, then moves of it in a batch."""
        return self.is_read_whole, state_moves(self.plan())

    @property
    def is_read_whole(self) -> bool:
        """The result has to be read whole, before a batch and after it, to know how it changes."""
        return self.reading.is_whole

    def is_shorter_than(self, other: DistributedProgram) -> bool:
        """Its batches take fewer stages, and it moves and reads no more state."""
        return self.burden <= other.burden and self.stages() < other.stages()

    def stages(self) -> int:
        """How many distributed blocks a batch has that changes all tables."""
        return sum(block.mode is Mode.DISTRIBUTED for block in self.plan().blocks)

    def _plan(self, arrivals: Mapping[str, Arrival]) -> BatchPlan:
        changes = self._with_told(arrivals)
        planner = self._planner(changes)
        normalizer = self._normalizer(planner)
        order: list[str] = []
        for layer in self.program.layers:
            if layer.table.name not in changes:
                continue
            added, at = list[Statement](), changes[layer.table.name]
            before = [normalizer.copied(view, self.locations[view.name]) for view in layer.compared]
            for trigger in self._best_order(layer.triggers, changes, planner):
                order.append(trigger.table)
                added += self._run(trigger, normalizer, changes)
            added += [normalizer.difference(each, self.locations[each.view], at) for each in before]
            normalizer.tell(layer, added, at)
        for trigger in self._best_order(self.program.triggers, changes, planner):
            order.append(trigger.table)
            self._run(trigger, normalizer, changes)
        steps, temporaries = _finished(normalizer)
        unfused = one_by_one(self._abbreviations.expand(steps))
        tables = tuple(dict.fromkeys(order))
        return BatchPlan(
            tables,
            arrivals,
            self.locations,
            self._abbreviations.expand_temporaries(temporaries),
            tuple(fuse(unfused)),
            tuple(unfused),
            normalizer.differences,
        )

    def _with_told(self, arrivals: Mapping[str, Arrival]) -> dict[str, Arrival]:
        """Where changes are: those of tables, and those of the layers that change with them.

        What a layer tells is at the driver if all that it is made of is.
        """
        found = dict(arrivals)
        for layer in self.program.layers:
            told = {view.name for view in layer.told}
            triggers = [trigger for trigger in layer.triggers if trigger.table in found]
            exprs = [u.expr for t in triggers for s in t.statements if s.view in told for u in s.updates]
            if triggers:
                is_here = all(self._is_at_driver(node, found) for expr in exprs for node in walk(expr)) and all(
                    self.locations[view.name] == LOCAL for view in layer.compared
                )
                found[layer.table.name] = LOCAL if is_here else RANDOM
        return found

    def _is_at_driver(self, node: Expr, arrivals: Mapping[str, Arrival]) -> bool:
        match node:
            case View(name, _, _):
                return self.locations[name] == LOCAL
            case Delta(name, _):
                return arrivals.get(name) == LOCAL
            case _:
                return True

    def _planner(self, arrivals: Mapping[str, Arrival]) -> Planner:
        """One planner for all batches whose changes arrive alike: it remembers what it has planned."""
        local = frozenset(table for table, arrival in arrivals.items() if arrival == LOCAL)
        if local not in self._planners:
            keys = {view.name: view.keys for view in self.program.views}
            placement = Placement(self.locations, keys, dict.fromkeys(local, LOCAL))
            self._planners[local] = Planner(placement, self._rows(), self._stored)
        return self._planners[local]

    def _rows(self) -> dict[str, float]:
        """About how many rows views have; those that are not partitioned are taken to be small."""
        small = {
            view.name: SMALL_ROWS for view in self.program.views if not isinstance(self.locations[view.name], Dist)
        }
        known = {view.name: rows for view in self.program.views if (rows := self.facts.bound(view)) is not None}
        return {**small, **known}

    def _normalizer(self, planner: Planner) -> Normalizer:
        names = Names(view.name for view in self.program.views)
        floats = {(view.name, f.name) for view in self.program.views for f in view.fields if f.is_float}
        return Normalizer(planner, Temporaries(names, floats), self._ordered)

    def _best_order(
        self, candidates: Sequence[Trigger], changes: Mapping[str, Arrival], planner: Planner
    ) -> list[Trigger]:
        """The triggers of changed tables in an order that needs few stages: each is put where it costs least.

        Any order gives the same views in the end, because every trigger sees what the earlier ones left.
        """
        triggers = [self._abbreviations.shorten(trigger) for trigger in candidates if trigger.table in changes]
        if len(triggers) < 2:
            return triggers
        outlines = {trigger.table: self._outline(trigger, changes, planner) for trigger in triggers}
        order: list[Trigger] = []
        for trigger in triggers:
            places = [[*order[:i], trigger, *order[i:]] for i in range(len(order), -1, -1)]
            order = min(places, key=lambda each: _weight([outlines[t.table] for t in each]))
        return order

    def _outline(self, trigger: Trigger, changes: Mapping[str, Arrival], planner: Planner) -> Outline:
        """A trigger's steps by what they touch, with temporaries of its own."""
        normalizer = self._normalizer(planner)
        self._run(trigger, normalizer, changes)
        steps, temporaries = _finished(normalizer)
        touched = [(step.mode, owned_by(trigger.table, temporaries, step.footprint)) for step in steps]
        return Outline(touched, frozenset((trigger.table, name) for name in temporaries))

    def _run(self, trigger: Trigger, normalizer: Normalizer, changes: Mapping[str, Arrival]) -> list[Statement]:
        """Adds the steps of a trigger; returns what it adds to views of layers, which are told and not kept."""
        increments = [statement for statement in trigger.statements if not statement.replaces]
        waiting, added = list[Compute](), list[Statement]()
        for statement, has_to_wait in in_sequence(increments):
            if statement.view in self._layers:
                added.append(normalizer.added(statement, changes[self._layers[statement.view]]))
            elif has_to_wait:
                waiting.append(normalizer.set_aside(statement, self._location(statement)))
            else:
                normalizer.add(statement, self._location(statement))
        for step in waiting:
            normalizer.temporaries.run(step)
        for statement in trigger.statements:
            if statement.replaces:
                normalizer.add(statement, self._location(statement))
        return added

    @property
    def _layers(self) -> dict[str, str]:
        """The layers that views belong to which are told."""
        return {view.name: layer.table.name for layer in self.program.layers for view in layer.told}

    def _location(self, statement: Statement) -> ViewLocation:
        location = self.locations[statement.view]
        return (
            rename(location, self.view(statement.view).keys, statement.args) if isinstance(location, Dist) else location
        )


def _finished(normalizer: Normalizer) -> tuple[list[Step], dict[str, Temporary]]:
    """The steps whose outcome something reads, and the temporaries that they write."""
    steps, temporaries = normalizer.temporaries.finish()
    kept = [steps[i] for i in live([step.footprint for step in steps], temporaries)]
    written = {name for step in kept for name in step.footprint.writes}
    return kept, {name: each for name, each in temporaries.items() if name in written}


@dataclass(frozen=True, slots=True)
class Outline:
    steps: list[tuple[Mode, Footprint[str | Owned]]]
    temporaries: frozenset[Owned]


def _weight(outlines: Sequence[Outline]) -> tuple[int, int]:
    """Stages, then steps, of triggers run one after another."""
    steps = [step for outline in outlines for step in outline.steps]
    temporaries: set[str | Owned] = {name for outline in outlines for name in outline.temporaries}
    kept = [steps[i] for i in live([footprint for _, footprint in steps], temporaries)]
    return stage_count(kept), len(kept)
