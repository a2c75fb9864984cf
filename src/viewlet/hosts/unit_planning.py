"""Plans the units of views: new ones, those that the catalogue knows, and those whose state is to be somewhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from viewlet import __version__
from viewlet.engine.catalogue_json import Json
from viewlet.engine.declaration import MERGED, PLANNED, Declaration, declaration_of_json
from viewlet.engine.kind import Hints
from viewlet.engine.kinds import distributed_form
from viewlet.engine.planned_unit import PlannedUnit
from viewlet.engine.unit_merging import UnitMerge, merged_again, moved_unit, names_in, needed_views, pruned_unit
from viewlet.errors import InternalError, StateError
from viewlet.hosts.catalogue import Catalogue
from viewlet.hosts.spread_views import SpreadView
from viewlet.hosts.unit_sharing import maintained_as, reading_of
from viewlet.hosts.view_stack import over_tables
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.units.unit import Unit
from viewlet.spark.run.units.unit_reading import UnitReading


@dataclass(frozen=True, slots=True)
class UnitPlanner:
    """Plans units of a cluster for the views of a catalogue."""

    cluster: Engine
    catalogue: Catalogue

    def unit(self, declared: Declaration, hints: Hints, facts: Mapping[str, Any]) -> Unit:
        """How a view is kept; one that continues has `facts`."""
        flat = over_tables(declared, self.catalogue)
        sources = self.catalogue.sources_of(flat)
        own = {name: table.partition_by for name, table in sources.items() if table.partition_by}
        said = Hints(hints.rows, {**own, **hints.partition_by})
        unit: Unit = distributed_form(flat).unit(self.cluster, flat, sources, said, facts)
        return unit

    def again(self, known: PlannedUnit, sizes: Mapping[str, float], facts: Json | None = None) -> PlannedUnit:
        """A unit as it is planned for views of some sizes, or as `facts` say that it was."""
        hints = Hints({**known.hints.rows, **sizes}, known.hints.partition_by)
        if known.merged:
            unit: Unit = moved_unit(self.cluster, known, self._said(known), sizes, facts)
        else:
            unit = self.unit(maintained_as(known.declared, known.unit), hints, facts or {})
        return replace(known, unit=unit, hints=hints)

    def pruned(self, known: PlannedUnit, views: Iterable[SpreadView]) -> PlannedUnit | None:
        """A merged unit without what it has for views that are gone; None if it has nothing of the kind."""
        if not known.merged:
            return None
        reads_own = any(each.is_own for each in views if each.unit.name == known.unit.name)
        names = needed_views(self.cluster, known, reads_own)
        if names.issuperset(view.name for view in known.unit.stored):
            return None
        return replace(known, unit=pruned_unit(self.cluster, known, names))

    def _said(self, known: PlannedUnit) -> Iterator[tuple[UnitReading, Declaration]]:
        """How those queries of a merged unit are read that say how they are to be partitioned."""
        for declared in known.members:
            flat = over_tables(declared, self.catalogue)
            reading = reading_of(known.unit, flat, self.catalogue.sources_of(flat)) if declared.partition_by else None
            if reading is not None:
                yield reading, declared

    def as_noted(self, planned: Declaration, hints: Hints, known: Json, replaced: Iterable[str] = ()) -> PlannedUnit:
        """A unit as the catalogue says that it was planned."""
        schemas, aggregates = self.catalogue.schemas(), self.catalogue.aggregates
        merged = tuple(declaration_of_json(each, schemas, aggregates) for each in known.get(MERGED, ()))
        if merged:
            sources = self.catalogue.sources_of(over_tables(planned, self.catalogue))
            members = [over_tables(each, self.catalogue) for each in (planned, *merged)]
            unit: Unit = merged_again(self.cluster, members, sources, hints, known, replaced)
        else:
            unit = self.unit(planned, hints, known)
        if unit.digest != known["digest"]:
            raise StateError(f"this version of Viewlet ({__version__}) would keep it in another way")
        return PlannedUnit(planned, unit, hints, merged)

    def merge_again(self, known: Json) -> UnitMerge:
        """Units that have become one, as a record says."""
        planned = declaration_of_json(known[PLANNED], self.catalogue.schemas(), self.catalogue.aggregates)
        hints = Hints(known["rows"], known["partition_by"])
        return UnitMerge(self.as_noted(planned, hints, known, names_in(known)))

    def reader(self, known: SpreadView, merge: UnitMerge, is_own: bool) -> Any:
        """What reads a view from the unit that its own has become; the view may be that of the unit's own query."""
        flat, kept = over_tables(known.view.maintainer.declared, self.catalogue), merge.after
        form = distributed_form(flat)
        if is_own:
            return form.engine(self.cluster, kept.unit, kept.declared)
        reading = merge.results.get(known.unit.name) if known.is_own else None
        reading = reading or reading_of(kept.unit, flat, self.catalogue.sources_of(flat))
        if reading is None or form.results is None:
            raise InternalError(f"view {known.view.name!r} cannot be read from {kept.unit.name!r}")
        return form.results.engine(self.cluster, reading)
