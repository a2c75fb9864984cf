"""Views that a cluster runs, as engines (`engine/contract.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from viewlet.algebra.query import Query
from viewlet.spark.plan import draw_plan, show_plan
from viewlet.spark.plan.result_location import rows_are_apart
from viewlet.spark.run.exchange.change_files import KeptChanges
from viewlet.spark.run.units.unit import ProgramUnit, unit_stats
from viewlet.spark.run.units.unit_reading import UnitReading
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.spark.run.views.scan import ViewScan
from viewlet.types import Column, Row

if TYPE_CHECKING:
    from viewlet.spark.run.engine import Engine


HOT_ROWS = 1_000
"""Fewer rows make no partition hot."""
HOT_FACTOR = 3
"""A partition with so many times the mean of the others is hot."""


def hot_partitions(rows: Sequence[int]) -> list[int]:
    """Partitions with far more rows than the others have on average.

    >>> hot_partitions([90_000, 1_200, 1_100, 900])
    [0]
    """
    total = sum(rows)
    hot = [i for i, count in enumerate(rows) if count * (len(rows) - 1) > HOT_FACTOR * (total - count)]
    return [i for i in hot if rows[i] >= HOT_ROWS and len(rows) > 1]


class UnitView:
    """Reads a unit of the cluster, which runs the batches of all views together."""

    name = "spark"

    def __init__(self, cluster: Engine, unit: Any, plan: Any, key: ResultKey | None = None) -> None:
        """`key` names what is read, if that is not the unit's own query but another one, which `plan` has."""
        self._cluster = cluster
        self.key = ResultKey(unit.name) if key is None else key
        self.plan = plan

    @property
    def unit(self) -> Any:
        """As it is now: a snapshot may move its state."""
        return self._cluster.units[self.key.unit]

    def result(self) -> Mapping[Row, int]:
        return self._cluster.result(self.key)

    def scan(self, query: Query) -> ViewScan | None:
        """How tasks read the rows of the query; None where the driver reads them."""
        context = self._cluster.scan(self.key)
        return None if context is None else ViewScan(context, self.key, query, self._adds_up)

    def keep_changes(self, name: str, query: Query) -> bool:
        """From now on tasks write the changes of the view to files; False if that is left to the driver.

        Tasks know the changes of rows that no other partition has a part of, and of which nothing is hidden or cut.
        """
        is_cut = query.limit is not None or query.offset > 0
        if is_cut or self._adds_up or {column.var for column in query.columns} != set(query.output):
            return False
        columns = tuple(Column(column.name, column.var.type) for column in query.columns)
        places = tuple(query.output.index(column.var) for column in query.columns)
        return self._cluster.keep_changes(self.key, KeptChanges(name, columns, places))

    @property
    def _adds_up(self) -> bool:
        """Partitions may have parts of the same row."""
        return True

    def watch(self) -> bool:
        return self._cluster.watch(self.key)

    def finish(self) -> Mapping[Row, int] | None:
        return self._cluster.changes(self.key)

    def commit(self) -> None:
        """The cluster commits."""

    def rollback(self) -> None:
        """The cluster rolls back."""

    def stats(self) -> dict[str, object]:
        rows = self._cluster.partition_rows(self.key.unit)
        return {
            **unit_stats(self.unit),
            "reading": self._cluster.reading(self.key).value,
            "partition_rows": list(rows),
            "hot_partitions": hot_partitions(rows),
        }


class ProgramView(UnitView):
    """Reads a trigger program."""

    @property
    def unit(self) -> ProgramUnit:
        found: ProgramUnit = super().unit
        return found

    @property
    def _adds_up(self) -> bool:
        return not rows_are_apart(self.plan, self.unit.locations)

    def arrow(self) -> Any:
        return self._cluster.arrow(self.key)

    def count(self) -> int:
        return self._cluster.count(self.key)

    def own_columns(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """The columns of the unit's own query that PARTITION BY has to name; None if it does not show them."""
        return UnitReading(self.unit, self.plan).own_columns(columns)

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        """What a batch of all tables does, block by block; as a picture too."""
        show = draw_plan if format == "svg" else show_plan
        return {"spark": lambda: show(self.unit.distributed.plan()) + ("" if format == "svg" else self._skew())}

    def _skew(self) -> str:
        """Which partitions have far more rows than others."""
        rows = self._cluster.partition_rows(self.key.unit)
        lines = [f"hot partition {i}: {rows[i]:,} of {sum(rows):,} rows" for i in hot_partitions(rows)]
        return "".join(f"\n{line}" for line in lines)
