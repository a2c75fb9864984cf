"""The hypergraph of a join: which scalars of which relations are equal, and the filters of single relations.

    R(a, b) * S(c, d) * {a = c} * {b > 3}     R and S share the variable a = c; R has the condition b > 3

Equal scalars are one variable of the join. Conditions that say anything else about several relations have no place in a
view tree and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Call, Cond, Const, Expr, Rel, Scalar, Var, compare
from viewlet.algebra.printer import show_scalar
from viewlet.algebra.ring_query import JoinedRelation, Variable
from viewlet.algebra.traverse import variable_set
from viewlet.sql.scope import Field
from viewlet.sql.source import Source
from viewlet.types import BIGINT

_DERIVED = "declare it as a view of its own and join that, or write it as a plain SELECT"


@dataclass(slots=True)
class _Column:
    """A variable of the join: the scalars it stands for, by relation; the first one's name is its own.

    A shown one is named in the result, so it has the first right to its name.
    """

    scalars: dict[int, Scalar]
    required: bool
    name: str = ""
    shown: bool = False
    request: Scalar | None = None


@dataclass(slots=True)
class JoinGraph:
    """Relations with what is known to be equal in them; `variable` gives out variables, `relations` the result."""

    source: Source
    fields: tuple[Field, ...]
    rels: list[Rel] = field(default_factory=list)
    conditions: list[tuple[int, Scalar]] = field(default_factory=list)
    _equal: list[list[tuple[int, Scalar]]] = field(default_factory=list)
    _columns: list[_Column] = field(default_factory=list)

    def add_product(self, factors: Iterable[Expr]) -> None:
        """Takes in the relations and conditions of FROM and WHERE."""
        factors = tuple(factors)
        for factor in factors:
            if isinstance(factor, Rel):
                self.rels.append(factor)
            elif not isinstance(factor, Cond):
                raise self.source.unsupported(
                    "an outer join, a subquery or an aggregate under a view tree", None, _DERIVED
                )
        for factor in factors:
            if isinstance(factor, Cond):
                self._add_condition(factor.scalar)

    def _add_condition(self, condition: Scalar) -> None:
        owners = self.owners(condition)
        if len(owners) <= 1:
            self.conditions.append((min(owners, default=0), condition))
            return
        if isinstance(condition, Call) and condition.op == "=":
            left, right = condition.args
            if len(self.owners(left)) == len(self.owners(right)) == 1:
                self._equate(left, right)
                return
        hint = (
            "relations of a view tree are joined by equalities; a condition may otherwise use the columns of one table"
        )
        raise self.source.unsupported(f"the condition {show_scalar(condition)}", None, hint)

    def _equate(self, left: Scalar, right: Scalar) -> None:
        sides = [(self.owner(side), side) for side in (left, right)]
        touched = [group for group in self._equal if any(side in group for side in sides)]
        merged = list(dict.fromkeys([*(member for group in touched for member in group), *sides]))
        self._equal = [group for group in self._equal if group not in touched] + [merged]

    def owners(self, scalar: Scalar) -> set[int]:
        """The relations whose columns a scalar is made of."""
        used = variable_set(scalar)
        return {i for i, rel in enumerate(self.rels) if used & set(rel.args)}

    def owner(self, scalar: Scalar) -> int:
        (only,) = self.owners(scalar)
        return only

    # -- variables --------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """A variable for everything that is equal in several relations."""
        for group in self._equal:
            scalars: dict[int, Scalar] = {}
            for owner, scalar in group:
                if owner in scalars:
                    self.conditions.append((owner, compare("=", scalars[owner], scalar)))
                else:
                    scalars[owner] = scalar
            self._columns.append(_Column(scalars, required=True))

    def shared(self, scalar: Scalar) -> int | None:
        """The variable that stands for a scalar and may be asked for again."""
        for i, column in enumerate(self._columns):
            if scalar in column.scalars.values() or any(
                (self.owner_or_first(scalar), scalar) in g for g in self._group(column)
            ):
                return i
        return None

    def _group(self, column: _Column) -> list[list[tuple[int, Scalar]]]:
        first = next(iter(column.scalars.items()))
        return [group for group in self._equal if first in group]

    def owner_or_first(self, scalar: Scalar) -> int:
        return min(self.owners(scalar), default=0)

    def new(self, scalar: Scalar, name: str, required: bool) -> int:
        """A variable of one relation."""
        self._columns.append(_Column({self.owner_or_first(scalar): scalar}, required, name))
        return len(self._columns) - 1

    def show(self, variable: int) -> None:
        """The variable is part of the result by its name, and rows where it is NULL are left out."""
        self._columns[variable].required = self._columns[variable].shown = True

    def ask(self, variable: int, scalar: Scalar) -> None:
        """The variable is to be called by the column that a user has written for it, the first time."""
        self._columns[variable].request = self._columns[variable].request or scalar

    # -- the result -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """A name for every variable: that of its column, with the table's where several have it."""
        plain = [column.name or self._column_name(column)[1] for column in self._columns]
        shown = [name for name, column in zip(plain, self._columns, strict=True) if column.shown]
        full = [
            name if (shown if column.shown else plain).count(name) == 1 else f"{self._column_name(column)[0]}.{name}"
            for name, column in zip(plain, self._columns, strict=True)
        ]
        return [name if full.count(name) == 1 else f"{name}#{full[:i].count(name) + 1}" for i, name in enumerate(full)]

    def _column_name(self, column: _Column) -> tuple[str, str]:
        for scalar in (column.request, *column.scalars.values()):
            for known in self.fields:
                if known.scalar == scalar:
                    return known.table or "", known.name
        owner, scalar = next(iter(column.scalars.items()))
        return self._table_name(owner), show_scalar(scalar)

    def _table_name(self, relation: int) -> str:
        own = set(self.rels[relation].args)
        aliases = [f.table for f in self.fields if f.table and isinstance(f.scalar, Var) and f.scalar in own]
        return aliases[0] if aliases else self.rels[relation].name

    def relations(self) -> tuple[JoinedRelation, ...]:
        """The relations with their variables; one that has none counts rows by a constant."""
        names, found = self.names(), list[JoinedRelation]()
        tables = [self._table_name(i) for i in range(len(self.rels))]
        for i, rel in enumerate(self.rels):
            variables = tuple(
                Variable(name, column.scalars[i], column.required and column.scalars[i].type.nullable)
                for name, column in zip(names, self._columns, strict=True)
                if i in column.scalars
            )
            name = tables[i] if tables.count(tables[i]) == 1 else f"{tables[i]}#{tables[:i].count(tables[i]) + 1}"
            counted = (Variable(f"{name} rows", Const(1, BIGINT.with_nullable(False))),)
            conditions = tuple(condition for owner, condition in self.conditions if owner == i)
            found.append(JoinedRelation(name, rel.name, rel.args, variables or counted, conditions))
        return tuple(found)
