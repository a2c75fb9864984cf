"""Adaptive views on Spark: the triangles are split into shares, a state for each partition; groups are at the driver.

    changes of tables ──► tuples of R, S, T ──► the shares they belong to ──► sums of the groups ──► added at the driver

A triangle is in one share (`spark/plan/shares.py`), which keeps the parts, the thresholds and the views of its own
tuples, with an N of its own. A share tells the numbers of its groups as counted rows: the key and the place of a
number, as often as the number says. Rows of partitions add up, and so do the numbers of a group in several shares.

The driver keeps the groups and the rest of the query over them. They are not saved: they are read from the shares when
the view is used for the first time after it was opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from viewlet.adaptive.plan import RELATIONS, VARIABLES, AdaptivePlan, Numbers, SideReader
from viewlet.adaptive.reference import ReferenceState
from viewlet.adaptive.state import TriangleState, show_parts
from viewlet.algebra.nodes import Const, Var
from viewlet.algebra.triangle_query import Side, TriangleQuery
from viewlet.changes import Change
from viewlet.engine.adaptive_views import kernel_obstacle, other_groups
from viewlet.engine.common_neighbours import asked_tuple
from viewlet.engine.contract import Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Hints, Tables
from viewlet.engine.rows import difference
from viewlet.engine.triangle_result import TriangleResult
from viewlet.errors import DataError, UnsupportedError
from viewlet.spark.plan.locations import Dist
from viewlet.spark.plan.shares import Shares, best_shares
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import DEFAULT_ROWS
from viewlet.triggers.store import UndoLog
from viewlet.triggers.wide_numbers import wide_values
from viewlet.types import COUNT, Column, Datum, Row, SqlType, Table, TableKind

if TYPE_CHECKING:
    from viewlet.spark.run.engine import Engine as Cluster
    from viewlet.spark.run.units.partitioned_unit import PartitionedUnit

STRINGS = "strings"
SHARES, GENERATED = "shares", "generated"
"""Facts of a unit: its shares, and whether they are in flat arrays."""


# -- the plan of a share ----------------------------------------------------------------------------------------------


def relation_table(query: TriangleQuery, i: int) -> Table:
    """What travels of a relation: its two variables, and the numbers of a tuple but for the first, which counts."""
    first, second = (scalar.type for scalar in query.sides[i].variables)
    names = VARIABLES[i], VARIABLES[(i + 1) % 3]
    numbers = [Column(f"number{place}", COUNT) for place in range(1, query.width)]
    return Table(RELATIONS[i], (Column(names[0], first), Column(names[1], second), *numbers), TableKind.STREAM)


def over_relations(plan: AdaptivePlan) -> AdaptivePlan:
    """The same triangles over tables of tuples, one for each relation."""
    sides = []
    for i in range(3):
        table = relation_table(plan.query, i)
        columns = tuple(Var(column.name, column.type) for column in table.columns)
        numbers = ((), *((number,) for number in columns[2:]))
        sides.append(Side(table.name, columns, (columns[0], columns[1]), (), numbers))
    r, s, t = sides
    return AdaptivePlan(replace(plan.query, sides=(r, s, t)), plan.result)


@dataclass(frozen=True, slots=True)
class SharePlan:
    """What each partition runs: the triangles of its tuples, on dictionaries or in flat arrays."""

    adaptive: AdaptivePlan
    generated: bool
    strategy = "adaptive"


@lru_cache(maxsize=256)
def _reader(relation: int, side: Side) -> SideReader:
    return SideReader(relation, side)


@dataclass(frozen=True, slots=True)
class ShareRoute:
    """How the rows of a table become tuples of one relation, and which shares these belong to."""

    number: int
    side: Side
    relation: Table
    shares: Shares

    @property
    def location(self) -> Dist:
        return Dist(tuple(Var(column.name, column.type) for column in self.relation.columns[:2]))

    def rows(self, change: Mapping[Row, int]) -> dict[Row, int]:
        return _reader(self.number, self.side).tuples(change.items())

    def partitions(self, row: Row, count: int) -> Iterable[int]:
        return self.shares.of((self.number, (self.number + 1) % 3), row[:2])


# -- a share ----------------------------------------------------------------------------------------------------------


class ShareEngine:
    """The triangles of one share, as a local engine: its rows are numbers of groups."""

    def __init__(self, plan: SharePlan, sources: Sources, log: UndoLog) -> None:
        from viewlet.runtime.dictionary import StringDictionary

        self.plan = plan
        self._dictionary = StringDictionary()
        self._state = self._empty(sources, log)

    def _empty(self, sources: Sources, log: UndoLog) -> TriangleState:
        if not self.plan.generated:
            return ReferenceState(self.plan.adaptive, log)
        from viewlet.adaptive.flat_state import FlatState

        return FlatState(self.plan.adaptive, sources.tables, self._dictionary)

    @property
    def name(self) -> str:
        return self._state.engine_name

    @property
    def digest(self) -> str:
        return self.plan.adaptive.digest

    def load(self) -> None:
        """There is nothing to start from: tuples come with batches."""

    def apply(self, table: str, change: Change) -> None:
        if self.plan.generated:
            _check_numbers(change)
        for reader in self.plan.adaptive.readers[table]:
            self._state.apply(reader, change)

    def finish(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        for key, (old, new) in self._state.changes().items():
            found |= _counted(key, tuple(after - before for before, after in zip(old, new, strict=True)))
        return found

    def result(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        for key, numbers in self._state.groups():
            found |= _counted(key, numbers)
        return found

    def watch(self) -> bool:
        return True

    def commit(self) -> None:
        self._state.commit()
        self._dictionary.sweep_if_due()

    def rollback(self) -> None:
        self._state.rollback()

    def save(self, writer: StateWriter) -> dict[str, object]:
        """The state; where it has codes of strings, also the strings."""
        if self.plan.generated:
            writer.rows(STRINGS, (((text,), (0,)) for text in self._dictionary.texts), 1, 1)
        return self._state.save(writer)

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        if self.plan.generated:
            self._dictionary.restore([text for (text,), _ in reader.rows(STRINGS, 1)])  # type: ignore[misc]
        self._state.resume(layout, reader)
        return True

    def stats(self) -> dict[str, object]:
        return {"stored": self._state.sizes()}

    def stages(self, format: str) -> Stages:
        return {"parts": lambda: show_parts(self.plan.adaptive.query, self._state.facts())}


def _check_numbers(change: Change) -> None:
    """Flat arrays have words for the numbers of tuples."""
    from viewlet.adaptive.columns import LIMIT, TOO_WIDE

    for row, count in change.rows().items():
        if any(isinstance(number, int) and abs(number * count) > LIMIT for number in row[2:]):
            raise DataError(TOO_WIDE)


def _counted(key: Row, numbers: Numbers) -> dict[Row, int]:
    """The numbers of a group as counted rows."""
    return {(*key, place): number for place, number in enumerate(numbers) if number}


# -- the driver -------------------------------------------------------------------------------------------------------


class AdaptiveOnSpark:
    """Keeps the groups of one view at the driver; the partitions tell their numbers."""

    name = "spark"

    def __init__(self, plan: AdaptivePlan, cluster: Cluster, unit: PartitionedUnit) -> None:
        from viewlet.spark.run.views.partitioned_view import PartitionedView

        self.plan = plan
        self._cluster = cluster
        self._unit = unit
        self._shares = PartitionedView(cluster, unit, unit.plan)
        self._log = UndoLog()
        self._rest = TriangleResult(plan, self._log)
        self._groups: dict[Row, Numbers] = {}
        self._is_filled = False
        self._shares.watch()

    def result(self) -> Mapping[Row, int]:
        if not self._is_filled:
            self._fill(self._shares.result())
        return self._rest.result()

    def _fill(self, rows: Mapping[Row, int]) -> None:
        self._groups = self._added({}, rows)
        self._rest.fill(self._groups.items())
        self._is_filled = True

    def _added(self, groups: Mapping[Row, Numbers], rows: Mapping[Row, int]) -> dict[Row, Numbers]:
        """The groups that counted rows touch, with the numbers that these add to them."""
        found: dict[Row, list[int]] = {}
        for (*values, place), number in rows.items():
            key = tuple(values)
            if key not in found:
                found[key] = list(groups.get(key, (0,) * self.plan.query.width))
            found[key][int(place)] += number  # type: ignore[arg-type]
        return {key: tuple(numbers) for key, numbers in found.items()}

    def common_neighbours(self, given: Mapping[str, Datum]) -> tuple[Iterable[Datum], SqlType]:
        """Those of all listed triangles, which the driver has."""
        query = self.plan.query
        asked = asked_tuple(query, given)
        self.result()
        r, s, third = (query.keys.index((asked.relation + i) % 3) for i in range(3))
        ends = asked.first, asked.second
        found = [key[third] for key, numbers in self._groups.items() if (key[r], key[s]) == ends and numbers[0]]
        return found, query.variable_type(asked.third)

    def watch(self) -> bool:
        return self._shares.watch()

    def finish(self) -> Mapping[Row, int] | None:
        change = self._shares.finish()
        if change is None:
            self._is_filled = False
            return None
        if not self._is_filled:
            self._fill(difference(change, self._shares.result()))
        if not self._log.active:
            self._log.begin()
        zero = (0,) * self.plan.query.width
        changed = self._added(self._groups, change)
        told = self._rest.fold({key: (self._groups.get(key, zero), new) for key, new in changed.items()})
        for key, numbers in changed.items():
            if any(numbers):
                self._groups[key] = numbers
            else:
                self._groups.pop(key, None)
        return told

    def commit(self) -> None:
        self._log.commit()

    def rollback(self) -> None:
        """Forgets the groups, which the shares tell again."""
        self._is_filled = False
        self._log.rollback()

    def stats(self) -> dict[str, object]:
        return {**self._shares.stats(), "groups": len(self._groups), SHARES: self._unit.facts[SHARES]}

    def stages(self, format: str) -> Stages:
        return {"spark": self._show_shares, "parts": self._show_parts}

    def _show_shares(self) -> str:
        shares = _shares_of(self._unit)
        lines = [f"{show_reason(self._cluster, self._unit)}; groups at the driver"]
        for i, side in enumerate(self.plan.query.sides):
            first, second, third = (VARIABLES[(i + j) % 3] for j in range(3))
            copies = shares.counts[(i + 2) % 3]
            lines.append(
                f"{RELATIONS[i]}({first}, {second}) of {side.table}: by {first} and {second}, "
                f"in {copies} share{'' if copies == 1 else 's'}, one for each part of {third}"
            )
        return "\n".join(lines)

    def _show_parts(self) -> str:
        told = self._cluster.explain(self._unit.name, "parts")[: _shares_of(self._unit).cells]
        return "\n".join(f"share {i}\n{_indented(text)}" for i, text in enumerate(told))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _shares_of(unit: PartitionedUnit) -> Shares:
    counts: Any = unit.facts[SHARES]
    return Shares(tuple(counts))


def show_reason(cluster: Cluster, unit: PartitionedUnit) -> str:
    """How a view is spread, in words."""
    shares = _shares_of(unit)
    return f"{cluster.partitions} partitions, {shares} shares by {', '.join(VARIABLES)}, with parts of their own"


def _is_generated(cluster: Cluster, plan: AdaptivePlan, tables: Tables) -> bool:
    """In flat arrays, as it is asked for, or if they hold all numbers."""
    if other_groups(plan):
        return False
    if cluster.generated is not None:
        return cluster.generated
    return kernel_obstacle(plan) is None and wide_values(tables.values()) is None


def _new_shares(partitions: int, query: TriangleQuery, rows: Mapping[str, float]) -> Shares:
    """The best shares for tables of these sizes; the ends of a path are no variable."""
    relations = [((i, (i + 1) % 3), rows.get(side.table, DEFAULT_ROWS)) for i, side in enumerate(query.sides)]
    fixed = [i for i, side in enumerate(query.sides) if isinstance(side.variables[0], Const)]
    return best_shares(partitions, 3, relations, fixed)


def share_unit(
    cluster: Cluster,
    declared: Declaration,
    plan: AdaptivePlan,
    tables: Tables,
    hints: Hints,
    facts: Mapping[str, Any],
) -> PartitionedUnit:
    """A view in shares; one that continues has `facts`."""
    from viewlet.spark.run.units.partitioned_unit import PartitionedUnit

    if declared.partition_by:
        hint = "leave it out: tuples are spread by all three vertices"
        raise UnsupportedError(f"PARTITION BY for view {declared.name!r}, which is in shares", hint, "engine")
    query = plan.query
    if query.carried:
        hint = "group by columns of the join condition, or leave the strategy out"
        raise UnsupportedError(f"view {declared.name!r} in shares, with groups by other columns", hint, "engine")
    if facts:
        shares, generated = Shares(tuple(facts[SHARES])), bool(facts[GENERATED])
    else:
        shares = _new_shares(cluster.partitions, query, hints.rows)
        generated = _is_generated(cluster, plan, tables)
    routes: dict[str, tuple[ShareRoute, ...]] = {}
    for i, side in enumerate(query.sides):
        route = ShareRoute(i, side, relation_table(query, i), shares)
        routes[side.table] = (*routes.get(side.table, ()), route)
    known = {SHARES: list(shares.counts), GENERATED: generated}
    identity = (plan.digest, shares, generated)
    share = SharePlan(over_relations(plan), generated)
    return PartitionedUnit(declared.name, share, ShareEngine, dict(tables), routes, identity, known)
