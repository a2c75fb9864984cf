"""How the rows of a table travel to the partitions: as rows of one or more relations, each to some partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from viewlet.algebra.nodes import Var
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import Dist
from viewlet.types import Row, Table

Counted = dict[Row, int]


class Route(Protocol):
    """One way of the rows of a table; it is sent to workers."""

    @property
    def relation(self) -> Table:
        """The relation whose rows arrive; no two routes of a unit have the same."""

    @property
    def location(self) -> Dist:
        """The columns of the relation that decide where a row goes."""

    def rows(self, change: Mapping[Row, int]) -> Counted:
        """The rows of the relation that rows of the table stand for."""

    def partitions(self, row: Row, count: int) -> Iterable[int]:
        """Where a row of the relation goes, among so many partitions."""


@dataclass(frozen=True, slots=True)
class ByColumns:
    """Rows of a table, as they are, to the partitions that some of their columns name."""

    relation: Table
    positions: tuple[int, ...]

    @property
    def location(self) -> Dist:
        columns = (self.relation.columns[i] for i in self.positions)
        return Dist(tuple(Var(column.name, column.type) for column in columns))

    def rows(self, change: Mapping[Row, int]) -> Counted:
        return dict(change)

    def partitions(self, row: Row, count: int) -> Iterable[int]:
        return (partition_of((row[i] for i in self.positions), count),)
