"""A local engine of one partition that takes columns: changes travel as Arrow columns, without an object for each row.

The bytes are those of rows (`exchange/wire.py`), but with the columns only that the engine reads, by their positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.changes import Change, ColumnChange
from viewlet.runtime.arrow_columns import held_column, held_words
from viewlet.runtime.columns import to_columns
from viewlet.runtime.dictionary import StringDictionary
from viewlet.spark.run.exchange.wire import bytes_table, split_table, table_bytes
from viewlet.spark.run.units.one_stage import Blob, change_name
from viewlet.spark.run.units.partitioned_node import MakeEngine, PartitionedNode
from viewlet.spark.run.units.plan_code import PlanCode
from viewlet.spark.run.units.routes import ByColumns, Route
from viewlet.triggers.program import Statement
from viewlet.types import Table

MULTIPLICITIES = "value0"


class ColumnNode(PartitionedNode):
    """A `PartitionedNode` whose engine takes columns; `columns` are those that it reads of each table."""

    def __init__(
        self,
        name: str,
        routes: Mapping[str, tuple[Route, ...]],
        plan: Any,
        make: MakeEngine,
        state: str,
        columns: Mapping[str, tuple[int, ...]],
    ) -> None:
        super().__init__(name, routes, plan, make, state)
        self._columns = columns
        self._dictionary = StringDictionary()
        self._leaving: dict[str, Any] = {}
        self._arrived: dict[str, list[Any]] = {}

    def columns_read(self, table: str) -> frozenset[int] | None:
        return frozenset(self._columns[table])

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        wanted = frozenset(self._columns[table.name])
        return to_columns(table, rows, wanted, self._dictionary, sign, encoded, partial=True)

    def begin(self, code: PlanCode) -> None:
        super().begin(code)
        self._leaving, self._arrived = {}, {}
        self._dictionary = StringDictionary()

    def change(self, table: str, change: Change) -> None:
        (route,) = self._routes[table]
        positions = self._columns[table]
        held = change.held_columns(positions) or change.columns(route.relation, positions, self._dictionary)
        if len(held):
            self._leaving[change_name(table)] = _arrow(held, positions, route.relation)

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        table = self._leaving.get(name)
        if table is None:
            return {}
        route = self._arriving[name]
        assert isinstance(route, ByColumns)
        return split_table(table, [table.column_names.index(f"key{i}") for i in route.positions], partitions)

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        self._arrived.setdefault(name, []).extend(bytes_table(blob) for blob in blobs if len(blob))

    def run(self, statements: Iterable[Statement]) -> None:
        touched = False
        for name, route in self._arriving.items():
            if tables := self._arrived.get(name):
                touched = True
                self._engine.apply(route.relation.name, self._received_change(route.relation, tables))
        if touched:
            self._change = self._engine.finish()

    def _received_change(self, relation: Table, tables: Sequence[Any]) -> ColumnChange:
        """What has come as one change."""
        whole = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
        words = {
            i: held_words(relation.columns[i].type, whole[f"key{i}"], self._dictionary)
            for i in self._columns[relation.name]
        }
        times = np.ascontiguousarray(whole[MULTIPLICITIES].to_numpy(), np.int64)
        return ColumnChange(words, times, relation, self._dictionary)

    def contents(self, name: str) -> bytes:
        if name == self._state:
            return super().contents(name)
        return table_bytes(self._leaving[name]) if name in self._leaving else b""

    # -- result: an `ArrowResult` -----------------------------------------------------------------------------------

    def result_arrow(self, places: Sequence[int] | None = None) -> tuple[list[Any], Any] | None:
        """Columns of the rows, or all, as Arrow, with their multiplicities."""
        table = self._engine.arrow()
        chosen = range(table.num_columns - 1) if places is None else places
        return [table.column(i).combine_chunks() for i in chosen], table.column(table.num_columns - 1).to_numpy()

    def result_count(self) -> int | None:
        """How many rows there are."""
        found: int = self._engine.count()
        return found

    def change_arrow(self) -> tuple[list[Any], Any] | None:
        """What a batch has done is told row by row."""
        return None


def _arrow(change: ColumnChange, positions: Sequence[int], table: Table) -> Any:
    columns = {f"key{i}": held_column(table.columns[i].type, change.words[i], change.dictionary) for i in positions}
    return pa.table({**columns, MULTIPLICITIES: pa.array(np.ascontiguousarray(change.multiplicity, np.int64))})
