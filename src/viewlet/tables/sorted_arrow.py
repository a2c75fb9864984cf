"""The rows of a table as Arrow, sorted by all columns, kept up to date with small changes.

A changed row is found by binary search. The new table consists of slices of the old one, which share its memory, and of
the rows that are new:

    [1, 3, 5, 7] with 4 inserted and 5 deleted   ->   [1, 3] [4] [7]

NULLs are last, as wherever rows are shown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.changes import Changes, rows_to_arrow, to_python
from viewlet.types import Column, Row

MOST_CHANGES = 1_000
"""Rows that are put into their places one by one; with more, the whole is sorted again."""
MOST_CHUNKS = 256
"""Pieces after which the columns are copied into one piece."""

Key = list[tuple[bool, Any]]


@dataclass(frozen=True, slots=True)
class SortedArrow:
    """A sorted Arrow table, and changes since it was made."""

    arrow: Any
    columns: tuple[Column, ...]
    changes: tuple[Changes, ...] = ()
    size: int = 0
    """How many rows the changes have."""

    def after(self, change: Changes) -> SortedArrow | None:
        """This table with one more change; None if sorting everything again is no more work."""
        size = self.size + len(change)
        if size > min(MOST_CHANGES, self.arrow.num_rows // 8):
            return None
        return SortedArrow(self.arrow, self.columns, (*self.changes, change), size)

    def brought_up_to_date(self) -> SortedArrow:
        """The same rows with no changes left."""
        if not self.changes:
            return self
        net: Changes = {}
        for change in self.changes:
            for row, weight in change.items():
                net[row] = net.get(row, 0) + weight
        arrow = self._with([(row, weight) for row, weight in net.items() if weight])
        return SortedArrow(arrow, self.columns)

    def _with(self, changes: Sequence[tuple[Row, int]]) -> Any:
        import pyarrow as pa

        old, at, pieces = self.arrow, 0, []
        key = _key_of(self.columns)
        for row, weight in sorted(changes, key=lambda change: key(change[0])):
            place = bisect_left(range(old.num_rows), key(row), lo=at, key=self._key_at)
            pieces.append(old.slice(at, place - at))
            if weight > 0:
                pieces.append(rows_to_arrow(self.columns, [(row, weight)]))
            at = place + max(0, -weight)
        pieces.append(old.slice(at))
        made = pa.concat_tables([piece for piece in pieces if piece.num_rows] or [old.slice(0, 0)])
        return made.combine_chunks() if made.column(0).num_chunks > MOST_CHUNKS else made

    def _key_at(self, number: int) -> Key:
        """The key of a row of the table, by which it is sorted."""
        values = (column[number].as_py() for column in self.arrow.columns)
        return [(value is None, 0 if value is None else value) for value in values]


def _key_of(columns: Sequence[Column]) -> Callable[[Row], Key]:
    converters = [to_python(column.type) for column in columns]

    def key(row: Row) -> Key:
        pairs = zip(converters, row, strict=True)
        return [(value is None, 0 if value is None else convert(value)) for convert, value in pairs]

    return key
