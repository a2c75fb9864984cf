"""Units of different views that become one before the first batch, so that inner views in common are kept once.

    v: SELECT customer, SUM(price * tax) FROM orders JOIN items USING (id) GROUP BY customer     unit v
    w: SELECT day, COUNT(*) FROM orders JOIN items USING (id) GROUP BY day                       unit w
    the first batch: unit v has the programs of both (`triggers/merge.py`); w is another result over what it stores

Units are merged while they hold nothing. Both have to be over the same tables, because none that a unit reads may be
dropped while a view is read from it, and each stored view in common has to be in the same place in both: it stays
there, so that the stages of a batch are those of the units before. A merge is a declaration of its own in the log.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viewlet.engine.catalogue_json import Json
from viewlet.engine.declaration import MERGED, PLANNED, Declaration, declaration_to_json
from viewlet.engine.kind import Hints
from viewlet.engine.kinds import distributed_form
from viewlet.engine.planned_unit import PlannedUnit
from viewlet.errors import InternalError, UnsupportedError
from viewlet.spark.plan.locations import Dist, locations_to_json
from viewlet.spark.plan.partitioning import group_keys, result_partitioning
from viewlet.spark.plan.result_location import views_of
from viewlet.spark.plan.table_views import tables_as_views
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.units.unit import LOCATIONS, STRATEGY, ProgramUnit
from viewlet.spark.run.units.unit_reading import UnitReading
from viewlet.triggers.merge import MergedProgram, Merger, merge_programs, only_views, shapes_to_share
from viewlet.triggers.program import Program
from viewlet.triggers.rename import rename_views
from viewlet.triggers.shared_views import needed_for
from viewlet.types import Table

MERGE = 104
"""The kind of a record that says which units have become one."""
MOST_STATEMENTS = 1_000
"""A merged program is not made larger than this: planning it takes two seconds."""


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


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A unit that may become a part of another, with its program and where its views are."""

    known: PlannedUnit
    program: Program
    places: Mapping[str, Any]
    shapes: frozenset[Hashable]

    @staticmethod
    def of(known: PlannedUnit) -> _Candidate:
        """With names of views as they are planned where no other unit has views of the same names."""
        unit = known.unit
        assert isinstance(unit, ProgramUnit)
        prefix = f"{unit.name}/"
        names = {view.name: view.name.removeprefix(prefix) for view in unit.stored}
        places = locations_to_json(unit.stored, unit.locations)
        program = rename_views(unit.program, {old: new for old, new in names.items() if old != new})
        return _Candidate(known, program, {names[name]: at for name, at in places.items()}, shapes_to_share(program))

    @property
    def kind(self) -> Hashable:
        """What units have to have in common to be compared."""
        by = self.known.hints.partition_by
        said = tuple((name, tuple(keys)) for name, keys in sorted(by.items()))
        return self.known.declared.sources, self.known.unit.strategy, said


class _Group:
    """Units that may become one, their programs as one, and where its views are."""

    def __init__(self, first: _Candidate) -> None:
        self.units = [first]
        self.merger = Merger(first.program)
        self.places = dict(first.places)

    @property
    def statements(self) -> int:
        return sum(len(each.program.statements) for each in self.units)

    def fits(self, others: Sequence[_Candidate]) -> bool:
        """Some of the units have views in common with these, and all of them have those in the same places."""
        if not any(self.merger.has_any(each.shapes) for each in others):
            return False
        if self.statements + sum(len(each.program.statements) for each in others) > MOST_STATEMENTS:
            return False
        found = [(each, self.merger.partners(each.program)) for each in others]
        pairs = [(self.places[each.name], one.places[name]) for one, mine in found for name, each in mine.items()]
        return bool(pairs) and all(here == there for here, there in pairs)

    def add(self, others: Iterable[_Candidate]) -> None:
        for each in others:
            self.units.append(each)
            for name, here in self.merger.add(each.program).items():
                self.places.setdefault(here, each.places[name])


def mergeable(known: PlannedUnit, tables: Iterable[str]) -> bool:
    """A unit of a query over `tables` whose results are computed from its stored views."""
    unit = known.unit
    if not isinstance(unit, ProgramUnit) or unit.earlier or unit.program.layers or known.merged:
        return False
    return known.declared.sources <= set(tables) and distributed_form(known.declared).results is not None


def _groups(candidates: Iterable[_Candidate]) -> list[_Group]:
    """Units that have views in common, those of one group in their order; each is in one group."""
    found: dict[Hashable, list[_Group]] = {}
    for each in candidates:
        alike = found.setdefault(each.kind, [])
        group = next((group for group in alike if group.fits([each])), None)
        if group is None:
            alike.append(_Group(each))
        else:
            group.add([each])
    for alike in found.values():
        _connect(alike)
    return [group for alike in found.values() for group in alike if len(group.units) > 1]


def _connect(alike: list[_Group]) -> None:
    """Groups that have views in common by now become one."""
    for group in list(alike):
        while group in alike:
            others = alike[alike.index(group) + 1 :]
            other = next((each for each in others if group.fits(each.units)), None)
            if other is None:
                break
            group.add(other.units)
            alike.remove(other)


def merges_of(cluster: Engine, units: Iterable[PlannedUnit]) -> list[UnitMerge]:
    """What becomes of units that hold nothing yet."""
    return [merge for group in _groups(map(_Candidate.of, units)) for merge in _merges(cluster, group)]


def _merges(cluster: Engine, group: _Group) -> Iterator[UnitMerge]:
    """All units as one; where batches would take more stages then, or cannot be planned, the halves of them."""
    merged = group.merger.merged()
    places = {view.name: group.places[view.name] for view in merged.program.views}
    made = merged_unit(cluster, [each.known for each in group.units], merged, places)
    if made is not None:
        yield made
    elif (half := len(group.units) // 2) > 0:
        for part in (group.units[:half], group.units[half:]):
            for smaller in _groups(part):
                yield from _merges(cluster, smaller)


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
    merged = merge_programs(programs)
    kept = {name.removeprefix(f"{members[0].name}/") for name in facts[LOCATIONS]}
    return cluster.unit([_with_views(merged.results, kept)], tables, hints.rows, [{}], facts, replaced=replaced)


def needed_views(cluster: Engine, known: PlannedUnit, reads_own: bool) -> frozenset[str]:
    """The stored views of a unit that it takes to maintain the results that are read from it."""
    assert isinstance(known.unit, ProgramUnit)
    program = known.unit.program
    results = [*cluster.results_of(program.name), *([program] if reads_own else [])]
    return needed_for(program, {name for each in results for name in views_of(each)})


def pruned_unit(cluster: Engine, known: PlannedUnit, names: frozenset[str]) -> ProgramUnit:
    """A merged unit without the stored views that it had for views that are gone; the others stay where they are."""
    unit = known.unit
    assert isinstance(unit, ProgramUnit)
    program = _with_views((unit.program, *cluster.results_of(unit.name)), names)
    places: Any = unit.facts[LOCATIONS]
    facts = {**unit.facts, LOCATIONS: {name: places[name] for name in names}}
    return cluster.unit([program], unit.sources, known.hints.rows, [{}], facts)


def _with_views(results: Sequence[Program], names: Collection[str]) -> Program:
    """A merged program with some of its views; its own result is the first that they suffice for."""
    own = next(each for each in results if set(views_of(each)) <= set(names))
    return only_views(replace(own, name=results[0].name), names)


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
