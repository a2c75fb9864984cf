"""How a view tree over a ring is spread: by some variables of the join, whose values name a partition.

    sales(shop, item, units)   items(item, price)   shops(shop, city)       split by item, of 3 partitions

    partition of item 7        sales of item 7, item 7      all shops
    partition of item 8        sales of item 8, item 8      all shops

Every row of the join has one value of each variable, so that the join is the disjoint union of the joins of the
partitions: each keeps a whole view tree over its share, and payloads are added up when they are read. Relations without
the variables are at every partition in full. What that costs decides by which variables the tree is split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from viewlet.algebra.nodes import Var
from viewlet.algebra.query import Query
from viewlet.algebra.ring_query import FactorisedPayload, JoinedRelation, RingQuery
from viewlet.changes import did_you_mean
from viewlet.errors import SchemaError
from viewlet.spark.plan.locations import REPLICATED, Dist, ViewLocation
from viewlet.triggers.statistics import DEFAULT_ROWS
from viewlet.types import Kind, SqlType

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeSplit:
    """The variables that a tree is split by, and with that the places of every relation."""

    by: Names
    relations: tuple[JoinedRelation, ...]

    def positions(self, relation: JoinedRelation) -> tuple[int, ...] | None:
        """Where the variables stand in a relation; None if all partitions have it in full."""
        schema = relation.schema
        return tuple(schema.index(name) for name in self.by) if {*self.by} <= {*schema} else None

    def split(self) -> Names:
        return tuple(each.name for each in self.relations if self.positions(each) is not None)

    def replicated(self) -> Names:
        return tuple(each.name for each in self.relations if self.positions(each) is None)

    def locations(self) -> dict[str, ViewLocation]:
        """Where the rows of each relation go."""
        return {each.name: self._location(each) for each in self.relations}

    def _location(self, relation: JoinedRelation) -> ViewLocation:
        positions = self.positions(relation)
        if positions is None:
            return REPLICATED
        return Dist(tuple(Var(self.by[i], relation.variables[at].scalar.type) for i, at in enumerate(positions)))

    def __str__(self) -> str:
        everywhere = f"; {', '.join(self.replicated())} at every partition" if self.replicated() else ""
        return f"split by {', '.join(self.by)}: {', '.join(self.split())}{everywhere}"


def split_tree(
    query: RingQuery,
    shown: Query,
    rows: Mapping[str, float],
    partition_by: Sequence[str] = (),
    tables: Mapping[str, Sequence[int]] | None = None,
) -> TreeSplit:
    """The split that the user asks for, or that sends the fewest rows to all partitions.

    `partition_by` are columns of the view, `shown` its query; `tables` has the positions of columns that tables go by.
    """
    if partition_by:
        return TreeSplit(_asked_for(query, shown, partition_by), query.relations)
    found = list(_of_tables(query, tables or {})) or list(_candidates(query))
    costs = [(_replicated_rows(TreeSplit(by, query.relations), rows), len(by), i) for i, by in enumerate(found)]
    return TreeSplit(found[min(costs)[2]], query.relations)


def _replicated_rows(split: TreeSplit, rows: Mapping[str, float]) -> float:
    full = split.replicated()
    return sum(rows.get(each.table, DEFAULT_ROWS) for each in split.relations if each.name in full)


def _candidates(query: RingQuery) -> Iterator[Names]:
    """Variables that relations are joined on, and all that one relation has, which suits a large one among small."""
    shared = [name for name in _variables(query) if len(_holders(query, name)) > 1]
    yield from ((name,) for name in shared if _hashes_alike(query, name))
    for relation in query.relations:
        alike = tuple(name for name in relation.schema if _hashes_alike(query, name))
        if alike:
            yield alike


def _of_tables(query: RingQuery, tables: Mapping[str, Sequence[int]]) -> Iterator[Names]:
    """What tables go by, where these are variables of the join."""
    for relation in query.relations:
        names = {variable.scalar: variable.name for variable in relation.variables}
        by = [names.get(relation.columns[position]) for position in tables.get(relation.table, ())]
        known = tuple(name for name in by if name is not None and _hashes_alike(query, name))
        if by and len(known) == len(by):
            yield known


def _variables(query: RingQuery) -> Names:
    return tuple(dict.fromkeys(name for relation in query.relations for name in relation.schema))


def _holders(query: RingQuery, name: str) -> list[SqlType]:
    """The types that a variable has in the relations that have it."""
    return [each.scalar.type for relation in query.relations for each in relation.variables if each.name == name]


def _hashes_alike(query: RingQuery, name: str) -> bool:
    """Equal values name the same partition: every relation holds them as the same integers, doubles or strings."""
    held = {(type.is_float, type.kind is Kind.VARCHAR, type.scale) for type in _holders(query, name)}
    return len(held) == 1


def _asked_for(query: RingQuery, shown: Query, partition_by: Sequence[str]) -> Names:
    payload = query.payload
    listed = payload.variables if isinstance(payload, FactorisedPayload) else query.keys
    columns = [column.name for column in shown.columns]
    known = {name: listed[at] for name, at in zip(columns, query.shown, strict=True) if at is not None}
    known |= {name: name for name in _variables(query) if name not in known}
    for name in partition_by:
        if name not in known:
            hint = did_you_mean(name, known)
            raise SchemaError(f"PARTITION BY {name}: it is no column that the view joins on, groups by or lists{hint}")
    by = tuple(known[name] for name in partition_by)
    split = TreeSplit(by, query.relations)
    if not split.split() or not all(_hashes_alike(query, name) for name in by):
        raise SchemaError(
            f"PARTITION BY {', '.join(partition_by)}: no table of the view has these columns; choose columns of one"
        )
    return by
