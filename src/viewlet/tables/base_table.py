"""A base table: its schema, and its rows if it keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from viewlet.changes import Change, Changes
from viewlet.changes.row_reader import RowReader
from viewlet.tables.static import check_static
from viewlet.tables.store import TableStore
from viewlet.types import Table, TableKind


@dataclass(slots=True)
class BaseTable:
    """A table or stream of a database."""

    schema: Table
    store: TableStore
    started: bool = False  # a stream that has received rows
    kept: bool = field(init=False)
    _reader: RowReader = field(init=False)

    def __post_init__(self) -> None:
        self.kept = self.schema.kind is not TableKind.STREAM
        self._reader = RowReader(self.schema)

    def read(self, data: object, sign: int) -> Changes | None:
        """A list of rows as a change, or None if `to_changes` has to convert it or to say what is wrong with it."""
        return self._reader.read(data, sign)

    def check(self, change: Change, readers: Callable[[], Sequence[str]]) -> None:
        """Refuses a change that the rows here rule out; `readers` names the views that read the table."""
        if not self.kept:
            return
        if self.schema.kind is TableKind.STATIC:
            check_static(self.schema, change.rows().values(), readers)
        self.store.check(change)

    def add(self, change: Change) -> None:
        """Applies a change that has been checked; a stream keeps nothing of it."""
        if self.kept:
            self.store.add_change(change)
