"""A host that reads one view or table of a checkpoint, for a process that has not opened the database.

Of the other views it knows the declarations, because the query of the one may be over them, and those that share its
unit: the log says what became of a unit from its first view on. Nothing is watched, run or removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewlet.engine.catalogue_json import Json
from viewlet.engine.choice import Choice
from viewlet.engine.declaration import Declaration, planned_for
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.maintainer import Maintainer
from viewlet.hosts.spark import SparkHost
from viewlet.hosts.spread_views import ClusterTable
from viewlet.runtime.durable.snapshot import SnapshotReader
from viewlet.tables import BaseTable
from viewlet.types import Table


@dataclass(slots=True)
class ReadingHost(SparkHost):
    """The host of a reader; `wanted` are the spellings of the name that is read, `unit` the one that it shares."""

    wanted: frozenset[str] = field(default_factory=frozenset)
    unit: str | None = None
    units: dict[str, str] = field(default_factory=dict)
    """The units of views that are wanted: of one with another's, only the name is known unless that is `unit`."""

    def make_table(self, schema: Table, saved: SnapshotReader | None = None) -> BaseTable:
        if schema.name in self.wanted:
            return SparkHost.make_table(self, schema, saved)
        return BaseTable(schema, ClusterTable(schema, self.cluster))

    def resume(self, declared: Declaration, known: Json, saved: SnapshotReader | None) -> MaintainedView:
        unit = planned_for(known, declared)
        if declared.name in self.wanted:
            self.units[declared.name] = unit
        if unit == self.unit or (declared.name in self.wanted and unit == declared.name):
            return SparkHost.resume(self, declared, known, saved)
        return MaintainedView(declared, Maintainer(declared, Choice(None, "it is not read")), self.log)

    def feed(self, view: MaintainedView, since: int) -> None:
        self.feeds.since[view.name] = since
