"""Reading what units maintain: where the driver has it, in the partitions, or gathered from them (`ResultLocation`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from viewlet.changes import Changes, rows_to_arrow
from viewlet.errors import InternalError
from viewlet.spark.plan.locations import LOCAL, REPLICATED
from viewlet.spark.plan.result_location import ResultLocation, views_of
from viewlet.spark.run.exchange.change_files import KeptChanges
from viewlet.spark.run.exchange.wire import bytes_table
from viewlet.spark.run.execution.change_task import rows_table
from viewlet.spark.run.execution.tasks import (
    CountRows,
    ExplainPartition,
    ReadArrow,
    ReadResult,
    ReadTableKeys,
    ReadViews,
)
from viewlet.spark.run.load.row_frame import table_rows
from viewlet.spark.run.state.partition import Context
from viewlet.spark.run.unit_registry import UnitEntry, UnitRegistry
from viewlet.spark.run.units.node import Node, with_result
from viewlet.spark.run.units.table_unit import rows_view, unit_name
from viewlet.spark.run.units.unit import (
    ProgramCode,
)
from viewlet.spark.run.units.unit_result import OWN, ResultKey
from viewlet.triggers.program import Program
from viewlet.types import Row, Table


class ResultReader(UnitRegistry):
    """The units of a cluster, and the rows of their queries."""

    def result(self, key: ResultKey) -> Changes:
        """The rows of a query with their multiplicities."""
        if (context := self.scan(key)) is not None:
            return _sum(self._ask(ReadResult(context, key), f"read {key.unit}"))
        return with_result(self._node_of(key), self._other(key)).result()

    def _node_of(self, key: ResultKey) -> Node:
        """A node with all views that a result is read from."""
        entry = self._units[key.unit]
        return entry.node if self.reading(key) is ResultLocation.DRIVER else self._gathered(entry, key)

    def explain(self, name: str, stage: str) -> list[str]:
        """What the engines of the partitions tell of themselves."""
        return self._ask(ExplainPartition(self.context(), name, stage), f"explain {name}")

    def arrow(self, key: ResultKey) -> Any:
        """The rows of a result as an Arrow table; a row may be listed in several pieces."""
        import pyarrow as pa

        if (context := self.scan(key)) is not None:
            parts = self._ask(ReadArrow(context, key), f"read {key.unit}")
            return pa.concat_tables([bytes_table(part) for part in parts])
        return rows_table(self._node_of(key), self._units[key.unit].code, self._other(key))

    def count(self, key: ResultKey) -> int:
        """How many rows a query has."""
        if (context := self.scan(key)) is not None:
            return sum(self._ask(CountRows(context, key), f"count {key.unit}"))
        found = self.arrow(key)
        return int(found.column(found.num_columns - 1).to_numpy().sum())

    def table_rows(self, table: Table) -> Any:
        """The rows that a table keeps, as an Arrow table with multiplicities."""
        import pyarrow as pa

        task = ReadViews(self.context(), unit_name(table.name), (rows_view(table.name),))
        found = [blob for (blob,) in self._ask(task, f"read {table.name}") if blob]
        parts = [table_rows(table, bytes_table(blob)) for blob in found]
        return pa.concat_tables(parts) if parts else rows_to_arrow(table.columns, [], with_multiplicity=True)

    def rows_with_keys(self, table: Table, keys: Sequence[Row]) -> Changes:
        """The rows of a kept table with these primary keys: each partition looks for them among its own."""
        if not keys:
            return {}
        return _sum(self._ask(ReadTableKeys(self.context(), table, frozenset(keys)), f"read {table.name}"))

    def scan(self, key: ResultKey) -> Context | None:
        """What tasks have to know to read the rows of a query, if each partition can compute its share."""
        reading = self.reading(key)
        if reading is ResultLocation.PARTITIONS:
            return self.context(key).of(key)
        if reading is ResultLocation.SENT:
            return replace(self.context(key).of(key), sent=self._at_driver(key))
        return None

    def _at_driver(self, key: ResultKey) -> dict[str, bytes]:
        """The views at the driver that a result is read from."""
        entry = self._units[key.unit]
        if not isinstance(entry.code, ProgramCode):
            raise InternalError(f"the views of {key.unit} are not those of a query")
        wanted = views_of(self._program_of(entry.code, key))
        return {view: entry.node.contents(view) for view in wanted if view in entry.code.local}

    def _program_of(self, code: ProgramCode, key: ResultKey) -> Program:
        """The program with the query of a result."""
        return code.program if key.digest == OWN else self._results[key].program

    def _gathered(self, entry: UnitEntry, key: ResultKey) -> Node:
        """The views that a query reads, in one place."""
        unit, code = entry.unit, entry.code
        if not isinstance(code, ProgramCode):
            raise InternalError(f"the views of {unit.name} are not those of a query")
        node, wanted = code.gathered(self._program_of(code, key))
        locations = unit.locations
        remote = tuple(name for name in wanted if locations[name] != LOCAL)
        found = self._ask(ReadViews(self.context(), unit.name, remote), f"read {unit.name}")
        for i, name in enumerate(remote):
            node.put(name, [part[i] for part in (found[:1] if locations[name] == REPLICATED else found)])
        for name in wanted.keys() - set(remote):
            node.put(name, [entry.node.contents(name)])
        return node

    def watch(self, key: ResultKey) -> bool:
        """From now on batches tell what they do to the rows of a query, if they can."""
        reading = self.reading(key)
        if reading is ResultLocation.GATHERED:
            return False
        if key not in self._watched:
            self._watched.add(key)
            if reading is ResultLocation.DRIVER:
                with_result(self._units[key.unit].node, self._other(key)).watch()
        return True

    def keep_changes(self, key: ResultKey, kept: KeptChanges) -> bool:
        """From now on tasks write what batches do to the rows of a query; False if only the driver can tell it."""
        if not self.reading(key).is_spread:
            return False
        return self._kept_changes.setdefault(key, kept).view == kept.view  # they write for one of the sharing views

    def keeps_changes_of(self, key: ResultKey, view: str) -> bool:
        """Tasks write the changes of a result for this view."""
        return key in self._kept_changes and self._kept_changes[key].view == view

    def forget_changes(self, key: ResultKey, view: str) -> None:
        """Tasks no longer write the changes of a result for this view."""
        if self.keeps_changes_of(key, view):
            del self._kept_changes[key]


def _sum(parts: Iterable[Changes]) -> Changes:
    total: Changes = {}
    for part in parts:
        for row, weight in part.items():
            total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}
