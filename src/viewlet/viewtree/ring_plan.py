"""Plans of queries over rings: a view tree, and how rows of tables become rows of its relations.

The variable order is the user's, or the best that `order_search` finds for the sizes of the tables. Each occurrence of
a table is a separate relation, with its own conditions and only the variables in use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import Call, Var
from viewlet.algebra.ring_query import CofactorPayload, FactorisedPayload, JoinedRelation, RingQuery
from viewlet.algebra.traverse import scalar_variables
from viewlet.changes.product_change import Factor, factor_rows
from viewlet.rings.ring import Ring
from viewlet.triggers.hypergraph import components
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.types import Kind, SqlType
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.indicator import with_indicators
from viewlet.viewtree.order import VariableOrder
from viewlet.viewtree.order_search import find_order
from viewlet.viewtree.order_text import read_order
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_relation import Row
from viewlet.viewtree.ring_tree import ViewTree, build_tree, describe


@dataclass(frozen=True)
class Projection:
    """How the rows of a table become those of one relation of the join."""

    relation: JoinedRelation

    def counted(self, rows: Iterable[tuple[Row, int]]) -> dict[Row, int]:
        """Rows of the relation with their multiplicities, from those of the table; zeros are left out."""
        found: dict[Row, int] = {}
        project = self.project
        for row, multiplicity in rows:
            projected = project(row)
            if projected is not None:
                found[projected] = found.get(projected, 0) + multiplicity
        return {row: multiplicity for row, multiplicity in found.items() if multiplicity}

    @cached_property
    def project(self) -> Callable[[Row], Row | None]:
        """The row of the relation for a row of the table, None where a condition or a NULL leaves it out."""
        names = [column.name for column in self.relation.columns]
        conditions = [compile_scalar(condition) for condition in self.relation.conditions]
        scalars = [compile_scalar(variable.scalar) for variable in self.relation.variables]
        required = [i for i, variable in enumerate(self.relation.variables) if variable.required]

        def project(row: Row) -> Row | None:
            environment = dict(zip(names, row, strict=True))
            for holds in conditions:
                if holds(environment) is not True:
                    return None
            values = tuple(scalar(environment) for scalar in scalars)
            return None if any(values[i] is None for i in required) else values

        return project

    @cached_property
    def taken(self) -> tuple[tuple[int, SqlType], ...] | None:
        """Where each variable stands in a row of the table, and its type there; None if that is not all there is to it.

        A decimal whose number is wanted as a double is also taken from its place.
        """
        place = {column: i for i, column in enumerate(self.relation.columns)}
        found: list[tuple[int, SqlType]] = []
        for variable in self.relation.variables:
            scalar = variable.scalar
            if isinstance(scalar, Call) and scalar.op == "cast" and scalar.type.kind is Kind.DOUBLE:
                (scalar,) = scalar.args
                if scalar.type.kind is not Kind.DECIMAL:
                    return None
            if not isinstance(scalar, Var):
                return None
            found.append((place[scalar], scalar.type))
        return None if self.relation.conditions else tuple(found)

    @cached_property
    def read(self) -> frozenset[int]:
        """The columns of the table that variables and conditions are computed from, by their positions."""
        place = {column.name: i for i, column in enumerate(self.relation.columns)}
        scalars = (*(variable.scalar for variable in self.relation.variables), *self.relation.conditions)
        return frozenset(place[var.name] for scalar in scalars for var in scalar_variables(scalar))

    def products(self, factors: Sequence[Factor]) -> list[tuple[tuple[str, ...], dict[Row, int]]] | None:
        """A product of the table as one of the relation, None if it is empty.

        Factors stay apart unless a variable or a condition needs columns of several.
        """
        relation = self.relation
        position = {column.name: i for i, column in enumerate(relation.columns)}
        needs = [
            {position[var.name] for var in scalar_variables(scalar)}
            for scalar in (*(variable.scalar for variable in relation.variables), *relation.conditions)
        ]
        edges = [frozenset(factor.positions) for factor in factors] + [frozenset(need) for need in needs]
        found: list[tuple[tuple[str, ...], dict[Row, int]]] = []
        times = 1
        for group in components(edges):
            own = [factors[i] for i in group if i < len(factors)]
            used = {i - len(factors) for i in group if i >= len(factors)}
            schema, rows = self._part(own, used)
            if not rows:
                return None
            if schema:
                found.append((schema, rows))
            else:
                times *= rows[()]
        first, entries = found[0]
        found[0] = (first, {row: times * weight for row, weight in entries.items()})
        return found

    def _part(self, factors: Sequence[Factor], used: set[int]) -> tuple[tuple[str, ...], dict[Row, int]]:
        """The variables and conditions that need some factors, over the rows of these."""
        relation = self.relation
        variables = tuple(variable for i, variable in enumerate(relation.variables) if i in used)
        conditions = tuple(
            condition for i, condition in enumerate(relation.conditions) if i + len(relation.variables) in used
        )
        positions, rows = factor_rows(factors)
        columns = tuple(relation.columns[i] for i in positions)
        part = Projection(JoinedRelation(relation.name, relation.table, columns, variables, conditions))
        return tuple(variable.name for variable in variables), part.counted(rows)


@dataclass(frozen=True)
class RingPlan:
    """A query over a ring with the view tree that keeps it."""

    query: RingQuery
    tree: ViewTree
    updatable: frozenset[str]
    """The relations that may change."""
    chosen: str
    """Where the variable order comes from."""
    strategy = "view-tree"

    @cached_property
    def projections(self) -> Mapping[str, tuple[Projection, ...]]:
        """The relations that each table stands for."""
        found: dict[str, list[Projection]] = {}
        for relation in self.query.relations:
            found.setdefault(relation.table, []).append(Projection(relation))
        return {table: tuple(projections) for table, projections in found.items()}

    def columns_read(self, table: str) -> frozenset[int]:
        """The positions of the columns of a table that matter to the tree."""
        return frozenset(i for projection in self.projections[table] for i in projection.read)

    @cached_property
    def ring(self) -> Ring[Any]:
        """The ring of the payloads; not that of a factorised result, which brings its own."""
        payload = self.query.payload
        assert isinstance(payload, CofactorPayload)
        from viewlet.rings.cofactor import CofactorRing

        categorical = tuple(category.name for category in payload.categorical)
        return CofactorRing(payload.continuous, categorical, payload.degree, payload.exact)

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The nodes of the tree that are stored, parents first."""
        payload = self.query.payload
        if isinstance(payload, FactorisedPayload):
            return FactorisedResult(self.tree, payload.variables, self.updatable).maintained.stored
        return MaintainedTree(self.tree, self.ring, updatable=self.updatable).stored

    def key_places(self) -> tuple[int, ...]:
        """Where the keys of the query stand in those of the root."""
        return tuple(self.tree.root.keys.index(key) for key in self.query.keys)

    @property
    def digest(self) -> str:
        """Plans with the same text keep the same views."""
        return f"{describe(self.tree)}\n{sorted(self.updatable)}\n{self.query!r}"


def plan_ring(query: RingQuery, statistics: Statistics = UNKNOWN, static: Collection[str] = ()) -> RingPlan:
    """The view tree of a query, chosen by the sizes of its tables where they are known; `static` ones never change."""
    updatable = frozenset(relation.name for relation in query.relations if relation.table not in static)
    order, chosen = _order(query, statistics, updatable)
    if isinstance(query.payload, FactorisedPayload):
        return RingPlan(query, build_tree(order), updatable, chosen)
    return RingPlan(query, with_indicators(build_tree(order, query.keys)), updatable, chosen)


def _order(query: RingQuery, statistics: Statistics, updatable: frozenset[str]) -> tuple[VariableOrder, str]:
    schemas = query.schemas
    if query.order is not None:
        return read_order(query.order, schemas), "given"
    free = query.keys
    if isinstance(query.payload, FactorisedPayload):
        everything = {name for schema in schemas.values() for name in schema}
        free = () if everything <= {*query.payload.variables} else query.payload.variables
    sizes = {r.name: statistics.sizes[r.table].rows for r in query.relations if r.table in statistics.sizes}
    indicators = not isinstance(query.payload, FactorisedPayload)
    order = find_order(schemas, free, updatable=updatable, rows=sizes, indicators=indicators)
    known = f"for {', '.join(f'{name} of {rows:,.0f} rows' for name, rows in sizes.items())}" if sizes else ""
    return order, f"found {known}".strip()
