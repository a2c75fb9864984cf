"""Large operands that are written several times become layers: queries of their own, read by the rest like tables.

    Sum[..](a(..) * ..) * {..} * ..   ->   joined(x, y) * {..} * ..        joined(x, y) = Sum[x, y](a(..) * ..)

Outer joins and set operations write their operands several times, common table expressions may be used several times,
and an aggregate writes what it aggregates once for its groups and once for each of its numbers. Only the columns that
something reads are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod

from viewlet.algebra.delta import delta
from viewlet.algebra.layered_query import Layer, LayeredQuery
from viewlet.algebra.nodes import Add, Exists, Expr, Extremum, Lift, Mul, Neg, Rel, Sum, Var, factors_of, mul, sum_over
from viewlet.algebra.query import OutputColumn, Query
from viewlet.algebra.scope import close_scopes, inputs, outputs
from viewlet.algebra.simplify import simplify
from viewlet.algebra.traverse import (
    Names,
    all_variables,
    children,
    has_relations,
    mentioned,
    rebuild,
    relations,
    size,
    walk,
)
from viewlet.sql.prune import prune
from viewlet.sql.scope import Relation
from viewlet.types import Column, Table, TableKind


@dataclass(frozen=True, slots=True)
class Extent:
    """How large an expression is: the products that its unions multiply out to, and its nodes."""

    terms: float
    nodes: float

    def exceeds(self, other: Extent) -> bool:
        return self.terms > other.terms or self.nodes > other.nodes


UNLIMITED = Extent(inf, inf)
LARGE_OPERAND = Extent(6, 300)
"""Three tables joined by FULL OUTER JOIN, or three LEFT JOINs, are too large to be written several times."""
SMALL_OPERAND = Extent(2, 25)
"""What is left in its place in a query with layers: one LEFT JOIN, or an aggregate."""

MANY_TERMS = 8
"""Two FULL OUTER JOINs of small operands beside each other are nine products."""
SIMPLE_OPERAND = Extent(1, 25)
"""What is left in its place where the products would be too many: no outer join."""


LARGE_AGGREGATE = 1000
"""Nodes of a derived table that is not aggregated in one piece: about five levels of aggregates."""
DEEP_SUBQUERY = 3
"""Levels of aggregates in a subquery from which it is not compared with in one piece."""

MANY_NODES = 250
"""A query with common table expressions that are used several times is cut at them if it is larger."""


LARGE_CHANGES = 20_000
"""Nodes of the changes of a query with all tables beyond which it is cut: eleven LEFT JOINs in a chain have 14,000.

Aggregates that are compared with each other, and outer joins beside them, repeat each other before and after a change.
"""
GROWTH = 4
"""How many times as large the changes of a query may be once it is simplified, which multiplies unions out."""


class LargeOperandError(Exception):
    """An operand is too large for a query in one piece."""


class LargeAggregateError(LargeOperandError):
    """A derived table that aggregates is too large to be aggregated again."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand that is to be a layer: what its atoms are called, the columns they bind, and its factors."""

    name: str
    columns: tuple[Var, ...]
    product: Expr


@dataclass(slots=True)
class Operands:
    """What becomes of the operands that are written several times.

    Those that exceed `largest` are made layers, if the query may have any (`layered`), and are refused otherwise.
    """

    largest: Extent = UNLIMITED
    layered: bool = False
    aggregates: bool = False
    """Derived tables that aggregate are operands too."""
    found: list[Operand] = field(default_factory=list)
    """The layers, each after those that it reads."""
    common: dict[int, Relation] = field(default_factory=dict)
    """The common table expressions that are layers, by the identity of their syntax tree."""
    repeats: bool = False
    """A common table expression that could be a layer was written several times."""

    def note_repeated(self, product: Expr) -> None:
        """Notes that an operand is written several times, which makes a difference unless it is small."""
        self.repeats = self.repeats or _extent(product).exceeds(SMALL_OPERAND)

    def takes_aggregate(self, product: Expr) -> bool:
        """Whether a derived table may become a layer because of its aggregates, which a query around it would repeat.

        Each level of aggregates of aggregates has at least twice the size of the one below.
        """
        if not any(isinstance(factor, Exists | Lift) for factor in factors_of(product)):
            return False
        return self._takes(size(product) > LARGE_AGGREGATE)

    def takes_subquery(self, product: Expr) -> bool:
        """Whether a subquery may become a layer because of the aggregates in it.

        The count of the rows that it is compared with is one more level. The change of an aggregate holds what it
        aggregates before and after, so that each level doubles the changes of those in it.
        """
        return self._takes(_levels(product) >= DEEP_SUBQUERY and not inputs(product))

    def _takes(self, is_large: bool) -> bool:
        if is_large and not self.aggregates and self.largest != UNLIMITED:
            raise LargeAggregateError
        return self.aggregates

    def shared(self, factors: tuple[Expr, ...], columns: tuple[Var, ...], name: str) -> tuple[Expr, ...]:
        """The factors of an operand with these columns, or the atom of a layer called `name` in their place."""
        product = mul(*factors)
        if not _extent(product).exceeds(self.largest):
            return factors
        if not self.layered:
            raise LargeOperandError
        if inputs(product) or not columns:  # the rows are others for every row of the query around
            return factors
        self.found.append(Operand(name, columns, product))
        return (Rel(name, columns),)


def multiplies_out(query: Query) -> bool:
    """Unions of a query, or of an aggregate in it, multiply out to so many products that it is better cut."""
    return any(_terms(node) > MANY_TERMS for node in walk(query.expr) if isinstance(node, Mul))


def has_large_changes(query: Query) -> bool:
    """What a change of each table does to the query is so much that it is better cut."""
    whole = close_scopes(query.expr)
    if _changes(whole) * GROWTH <= LARGE_CHANGES:
        return False
    return _changes(simplify(whole, Names(var.name for var in all_variables(whole)))) > LARGE_CHANGES


def _changes(expr: Expr) -> int:
    """The nodes of the changes of an expression with all its tables, as they are before they are simplified."""
    return sum(size(delta(expr, table)) for table in relations(expr))


def is_small(expr: Expr) -> bool:
    """An operand may be left in its place in a query with layers."""
    return not _extent(expr).exceeds(SMALL_OPERAND)


def _extent(expr: Expr) -> Extent:
    return Extent(_terms(expr), size(expr))


def _terms(expr: Expr) -> int:
    """How many products the unions of an expression multiply out to, nested aggregates left alone."""
    match expr:
        case Add(terms):
            return sum(map(_terms, terms))
        case Mul(factors):
            return prod(map(_terms, factors))
        case Neg(body) | Sum(_, body):
            return _terms(body)
        case _:
            return 1


def _levels(expr: Expr) -> int:
    """How deep aggregates over tables are nested in each other."""
    below = max(map(_levels, children(expr)), default=0)
    return below + (isinstance(expr, Lift | Exists | Extremum) and (below > 0 or has_relations(expr)))


def in_layers(result: Query, operands: Sequence[Operand]) -> LayeredQuery:
    """The query over layers with the columns that are read, by the query or by other layers."""
    layers: list[Layer] = []
    for operand in reversed(operands):
        positions = _positions_read(operand, [result, *(layer.query for layer in layers)])
        result = _narrowed(result, operand.name, positions)
        layers = [replace(each, query=_narrowed(each.query, operand.name, positions)) for each in layers]
        layers.insert(0, _layer(operand, tuple(operand.columns[position] for position in positions)))
    return LayeredQuery(tuple(layers), result)


def _layer(operand: Operand, columns: tuple[Var, ...]) -> Layer:
    """A layer of some columns of an operand."""
    table = Table(operand.name, tuple(Column(var.name, var.type) for var in columns), TableKind.STREAM)
    whole = operand.product
    expr = whole if outputs(whole) == frozenset(columns) else sum_over(columns, whole)
    return Layer(table, Query(prune(expr), tuple(OutputColumn(var.name, var) for var in columns)))


def _positions_read(operand: Operand, readers: Iterable[Query]) -> list[int]:
    """The columns of a layer that some reader mentions elsewhere; at least one, because tables have columns."""
    found: set[int] = set()
    for query in readers:
        atoms = {node for node in walk(query.expr) if isinstance(node, Rel) and node.name == operand.name}
        others = [node for node in walk(query.expr) if node not in atoms]
        read = {*query.output, *(var for node in others for var in mentioned(node))}
        for atom in atoms:
            twice = read.union(*(other.args for other in atoms if other != atom))
            found.update(position for position, var in enumerate(atom.args) if var in twice)
    return sorted(found) or [0]


def _narrowed(query: Query, name: str, positions: Sequence[int]) -> Query:
    """The query with these arguments of the atoms of a layer only."""

    def narrowed(expr: Expr) -> Expr:
        if isinstance(expr, Rel) and expr.name == name:
            return Rel(name, tuple(expr.args[position] for position in positions))
        return rebuild(expr, narrowed)

    return replace(query, expr=narrowed(query.expr))
