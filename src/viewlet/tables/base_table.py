"""A base table: its schema, and its rows if it keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewlet.changes import Change, Changes
from viewlet.changes.row_reader import Reader, reader_of
from viewlet.tables.static import check_unread
from viewlet.types import Row, Table, TableKind


class KeptRows(Protocol):
    """The rows of a table, wherever they are: in this process (`TableStore`), or in the partitions of a cluster."""

    @property
    def total(self) -> int:
        """How many rows there are, repeats included."""

    def check(self, change: Change) -> None:
        """Refuses a change that the rows rule out, unless the host checks it while the batch runs."""

    def change(self) -> Change:
        """All rows, as the change that inserts them."""

    def arrow(self) -> Any:
        """All rows as Arrow, sorted by all columns."""

    def with_keys(self, keys: Sequence[Row]) -> Changes | None:
        """The rows with these primary keys, if they can be found without reading all rows."""


@dataclass(slots=True)
class BaseTable:
    """A table or stream of a database."""

    schema: Table
    store: KeptRows
    """The rows; a stream keeps none."""
    started: bool = False  # a stream that has received rows
    late: Callable[[], Any] | None = None
    """The rows that came too late, as Arrow, of a stream that has a time and sets them aside."""
    archived: Callable[[], Any] | None = None
    """The rows of its parts that were archived, as Arrow, of a partitioned stream."""
    with_parts: Callable[[str], Any] | None = None
    """The rows of a partitioned stream with the start of their part, as Arrow, for a query that names it."""
    kept: bool = field(init=False)
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.kept = self.schema.kind is not TableKind.STREAM
        self._reader = reader_of(self.schema)

    def read(self, data: object, sign: int, encoded: bool = False) -> Changes | None:
        """A few rows as a change, or None if `to_changes` has to convert them or to say what is wrong with them."""
        return self._reader.read(data, sign, encoded)

    def check(self, change: Change, readers: Callable[[], Sequence[str]]) -> None:
        """Refuses a change that the rows here rule out; `readers` names the views that read the table."""
        if self.kept:
            check_unread(self.schema, readers)
            self.store.check(change)
