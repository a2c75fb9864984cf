"""Units of different views that become one before the first batch, so that inner views in common are kept once.

    v: SELECT customer, SUM(price * tax) FROM orders JOIN items USING (id) GROUP BY customer     unit v
    w: SELECT day, COUNT(*) FROM orders JOIN items USING (id) GROUP BY day                       unit w
    the first batch: unit v has the programs of both (`triggers/merge.py`); w is another result over what it stores

Units are merged while they hold nothing. Both have to be over the same tables, because none that a unit reads may be
dropped while a view is read from it, and each stored view in common has to be in the same place in both: it stays
there, so that the stages of a batch are those of the units before. A merge is a declaration of its own in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viewlet.engine.catalogue_json import Json
from viewlet.engine.declaration import MERGED, PLANNED, Declaration, declaration_to_json
from viewlet.engine.kind import Hints
from viewlet.engine.kinds import distributed_form
from viewlet.errors import InternalError, UnsupportedError
from viewlet.hosts.spread_views import PlannedUnit
from viewlet.spark.plan.locations import Dist, locations_to_json
from viewlet.spark.plan.partitioning import group_keys, result_partitioning
from viewlet.spark.plan.result_location import views_of
from viewlet.spark.plan.table_views import tables_as_views
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.units.unit import LOCATIONS, STRATEGY, ProgramUnit
from viewlet.spark.run.units.unit_reading import UnitReading
from viewlet.triggers.merge import MergedProgram, Merger, merge_programs
from viewlet.triggers.program import Program
from viewlet.triggers.rename import rename_views
from viewlet.types import Table

MERGE = 104
"""The kind of a record that says which units have become one."""
MOST_STATEMENTS = 1_000
"""A merged program is not made larger than this: planning it takes a second."""


@dataclass(frozen=True, slots=True)
class UnitMerge:
    """Units that become one: the first of them, with the programs of the others."""

    after: PlannedUnit
    results: Mapping[str, UnitReading] = field(default_factory=dict)
    """What is read of it for the queries of the others, by the names of their units, as far as is known."""

    @property
    def names(self) -> tuple[str, ...]:
        """The units that it takes the place of."""
        return tuple(declared.name for declared in self.after.members)

    def to_json(self) -> Json:
        """What a record says of it."""
        return {PLANNED: declaration_to_json(self.after.declared), **self.after.facts(with_merged=True)}


def names_in(known: Json) -> set[str]:
    """The units that become one by what a record says."""
    return {each["name"] for each in (known[PLANNED], *known[MERGED])}


@dataclass(slots=True)
class _Group:
    """Units that may become one, their programs as one, and where its views are."""

    units: list[PlannedUnit]
    merger: Merger
    places: dict[str, Any]
    statements: int

    def fits(self, program: Program, places: Mapping[str, Any]) -> bool:
        """A program has views in common with these, each in the same place."""
        if self.statements + len(program.statements) > MOST_STATEMENTS:
            return False
        partners = self.merger.partners(program)
        return bool(partners) and all(self.places[each.name] == places[name] for name, each in partners.items())

    def add(self, known: PlannedUnit, program: Program, places: Mapping[str, Any]) -> None:
        self.units.append(known)
        self.statements += len(program.statements)
        for name, here in self.merger.add(program).items():
            self.places.setdefault(here, places[name])


def mergeable(known: PlannedUnit, tables: Iterable[str]) -> bool:
    """A unit of a query over `tables` whose results are computed from its stored views."""
    unit = known.unit
    if not isinstance(unit, ProgramUnit) or unit.earlier or unit.program.layers or known.merged:
        return False
    return known.declared.sources <= set(tables) and distributed_form(known.declared).results is not None


def groups(units: Iterable[PlannedUnit]) -> list[_Group]:
    """Units that have views in common, those of one group in their order; each is in one group."""
    found: dict[object, list[_Group]] = {}
    for known in units:
        program, places = _own_program(known), _own_places(known)
        by = tuple((name, tuple(keys)) for name, keys in sorted(known.hints.partition_by.items()))
        alike = found.setdefault((known.declared.sources, known.unit.strategy, by), [])
        group = next((each for each in alike if each.fits(program, places)), None)
        if group is None:
            alike.append(_Group([known], Merger(program), dict(places), len(program.statements)))
        else:
            group.add(known, program, places)
    return [group for alike in found.values() for group in alike if len(group.units) > 1]


def _own_program(known: PlannedUnit) -> Program:
    """The program of a unit as it is planned where no other unit has views of the same names."""
    program: Program = known.unit.program  # type: ignore[attr-defined]
    prefix = f"{program.name}/"
    return rename_views(program, {each.name: each.name.removeprefix(prefix) for each in program.views})


def _own_places(known: PlannedUnit) -> dict[str, Any]:
    prefix, stored = f"{known.unit.name}/", known.unit.stored
    places = locations_to_json(stored, known.unit.locations)
    return {name.removeprefix(prefix): place for name, place in places.items()}


def merges_of(cluster: Engine, units: Iterable[PlannedUnit]) -> list[UnitMerge]:
    """What becomes of units that hold nothing yet."""
    return [merge for group in groups(units) for merge in _merges(cluster, group.units)]


def _merges(cluster: Engine, units: Sequence[PlannedUnit]) -> Iterator[UnitMerge]:
    """All units as one; where batches would take more stages then, or cannot be planned, the halves of them."""
    group = next(iter(groups(units)), None)
    if group is None:
        return
    merged = group.merger.merged()
    places = {view.name: group.places[view.name] for view in merged.program.views}
    made = merged_unit(cluster, group.units, merged, places)
    if made is not None:
        yield made
    elif len(units) > 2:
        half = len(units) // 2
        yield from _merges(cluster, units[:half])
        yield from _merges(cluster, units[half:])


def merged_unit(
    cluster: Engine, before: Sequence[PlannedUnit], merged: MergedProgram, places: Mapping[str, Any]
) -> UnitMerge | None:
    """Some units as one, if its batches take no more stages than those of the units."""
    first = before[0]
    rows = {name: count for known in before for name, count in known.hints.rows.items()}
    hints = Hints(rows, first.hints.partition_by)
    names = [known.unit.name for known in before]
    taken = cluster.names_taken(names)
    called = {f"{names[0]}/{name}" if name in taken else name: place for name, place in places.items()}
    facts = {LOCATIONS: called, STRATEGY: first.unit.strategy}
    unit = cluster.unit([merged.program], first.unit.sources, rows, [{}], facts, replaced=names)
    try:
        stages = unit.distributed.stages()
    except InternalError:  # not every program can be planned with its views anywhere
        return None
    if stages > max(known.unit.distributed.stages() for known in before):  # type: ignore[attr-defined]
        return None
    if cluster.generated and not unit.module:  # changes of tables come in the form that the units before take
        return None
    after = PlannedUnit(first.declared, unit, hints, tuple(known.declared for known in before[1:]))
    results = [_reading(unit, merged.program, each) for each in merged.results]
    return UnitMerge(after, dict(zip(names[1:], results[1:], strict=True)))


def _reading(unit: ProgramUnit, planned: Program, result: Program) -> UnitReading:
    """A result of a merged program, over the views as the unit calls them."""
    pairs = zip(planned.views, unit.program.views, strict=True)
    found = rename_views(result, {old.name: new.name for old, new in pairs if old.name != new.name})
    return UnitReading(unit, replace(unit.program, name=result.name, query=result.query, result=found.result))


def merged_again(
    cluster: Engine,
    members: Sequence[Declaration],
    tables: Mapping[str, Table],
    hints: Hints,
    facts: Mapping[str, Any],
    replaced: Iterable[str] = (),
) -> ProgramUnit:
    """The unit that was merged from the programs of some declarations over tables, with its views where `facts` say."""
    programs = []
    for declared in members:
        planned = replace(declared, strategy=facts[STRATEGY])
        programs.append(tables_as_views(distributed_form(planned).plan(planned, tables), tables))
    merged = merge_programs(programs).program
    return cluster.unit([merged], tables, hints.rows, [{}], facts, replaced=replaced)


def moved_unit(
    cluster: Engine,
    known: PlannedUnit,
    readings: Iterable[tuple[UnitReading, Declaration]],
    sizes: Mapping[str, float],
    facts: Mapping[str, Any] | None,
) -> ProgramUnit:
    """A merged unit as it is planned for views of some sizes, the others where they are, or as `facts` say.

    `readings` are those of the declarations that say PARTITION BY.
    """
    unit = known.unit
    assert isinstance(unit, ProgramUnit)
    kept = {
        name: tuple(key.name for key in at.by)
        for name, at in unit.locations.items()
        if isinstance(at, Dist) and name not in sizes
    }
    wanted: dict[str, tuple[str, ...]] = {}
    for reading, declared in readings:
        for name, by in result_partitioning(reading.program, declared.partition_by).items():
            if wanted.setdefault(name, by) != by:
                what = f"PARTITION BY {', '.join(declared.partition_by)} for view {declared.name!r}"
                raise UnsupportedError(f"{what}, which shares {name} with a view that asks otherwise", "", "engine")
    wishes = {**known.hints.partition_by, **kept, **_grown(cluster, unit, sizes), **wanted}
    return cluster.unit([unit.program], unit.sources, {**known.hints.rows, **sizes}, [wishes], facts)


def _grown(cluster: Engine, unit: ProgramUnit, sizes: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """The keys to spread views by that have been in one place, so that partitions can compute the rows of results."""
    found: dict[str, tuple[str, ...]] = {}
    for program in (unit.program, *cluster.results_of(unit.name)):
        for name in views_of(program):
            if name in sizes and not isinstance(unit.locations[name], Dist):
                keys = group_keys(unit.program.view(name), program)
                found.setdefault(name, tuple(key.name for key in keys))
    return found
