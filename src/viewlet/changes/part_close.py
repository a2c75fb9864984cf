"""The change of a stream that brings no rows, but says until when its parts are complete."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from viewlet.changes.change import Change, Changes, ColumnChange, RowChange
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.changes.word_codec import Codes


class PartClose(Change):
    """Closes the parts of a stream that end at `closes` (microseconds since 1970) or before."""

    __slots__ = ("closes",)

    def __init__(self, closes: int) -> None:
        self.closes = closes

    def rows(self) -> Changes:
        return {}

    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        return RowChange({}).columns(table, positions, dictionary)

    def negated(self) -> PartClose:
        return self

    def __len__(self) -> int:
        return 1
