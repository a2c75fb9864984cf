"""Which units new views on Spark can be read from.

    v: SELECT k, SUM(x) AS s FROM t GROUP BY k                           a unit of its own
    w: SELECT key, SUM(x) AS total FROM t GROUP BY key                   the same query: the same unit and result
    x: SELECT k FROM t GROUP BY k HAVING SUM(x) > 100                    the same stored views: the unit, another result

A result that is read from the unit of another view has no state, no stages and nothing to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Hints
from viewlet.engine.kinds import distributed_form
from viewlet.engine.planned_unit import PlannedUnit
from viewlet.engine.shape import shape_of
from viewlet.errors import UnsupportedError
from viewlet.hosts.spread_views import SpreadView
from viewlet.spark.run.units.unit import Unit
from viewlet.spark.run.units.unit_reading import UnitReading
from viewlet.types import Table


def positions(declared: Declaration) -> list[int]:
    """The columns that a view is to be partitioned by."""
    names = [column.name for column in declared.query.columns]
    return [names.index(name) for name in declared.partition_by]


def equal_view(declared: Declaration, views: Iterable[SpreadView], hints: Hints) -> SpreadView | None:
    """A view that has the same rows, and is to be partitioned in the same way."""
    shape, by = shape_of(declared), positions(declared)
    if shape is None:
        return None
    for known in views:
        alike = known.view.maintainer.shape == shape and positions(own_declaration(known)) == by
        if alike and known.hints.partition_by == hints.partition_by:
            return known
    return None


def own_declaration(known: SpreadView) -> Declaration:
    """What says how a view is to be partitioned: a declaration that its unit is planned from, or its own."""
    shape = known.view.maintainer.shape
    if known.is_own:
        return known.planned
    return next((each for each in known.kept.merged if shape_of(each) == shape), known.view.maintainer.declared)


def readable(
    declared: Declaration,
    flat: Declaration,
    tables: Mapping[str, Table],
    units: Iterable[PlannedUnit],
    hints: Hints,
    is_whole: Callable[[], bool],
) -> tuple[PlannedUnit, UnitReading] | None:
    """A unit that stores all that a new view needs, and how the view is read from it.

    `flat` is the declaration over tables. Both have to be over the same tables, because none that a unit reads may be
    dropped while a view is read from it. A result that would have to be read whole to know how it changes is taken only
    if that holds for a unit of its own too: if it `is_whole`.
    """
    form = distributed_form(flat)
    if (results := form.results) is None:
        return None
    lenders = {
        known.unit.name: known
        for known in units
        if distributed_form(known.declared) is form
        and known.declared.sources == flat.sources
        and known.hints.partition_by == hints.partition_by
    }
    for found in results.readings([known.unit for known in lenders.values()], flat, tables):
        known, by = lenders[found.unit.name], declared.partition_by
        if by and not found.is_partitioned_like(by, known.declared.partition_by):
            continue
        if not found.location.is_whole or is_whole():
            return known, found
    return None


def reading_of(unit: Unit, flat: Declaration, tables: Mapping[str, Table]) -> UnitReading | None:
    """How a view, as it is over tables, is read from a unit; None if its stored views do not suffice."""
    results = distributed_form(flat).results
    return None if results is None else next(iter(results.readings([unit], flat, tables)), None)


def maintained_as(planned: Declaration, unit: Unit) -> Declaration:
    """The declaration with the strategy of its unit, which never changes."""
    return planned if unit.strategy is None else replace(planned, strategy=unit.strategy)


def partitioned(known: SpreadView, columns: tuple[str, ...]) -> PlannedUnit:
    """What the unit of a view is planned from when the view is spread by some columns, which that may call otherwise.

    The unit is the one that there is.
    """
    kept, hint = known.kept, "drop it, and declare it again with PARTITION BY"
    if not known.unit.is_movable:
        raise UnsupportedError(f"ALTER VIEW {known.view.name!r}, {known.view.kind.noun}", hint, "engine")
    mine = own_declaration(known)
    if all(each is not mine for each in kept.members):
        found = known.view.engine.own_columns(columns)
        if found is None:
            what = f"ALTER VIEW {known.view.name!r}, which is read from what is kept for view {known.planned.name!r}"
            raise UnsupportedError(f"{what} and that does not show {', '.join(columns)}", hint, "engine")
        return replace(kept, declared=replace(kept.declared, partition_by=found))
    shown = [column.name for column in known.view.declared.query.columns]
    own = [column.name for column in mine.query.columns]
    by = tuple(own[shown.index(name)] for name in columns)
    first, *others = (replace(each, partition_by=by) if each is mine else each for each in kept.members)
    return replace(kept, declared=first, merged=tuple(others))
