"""Recognises queries over the triangles of three relations, and over all other joins of three.

    (n := Sum[](r(a, b) * s(b', c) * t(c', a') * {b = b'} * {c = c'} * {a' = a} * w))   ->   table(n)
    Exists(Sum[a](r * s * t * ...)) * (n := Sum[](r * s * t * ...)) * {n > 2}             ->   table(a, n) * {n > 2}

A path r(a, b) * s(b, c) * t(c, d) is a triangle whose ends meet at a constant: r(0, b) * s(b, c) * t(c, 0). Columns
that two tables share are one variable, and those that all three share are part of every variable (`TriangleQuery`).

Every aggregate of the query has to be a sum over the same triangle. The rest of the query stays as it is, over a table
with a row for every group: the keys, then the sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

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
from viewlet.algebra.triangle_query import SHARED, Side, TriangleQuery, packed
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
    keys, places = join.keys(parts.keys)
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
    return TriangleQuery(
        *(join.sides(numbers), keys, parts.grouped, tuple(shown), table, result, epsilons, linear),
        places=places,
        shared=len(join.common),
    )


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


_PAIRS = ({0, 2}, {0, 1}, {1, 2})
"""The relations that have each variable, besides what all three share."""
_Column = dict[int, list[Scalar]]


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
        classes = equalities.classes
        self.common = [each for each in classes if len(each) == 3]
        """The columns that all three tables share, as the scalars of each relation that are equal to one."""
        self._own = [[each for each in classes if each.keys() == pair] for pair in _PAIRS]
        """The other columns of every variable."""
        self._conditions: list[list[Scalar]] = [[], [], []]
        for relation, conditions_of in enumerate(self._conditions):
            for column in [*self._own[relation], *self._own[(relation + 1) % 3], *self.common]:
                first, *equal = column[relation]
                conditions_of += [compare("=", first, other) for other in equal]
        for condition in others:
            relation, scalar = self._place(condition)
            self._conditions[relation].append(scalar)

    def keys(self, columns: Sequence[Var]) -> tuple[tuple[int, ...], tuple[tuple[int, int | None], ...]]:
        """The variables that groups are told apart by, and which columns of these the given ones are, in their order.

        A column of a variable that has several is a key only together with the others, or with all that are shared.
        """
        found = [self._column(key) for key in columns]
        if len({id(column) for column in found}) < len(found):
            raise NotTriangleError("it is grouped by the same variable twice")
        keys: list[int] = []
        for column in found:
            keys += [i for i in range(3) if column in self._own[i] and i not in keys]
        if found and not keys:  # all tables have these: a variable that is nothing else, or what all variables share
            keys = [next((i for i in range(3) if not self._own[i]), SHARED)]
        for column in [column for key in keys for column in self._columns(key)]:
            if column not in found:
                name = show_scalar(next(iter(column.values()))[0])
                raise NotTriangleError(f"it is grouped by some columns of a vertex, but not by its column {name!r}")
        places = tuple(self._place_of(column, keys) for column in found)
        return tuple(keys), () if places == tuple((at, None) for at in range(len(keys))) else places

    def _columns(self, key: int) -> list[_Column]:
        """The columns of a variable, or of what all of them share."""
        return self.common if key == SHARED else self._own[key] + self.common

    def _column(self, key: Var) -> _Column:
        """The column of the join that a column of a table is equal to."""
        for column in [*chain(*self._own), *self.common]:
            if any(key in scalars for scalars in column.values()):
                return column
        raise NotTriangleError(f"it is grouped by, or lists, {key.name!r}, which is not a column of the join condition")

    def _place_of(self, column: _Column, keys: Sequence[int]) -> tuple[int, int | None]:
        """The key that has a column, and its place in it if there are several."""
        at = next(at for at, key in enumerate(keys) if column in self._columns(key))
        columns = self._columns(keys[at])
        return at, None if len(columns) == 1 else columns.index(column)

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
        for held in [*chain(*self._own), *self.common]:
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
                (self._variable(i, i), self._variable((i + 1) % 3, i)),
                tuple(self._conditions[i]),
                tuple(number[i] for number in numbers),
            )
            for i in range(3)
        )
        return r, s, t

    def _variable(self, variable: int, relation: int) -> Scalar:
        """A variable as one of the relations has it."""
        return packed(tuple(column[relation][0] for column in self._columns(variable)))


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
