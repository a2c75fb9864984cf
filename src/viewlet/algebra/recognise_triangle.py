"""Recognises queries over the triangles of three relations, and over paths of three.

    (n := Sum[](r(a, b) * s(b', c) * t(c', a') * {b = b'} * {c = c'} * {a' = a} * w))   ->   table(n)
    Exists(Sum[a](r * s * t * ...)) * (n := Sum[](r * s * t * ...)) * {n > 2}             ->   table(a, n) * {n > 2}

A path r(a, b) * s(b, c) * t(c, d) is a triangle whose ends meet at a constant: r(0, b) * s(b, c) * t(c, 0).

Every aggregate of the query has to be a sum over the same triangle. The rest of the query stays as it is, over a table
with a row for every group: the keys, then the sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.nodes import (
    Call,
    Cond,
    Const,
    Exists,
    Expr,
    Lift,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    compare,
    factors_of,
    mul,
    sum_over,
)
from viewlet.algebra.printer import show_scalar
from viewlet.algebra.query import Query
from viewlet.algebra.traverse import has_relations, substitute_scalar, variable_set
from viewlet.algebra.triangle_query import Side, TriangleQuery
from viewlet.types import COUNT, Column, Kind, Table, TableKind

NAME = "triangle groups"
"""The name of the table of groups; no table of a user is called so unless its name is quoted, and then it is not read.
"""


_OTHER_AGGREGATE = "it has an aggregate that is not a sum or a count, such as MIN, MAX or COUNT(DISTINCT)"


class NotTriangleError(Exception):
    """Why a query is not one over triangles."""


@dataclass(frozen=True, slots=True)
class _Summed:
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


def recognise_triangle(
    query: Query, epsilons: tuple[float, float, float] = (0.5, 0.5, 0.5), linear: bool = True
) -> TriangleQuery:
    """The query as one over triangles; raises `NotTriangleError` with the reason if it is not."""
    parts = _Parts()
    expr = parts.read(query.expr)
    join = _Join(parts.rels, parts.common())
    keys = tuple(join.variable(key) for key in parts.keys)
    if len(set(keys)) < len(keys):
        raise NotTriangleError("it is grouped by the same variable twice")
    numbers: list[tuple[tuple[Scalar, ...], ...]] = [((), (), ())]
    shown: list[int] = []
    for summed in parts.sums:
        number = join.number(summed, parts.common())
        if number not in numbers:
            numbers.append(number)
        shown.append(numbers.index(number))
    variables = (*parts.keys, *(summed.var for summed in parts.sums))
    columns = tuple(Column(var.name, var.type) for var in variables)
    result = Query(expr, query.columns, query.order, query.limit, query.offset)
    table = Table(NAME, columns, TableKind.STREAM)
    return TriangleQuery(join.sides(numbers), keys, parts.grouped, tuple(shown), table, result, epsilons, linear)


@dataclass(slots=True)
class _Parts:
    """The aggregates of a query, as they are found while the rest is rewritten."""

    rels: tuple[Rel, ...] = ()
    keys: tuple[Var, ...] = ()
    grouped: bool = False
    sums: list[_Summed] = field(default_factory=list)
    _conditions: list[tuple[Scalar, ...]] = field(default_factory=list)

    def read(self, expr: Expr) -> Expr:
        """The query over the table of groups in the place of its aggregates."""
        if isinstance(expr, Sum) and any(isinstance(factor, Rel) for factor in factors_of(expr.body)):
            count = Var("triangles", COUNT)
            self._group(expr)
            self.sums.append(_Summed(count, (), ()))
            return sum_over(expr.keys, mul(self._table(), Value(count)))
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
        product = mul(self._table(), *kept)
        return product if outer is None else sum_over(outer.keys, product)

    def _table(self) -> Rel:
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
        self.sums.append(_Summed(var, body.conditions, body.values))
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
                    raise NotTriangleError("it joins something else than three tables: an outer join or a subquery")
        if len(rels) != 3:
            raise NotTriangleError(_other_number(tuple(rels), conditions))
        if self.rels and self.rels != tuple(rels):
            raise NotTriangleError("its aggregates are over different joins")
        self.rels = tuple(rels)
        return _Body(self.rels, tuple(conditions), tuple(values))

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


_PAIRS = (frozenset((0, 1)), frozenset((0, 2)), frozenset((1, 2)))


def _other_number(rels: tuple[Rel, ...], conditions: Iterable[Scalar]) -> str:
    """What a join is that has more or less than three tables; the cyclic ones that are studied have names."""
    found = f"its join has {len(rels)} table{'' if len(rels) == 1 else 's'}, not three"
    if len(rels) != 4:
        return found
    equalities = _Equalities(rels)
    for condition in conditions:
        equalities.note(condition)
    shape = sorted(len(each) for each in equalities.classes)
    pairs = [frozenset(each) for each in equalities.classes]
    degrees = sorted(sum(table in pair for pair in pairs) for table in range(4))
    if shape == [2, 2, 2, 2] and len(set(pairs)) == 4 and degrees == [2, 2, 2, 2]:
        return f"{found}: a cycle of four needs other parts, by paths of two, and takes N^(2/3) for an update at best"
    if shape == [2, 2, 2] and degrees == [1, 1, 2, 2]:
        return f"{found}: a path of four needs parts of its inner tables and views over three of them"
    if shape == [3, 3, 3, 3] and len(set(pairs)) == 4:
        return f"{found}: a Loomis-Whitney join of four needs parts by pairs of columns"
    return found


class _Equalities:
    """The equalities between relations: which scalars are one variable of the join."""

    def __init__(self, rels: tuple[Rel, ...]) -> None:
        self._rels = rels
        self._found: list[dict[int, list[Scalar]]] = []

    @property
    def classes(self) -> list[dict[int, list[Scalar]]]:
        """For every variable of the join, the scalars of each relation that are equal to it."""
        return [each for each in self._found if len(each) > 1]

    def owners(self, scalar: Scalar) -> set[int]:
        """The relations that a scalar takes columns of."""
        used = variable_set(scalar)
        return {i for i, rel in enumerate(self._rels) if used & set(rel.args)}

    def note(self, condition: Scalar) -> bool:
        """Notes an equality between two relations; False if a condition is none."""
        if not isinstance(condition, Call) or condition.op != "=":
            return False
        owners = [self.owners(side) for side in condition.args]
        if any(len(each) != 1 for each in owners) or owners[0] == owners[1]:
            return False
        sides = [(next(iter(each)), side) for each, side in zip(owners, condition.args, strict=True)]
        if any(side.type.is_float for _, side in sides):
            raise NotTriangleError(f"it joins on a floating-point number ({show_scalar(condition)})")
        touched = [each for each in self._found if any(side in each.get(owner, ()) for owner, side in sides)]
        merged: dict[int, list[Scalar]] = {}
        for each in touched:
            for owner, scalars in each.items():
                merged.setdefault(owner, []).extend(scalars)
        for owner, side in sides:
            if side not in merged.setdefault(owner, []):
                merged[owner].append(side)
        self._found = [each for each in self._found if each not in touched] + [merged]
        return True


class _Join:
    """The equalities of three relations as a triangle: which scalars are its variables."""

    def __init__(self, rels: tuple[Rel, ...], conditions: Iterable[Scalar]) -> None:
        self._rels = rels
        equalities = _Equalities(rels)
        others = [condition for condition in conditions if not equalities.note(condition)]
        self._owners = equalities.owners
        self._classes = equalities.classes
        self._own = self._triangle()
        self._conditions: list[list[Scalar]] = [[], [], []]
        for relation, held in enumerate(self._own):
            for scalars in held:
                first, *equal = scalars
                self._conditions[relation] += [compare("=", first, other) for other in equal]
        for condition in others:
            relation, scalar = self._place(condition)
            self._conditions[relation].append(scalar)

    def _triangle(self) -> list[tuple[list[Scalar], list[Scalar]]]:
        """The scalars of each relation that are its two variables, in the order of the cycle."""
        between = dict(zip(map(frozenset, self._classes), self._classes, strict=True))
        if len(between) < len(self._classes) or not between.keys() <= set(_PAIRS) or len(between) < 2:
            raise NotTriangleError(self._other_shape())
        for pair in _PAIRS:  # the ends of a path meet at a constant
            between.setdefault(pair, {relation: [_ZERO] for relation in pair})
        a, b, c = between[frozenset((0, 2))], between[frozenset((0, 1))], between[frozenset((1, 2))]
        self._variables = (a, b, c)
        return [(a[0], b[0]), (b[1], c[1]), (c[2], a[2])]

    def _other_shape(self) -> str:
        """What the join is, as it is neither a triangle nor a path."""
        pairs = {frozenset(each) for each in self._classes if len(each) == 2}
        if any(len(each) == 3 for each in self._classes):
            if len(pairs) > 1:
                return "its tables share a column besides: a triangle or a path for each of its values is not built"
            return "all three tables share a column, so that other plans take constant time for an update"
        if len(self._classes) < 2:
            return "not all of its tables are joined by equalities"
        return "two of its tables share several columns: join them on one"

    def variable(self, key: Var) -> int:
        """The variable of the triangle that a column stands for."""
        for i, held in enumerate(self._variables):
            if any(key in scalars for scalars in held.values()):
                return i
        raise NotTriangleError(f"it is grouped by, or lists, {key.name!r}, which is not a column of the join condition")

    def _place(self, scalar: Scalar) -> tuple[int, Scalar]:
        """A relation that can tell what a scalar is, and the scalar over its columns: any two variables share one."""
        owners = self._owners(scalar)
        if len(owners) <= 1:
            return min(owners, default=0), scalar
        for relation in range(3):
            mapping = self._seen_from(relation)
            if variable_set(scalar) <= set(self._rels[relation].args) | mapping.keys():
                return relation, substitute_scalar(scalar, mapping)
        raise NotTriangleError(f"{show_scalar(scalar)} takes columns of several tables, and is no product")

    def _seen_from(self, relation: int) -> dict[Var, Scalar]:
        """Columns of the other relations that are equal to something of this one."""
        found: dict[Var, Scalar] = {}
        for held in self._variables:
            if relation in held:
                others = [scalar for owner, scalars in held.items() if owner != relation for scalar in scalars]
                found |= {scalar: held[relation][0] for scalar in others if isinstance(scalar, Var)}
        return found

    def number(self, summed: _Summed, common: Sequence[Scalar]) -> tuple[tuple[Scalar, ...], ...]:
        """What is summed, as factors of the three relations."""
        factors: list[list[Scalar]] = [[], [], []]
        for condition in summed.conditions:
            if condition not in common:
                relation, scalar = self._place(condition)
                factors[relation].append(_indicator(scalar))
        for value in summed.values:
            for factor in _factors(value):
                relation, scalar = self._place(factor)
                if not scalar.type.is_exact:
                    raise NotTriangleError(f"it sums {show_scalar(factor)}, a {scalar.type}: cast it to a DECIMAL")
                factors[relation].append(scalar)
        return tuple(map(tuple, factors))

    def sides(self, numbers: Sequence[tuple[tuple[Scalar, ...], ...]]) -> tuple[Side, Side, Side]:
        r, s, t = (
            Side(
                self._rels[i].name,
                self._rels[i].args,
                (self._own[i][0][0], self._own[i][1][0]),
                tuple(self._conditions[i]),
                tuple(number[i] for number in numbers),
            )
            for i in range(3)
        )
        return r, s, t


_ONE, _ZERO = Const(1, COUNT), Const(0, COUNT)


def _indicator(condition: Scalar) -> Scalar:
    """1 where a condition is true, else 0."""
    return Call("case", (condition, _ONE, _ZERO), COUNT)


def _factors(scalar: Scalar) -> list[Scalar]:
    """x * y * z as x, y, z where that is the product of their representations; so is `x * y is not null`."""
    match scalar:
        case Call("*", args, type) if type.is_exact and sum(_scale(each) for each in args) == type.scale:
            if all(each.type.is_exact for each in args):
                return [factor for each in args for factor in _factors(each)]
        case Call("case", (Call("is_not_null", (Call("*", args, _),), type), then, other), _):
            if then == _ONE and other == _ZERO:
                tests = [_indicator(Call("is_not_null", (each,), type)) for each in args if each.type.nullable]
                return [factor for test in tests for factor in _factors(test)]
        case _:
            pass
    return [scalar]


def _scale(scalar: Scalar) -> int:
    return scalar.type.scale if scalar.type.kind is Kind.DECIMAL else 0
