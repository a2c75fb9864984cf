"""Views with user-defined aggregates on Spark: the cluster keeps the rows, the driver the states.

The rows that aggregates read are a trigger program of the cluster (`CollectedQuery.values`). Their changes come to the
driver, which keeps the built-in aggregates, the states and the result over them. States are not saved: they are
computed from the rows of the cluster when the view is used for the first time after it was opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.aggregate_query import AggregateQuery, CollectedQuery
from viewlet.algebra.traverse import relations
from viewlet.changes import RowChange
from viewlet.engine.aggregate_plan import AggregatePlan
from viewlet.engine.contract import Engine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.group_result import GroupResult
from viewlet.engine.kind import DistributedForm, Hints, Tables
from viewlet.engine.rows import difference
from viewlet.engine.trigger_programs import plan_on_spark, plan_program, unit_on_spark
from viewlet.errors import UnsupportedError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.statistics import UNKNOWN
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Row

if TYPE_CHECKING:
    from viewlet.spark.run.engine import Engine as Cluster
    from viewlet.spark.run.units.unit import ProgramUnit


class AggregatesOnSpark:
    """Keeps the groups of one view at the driver; `values` reads the rows that the cluster keeps."""

    name = "spark"

    def __init__(self, plan: AggregatePlan, values: Engine, table: str) -> None:
        self.plan = plan
        self._values = values
        self._table = table
        self._log = UndoLog()
        self._groups = None if plan.groups is None else Interpreter(plan.groups, {}, self._log)
        self._rest = GroupResult(plan, self._groups, {}, self._log)
        self._is_filled = False
        values.watch()

    def result(self) -> Mapping[Row, int]:
        if not self._is_filled:
            self._fill(self._values.result())
        return self._rest.engine.result()

    def watch(self) -> bool:
        return self._values.watch()

    def finish(self) -> Mapping[Row, int] | None:
        change = self._values.finish()
        if change is None:
            self._is_filled = False
            return None
        if not self._is_filled:
            self._fill(difference(change, self._values.result()))
        if not self._log.active:
            self._log.begin()
        if self._groups is not None:
            self._groups.apply(self._table, RowChange(dict(change)))
        return self._rest.fold(change)

    def _fill(self, rows: Mapping[Row, int]) -> None:
        if self._groups is not None:
            self._groups.restore(self._groups.evaluate({self._table: MapStore.of_rows(rows)}))
        self._rest.fill(rows)
        self._is_filled = True

    def commit(self) -> None:
        self._log.commit()

    def rollback(self) -> None:
        """Forgets the states, which the rows of the cluster give again."""
        self._is_filled = False
        self._log.rollback()

    def stats(self) -> dict[str, object]:
        return {**self._values.stats(), "groups": len(self._rest.states)}

    def stages(self, format: str) -> Stages:
        return self._values.stages(format)


def _collect(declared: Declaration) -> tuple[AggregateQuery, CollectedQuery, Declaration]:
    """What the cluster keeps for a view, as a declaration of its own."""
    query = declared.definition
    assert isinstance(query, AggregateQuery)
    if query.collected is None or relations(query.result.expr) != {query.table.name}:
        hint = "declare the subquery as a view of its own, and compare with it when you read this one"
        raise UnsupportedError("a subquery beside a user-defined aggregate on Spark", hint, "engine")
    rows = query.collected.values
    keys = {column.name for column in rows.columns[: query.keys]}
    spread = tuple(name for name in declared.partition_by if name in keys)
    return query, query.collected, replace(declared, query=rows, definition=rows, partition_by=spread)


def plan_aggregates_on_spark(declared: Declaration, tables: Tables) -> AggregatePlan:
    """The program of the cluster, and those of the driver."""
    query, collected, kept = _collect(declared)
    values = plan_on_spark(kept, tables)
    groups = None
    if collected.groups is not None:
        own = replace(kept, name=f"{declared.name}_built_in", query=collected.groups, strategy="auto")
        groups = plan_program(own, {collected.table.name: collected.table}, UNKNOWN)
    whole = replace(kept, query=query.result, strategy="auto")
    return AggregatePlan(query, values, groups, plan_program(whole, {query.table.name: query.table}, UNKNOWN))


def _unit(
    cluster: Cluster, declared: Declaration, tables: Tables, hints: Hints, facts: Mapping[str, Any]
) -> ProgramUnit:
    return unit_on_spark(cluster, _collect(declared)[2], tables, hints, facts)


def _engine(cluster: Cluster, unit: ProgramUnit, declared: Declaration) -> Engine:
    from viewlet.spark.run.views.unit_view import ProgramView

    _, collected, _ = _collect(declared)
    plan = replace(plan_aggregates_on_spark(declared, unit.sources), values=unit.program)
    return AggregatesOnSpark(plan, ProgramView(cluster, unit, unit.program), collected.table.name)


def _reason(cluster: Cluster, unit: ProgramUnit) -> str:
    return f"{cluster.partitions} partitions, states at the driver"


ON_SPARK = DistributedForm(plan_aggregates_on_spark, _unit, _engine, _reason)
