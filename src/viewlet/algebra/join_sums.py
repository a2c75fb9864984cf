"""The sums of a query over one join, and the rest of the query over a table with a row for every group.

    Exists(Sum[a](r * s * t * ...)) * (n := Sum[](r * s * t * ...)) * {n > 2}      ->   table(a, n) * {n > 2}

Every aggregate of the query has to be a sum over the same join. The rest stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewlet.algebra.nodes import Cond, Exists, Expr, Lift, Rel, Scalar, Sum, Value, Var, factors_of, mul, sum_over
from viewlet.algebra.query import Query
from viewlet.algebra.traverse import has_relations
from viewlet.types import COUNT, Column, Table, TableKind

NAME = "triangle groups"
"""The name of the table of groups; no table of a user is called so unless its name is quoted, and then it is not read.
"""


_OTHER_AGGREGATE = "it has an aggregate that is not a sum or a count, such as MIN, MAX or COUNT(DISTINCT)"


class NotTriangleError(Exception):
    """Why a query is not one that adaptive maintenance takes."""


@dataclass(frozen=True, slots=True)
class Summed:
    """One aggregate: the variable it is bound to, and the product that is summed."""

    var: Var
    conditions: tuple[Scalar, ...]
    values: tuple[Scalar, ...]


@dataclass(slots=True)
class _Body:
    """A product with its relations, conditions and values told apart."""

    rels: tuple[Rel, ...]
    conditions: tuple[Scalar, ...] = ()
    values: tuple[Scalar, ...] = ()


@dataclass(slots=True)
class JoinSums:
    """The aggregates of a query, as they are found while the rest is rewritten."""

    rels: tuple[Rel, ...] = ()
    keys: tuple[Var, ...] = ()
    grouped: bool = False
    sums: list[Summed] = field(default_factory=list)
    _conditions: list[tuple[Scalar, ...]] = field(default_factory=list)

    def read(self, query: Query) -> Query:
        """The query over the table of groups in the place of its aggregates."""
        return Query(self._read(query.expr), query.columns, query.order, query.limit, query.offset)

    def _read(self, expr: Expr) -> Expr:
        if isinstance(expr, Sum) and any(isinstance(factor, Rel) for factor in factors_of(expr.body)):
            count = Var("triangles", COUNT)
            self._group(expr)
            self.sums.append(Summed(count, (), ()))
            return sum_over(expr.keys, mul(self._groups(), Value(count)))
        outer = expr if isinstance(expr, Sum) else None
        kept: list[Expr] = []
        for factor in factors_of(expr if outer is None else outer.body):
            match factor:
                case Exists(Sum() as groups) if has_relations(groups):
                    self._group(groups)
                case Lift(var, Sum((), body)) if has_relations(body):
                    found = self._body(body)
                    self._sum(var, found)
                case _ if has_relations(factor):
                    raise NotTriangleError(_other_part(factor))
                case _:
                    kept.append(factor)
        if not self.rels:
            raise NotTriangleError("it has no aggregate over a join")
        product = mul(self._groups(), *kept)
        return product if outer is None else sum_over(outer.keys, product)

    def _groups(self) -> Rel:
        return Rel(NAME, (*self.keys, *(summed.var for summed in self.sums)))

    def _group(self, groups: Sum) -> None:
        if self.grouped:
            raise NotTriangleError("it has several blocks with GROUP BY")
        found = self._body(groups.body)
        if found.values:
            raise NotTriangleError("its groups depend on more than the join")
        self.keys, self.grouped = groups.keys, True
        self._conditions.append(found.conditions)

    def _sum(self, var: Var, body: _Body) -> None:
        self.sums.append(Summed(var, body.conditions, body.values))
        self._conditions.append(body.conditions)

    def _body(self, body: Expr) -> _Body:
        rels, conditions, values = list[Rel](), list[Scalar](), list[Scalar]()
        for factor in factors_of(body):
            match factor:
                case Rel():
                    rels.append(factor)
                case Cond(scalar):
                    conditions.append(scalar)
                case Value(scalar):
                    values.append(scalar)
                case Lift(var, Value()):
                    raise NotTriangleError(f"{var.name!r} is computed inside the join: group by columns of the join")
                case Exists():
                    raise NotTriangleError(_OTHER_AGGREGATE)
                case _:
                    raise NotTriangleError("it joins something else than tables: an outer join or a subquery")
        if self.rels and self.rels != tuple(rels):
            raise NotTriangleError("its aggregates are over different joins")
        self.rels = tuple(rels)
        return _Body(self.rels, tuple(conditions), tuple(values))

    def table(self) -> Table:
        """The table of groups."""
        variables = (*self.keys, *(summed.var for summed in self.sums))
        return Table(NAME, tuple(Column(var.name, var.type) for var in variables), TableKind.STREAM)

    def common(self) -> tuple[Scalar, ...]:
        """The conditions of the join: those of every aggregate, and not only of one with FILTER."""
        first, *others = self._conditions
        return tuple(each for each in first if all(each in other for other in others))


def _other_part(factor: Expr) -> str:
    match factor:
        case Lift() | Exists():
            return "it has a subquery, or an aggregate that is not a sum or a count"
        case Rel():
            return "it lists rows and not sums: select the join columns alone, or aggregate"
        case _:
            return _OTHER_AGGREGATE
