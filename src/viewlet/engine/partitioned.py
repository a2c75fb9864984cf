"""The form on Spark of a kind of view that keeps something per key: a local engine in every partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.engine.contract import Engine, LocalEngine
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import DistributedForm, Hints, Tables
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import UndoLog

if TYPE_CHECKING:
    from viewlet.spark.run.engine import Engine as Cluster
    from viewlet.spark.run.units.partitioned_unit import PartitionedUnit

Plan = Any


def partitioned(
    plan: Callable[[Declaration, Tables], Plan],
    make: Callable[[Plan, Sources, UndoLog], LocalEngine],
    by: Callable[[Plan], Mapping[str, tuple[int, ...]]],
    columns: Callable[[Plan], Mapping[str, tuple[int, ...]]] | None = None,
) -> DistributedForm:
    """Every partition runs an engine made by `make` over its rows, which go by the columns `by` of each table.

    An engine that takes columns instead of rows, and tells its rows as Arrow, has `columns`: those that it reads.

    The rows of the view may depend only on table rows with the same values in these columns. Plans and `make` are sent
    to the workers, which have to be able to import what they refer to.
    """
    form = _Partitioned(plan, make, by, columns)
    return DistributedForm(plan, form.unit, form.engine, form.reason)


@dataclass(frozen=True, slots=True)
class _Partitioned:
    plan: Callable[[Declaration, Tables], Plan]
    make: Callable[[Plan, Sources, UndoLog], LocalEngine]
    by: Callable[[Plan], Mapping[str, tuple[int, ...]]]
    columns: Callable[[Plan], Mapping[str, tuple[int, ...]]] | None

    def unit(
        self, cluster: Cluster, declared: Declaration, tables: Tables, hints: Hints, facts: Mapping[str, Any]
    ) -> PartitionedUnit:
        from viewlet.spark.run.units.partitioned_unit import PartitionedUnit
        from viewlet.spark.run.units.routes import ByColumns

        plan = self.plan(declared, tables)
        by = self.by(plan)
        routes = {name: (ByColumns(tables[name], positions),) for name, positions in by.items()}
        identity, columns = (plan, sorted(by.items())), None if self.columns is None else self.columns(plan)
        return PartitionedUnit(declared.name, plan, self.make, dict(tables), routes, identity, columns=columns)

    @staticmethod
    def engine(cluster: Cluster, unit: PartitionedUnit, declared: Declaration) -> Engine:
        from viewlet.spark.run.views.partitioned_view import ColumnView, PartitionedView

        return (PartitionedView if unit.columns is None else ColumnView)(cluster, unit, unit.plan)

    @staticmethod
    def reason(cluster: Cluster, unit: PartitionedUnit) -> str:
        return f"{cluster.partitions} partitions, an engine in each"
