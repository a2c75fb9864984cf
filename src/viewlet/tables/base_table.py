"""A base table: its schema, and its rows if it keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewlet.changes import Change, Changes, describe_row
from viewlet.errors import DataError
from viewlet.tables.static import check_static
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table, TableKind

MAX_MULTIPLICITY = 2**63 - 1


@dataclass(slots=True)
class BaseTable:
    schema: Table
    store: MapStore
    started: bool = False  # a stream that has received rows

    @property
    def kept(self) -> bool:
        return self.schema.kind is not TableKind.STREAM

    def add(self, change: Change) -> None:
        """Applies a change that has been checked; a stream keeps nothing of it."""
        if self.kept:
            self.store.add_rows(change.rows())

    def check(self, change: Change, readers: Callable[[], Sequence[str]]) -> None:
        """Refuses a change that the rows here rule out; `readers` names the views that read the table."""
        if not self.kept:
            return
        schema, changes = self.schema, change.rows()
        check_static(schema, changes.values(), readers)
        if self._is_first_load(changes):
            return
        for row, weight in changes.items():
            present = (self.store.get(row) or (0,))[0]
            if present + weight < 0:
                there = f"it is there {present} times" if present else "it is not there"
                raise DataError(f"cannot delete {describe_row(schema, row)} from {schema.name}: {there}")
            if present + weight > MAX_MULTIPLICITY:
                raise DataError(f"{schema.name} would hold {describe_row(schema, row)} more than 2^63 times")
        if schema.primary_key:
            self._check_keys(changes)

    def _is_first_load(self, changes: Changes) -> bool:
        """Rows are inserted in a table that has none, and no key is there twice: there is nothing else to check."""
        if len(self.store) or not changes:
            return False
        if min(changes.values()) < 0 or max(changes.values()) > MAX_MULTIPLICITY:
            return False
        positions = self._key_positions
        if not positions:
            return True
        return len({tuple(row[i] for i in positions) for row in changes}) == len(changes) == sum(changes.values())

    def _check_keys(self, changes: Changes) -> None:
        """No key may be there twice once the whole batch is in; absent deletes have been refused already."""
        schema, positions = self.schema, self._key_positions
        added: dict[Row, int] = {}
        for row, weight in changes.items():
            key = tuple(row[position] for position in positions)
            added[key] = added.get(key, 0) + weight
        for row, weight in changes.items():
            key = tuple(row[position] for position in positions)
            if weight > 0 and added[key] + self._rows_with_key(key) > 1:
                names = ", ".join(schema.primary_key)
                raise DataError(f"duplicate key ({names}) in {schema.name}: {describe_row(schema, row)}")

    def _rows_with_key(self, key: Row) -> int:
        return sum((self.store.get(row) or (0,))[0] for row in self.store.slice(self._key_positions, key))

    @property
    def _key_positions(self) -> tuple[int, ...]:
        return tuple(self.schema.column_names.index(name) for name in self.schema.primary_key)
