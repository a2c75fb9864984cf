"""What a view reads: the schemas of its sources, and the rows of those that keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.triggers.store import RowStore
from viewlet.types import Table, TableKind


@dataclass(frozen=True, slots=True)
class Sources:
    """Schemas by name, and stores that hold the rows of the tables and views among them; those of streams are empty."""

    tables: Mapping[str, Table]
    stores: Mapping[str, RowStore]
    has_past: bool = False
    """A stream among them has received rows, which were not kept."""
    warehouse: object = None
    """What keeps the parts of partitioned streams, for views that read those."""

    @property
    def streams(self) -> list[str]:
        return [name for name, table in self.tables.items() if table.kind is TableKind.STREAM]

    @property
    def is_mixed(self) -> bool:
        """Some sources keep their rows, others do not."""
        return 0 < len(self.streams) < len(self.tables)

    @property
    def size(self) -> int:
        return sum(map(len, self.stores.values()))
