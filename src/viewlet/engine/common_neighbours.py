"""The question of a handle for the common neighbours of an edge: which relation of a triangle it asks about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.algebra.triangle_query import TriangleQuery
from viewlet.errors import SchemaError, UnsupportedError
from viewlet.types import Datum


@dataclass(frozen=True, slots=True)
class PairQuery:
    """A tuple of relation i, which has the variables i and i + 1; the third variable is asked for."""

    relation: int
    first: Datum
    second: Datum

    @property
    def third(self) -> int:
        return (self.relation + 2) % 3


def asked_tuple(query: TriangleQuery, ends: Mapping[str, Datum]) -> PairQuery:
    """The tuple that two columns of a view name, which lists all three vertices."""
    if len(query.keys) < 3 or query.places:
        hint = "declare a view that lists the three vertices, SELECT x.a, y.a, z.a FROM ..., or groups by them"
        raise UnsupportedError("common neighbours in a view that does not tell all vertices", hint, "engine")
    vertices = dict(zip((column.name for column in query.table.columns), query.keys, strict=False))
    named = {column.name: vertices[column.var.name] for column in query.result.columns if column.var.name in vertices}
    given = {named[name]: value for name, value in ends.items() if name in named}
    if len(given) != 2 or len(ends) != 2:
        raise SchemaError(f"common_neighbours() takes two of the vertices {', '.join(map(repr, named))}, by name")
    relation = next(i for i in range(3) if {i, (i + 1) % 3} == given.keys())
    return PairQuery(relation, given[relation], given[(relation + 1) % 3])
