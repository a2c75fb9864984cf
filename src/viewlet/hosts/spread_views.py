"""What the host on Spark knows of its tables and views: where their rows are, and what their units are planned from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.changes import Change, Changes, RowChange
from viewlet.engine.arrow_rows import in_reading_order
from viewlet.engine.catalogue_json import Json
from viewlet.engine.contract import ReadByTasks
from viewlet.engine.declaration import PLANNED, READ_FROM, Declaration, planned_to_json
from viewlet.engine.kind import Hints
from viewlet.engine.kinds import distributed_form
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.planned_unit import PlannedUnit
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.execution.batch import Batch as ClusterBatch
from viewlet.spark.run.execution.batch import BatchStats
from viewlet.spark.run.unit_registry import Units
from viewlet.spark.run.units.table_unit import unit_name
from viewlet.spark.run.units.unit import Unit
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.types import Row, Table


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """The rows of a table in the partitions of a cluster (see `KeptRows`)."""

    schema: Table
    cluster: Engine

    @property
    def total(self) -> int:
        found = self.cluster.table_rows(self.schema)
        return int(found.column(found.num_columns - 1).to_numpy().sum())

    def check(self, change: Change) -> None:
        """The last stage of the batch checks the keys that it has changed."""

    def change(self) -> Change:
        return RowChange(self._rows())

    def arrow(self) -> Any:
        columns = self.schema.columns
        order = [(position, False, False) for position in range(len(columns))]
        return in_reading_order(self.cluster.table_rows(self.schema), order, range(len(columns)), columns)

    def with_keys(self, keys: Sequence[Row]) -> Changes:
        return self.cluster.rows_with_keys(self.schema, keys)

    def _rows(self) -> Changes:
        return self.cluster.result(ResultKey(unit_name(self.schema.name)))


@dataclass(frozen=True, slots=True)
class SpreadView:
    """A view with its unit, which it may share."""

    view: MaintainedView
    kept: PlannedUnit
    is_own: bool = True
    """It is the unit's own query; otherwise the view is another result over what the unit stores."""

    @property
    def unit(self) -> Unit:
        return self.kept.unit

    @property
    def hints(self) -> Hints:
        return self.kept.hints

    @property
    def planned(self) -> Declaration:
        return self.kept.declared

    def facts(self, with_merged: bool = False) -> Json:
        """What the catalogue notes of it and its unit."""
        known = planned_to_json(self.planned, self.view.declared, PLANNED if self.is_own else READ_FROM)
        return {**self.kept.facts(with_merged), **known}


@dataclass(frozen=True, slots=True)
class RelocationRequest:
    """Units as they will be when they are spread otherwise, and the number of partitions."""

    units: Mapping[str, PlannedUnit]
    partitions: int


@dataclass(slots=True)
class BatchInProgress:
    """A batch or a declaration under way: the tables that had rows before it, the units there were, what has run."""

    started: frozenset[str]
    units: Units | None = None
    views: Mapping[str, SpreadView] = field(default_factory=dict)
    declared: PlannedUnit | None = None
    """The unit of the view that is being declared."""
    ran: tuple[ClusterBatch | None, BatchStats] | None = None


def read_by_tasks(view: MaintainedView) -> ReadByTasks | None:
    """The engine of a view whose rows tasks can read."""
    engine = view.engine
    return engine if isinstance(engine, ReadByTasks) else None


def unit_sharers(view: MaintainedView, views: Mapping[str, SpreadView]) -> list[str]:
    """The other views that are read from the unit of a view."""
    unit = views[view.name].unit.name
    return [name for name, known in views.items() if known.unit.name == unit and name != view.name]


def noted(known: Iterable[Json], views: Mapping[str, SpreadView]) -> Iterator[Json]:
    """What a snapshot notes of each view; the first of a merged unit has what that was made of."""
    units = set[str]()
    for each in known:
        view = views[each["name"]]
        yield {**each, **view.facts(with_merged=view.unit.name not in units)}
        units.add(view.unit.name)


def reason_of(cluster: Engine, unit: Unit, planned: Declaration, is_own: bool) -> str:
    """Where a view is, and what it is read from if that is the unit of another."""
    spread = distributed_form(planned).reason(cluster, unit)
    return spread if is_own else f"{spread}; read from what is kept for view {planned.name}"
