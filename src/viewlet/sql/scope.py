"""Names in force: the columns of a block's FROM items, those of the blocks around it, and common table expressions.

A name resolves to a scalar: a variable for a column of a table, any expression for a column of a derived table. A
correlated subquery simply finds a variable of an outer block.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewlet.algebra.nodes import Const, Expr, Scalar, Var
from viewlet.sql.source import Source, name_of, sql_of


@dataclass(frozen=True, slots=True)
class Field:
    """A column visible in a block. A hidden one (merged by USING) is reached only with its table's name."""

    table: str | None
    name: str
    scalar: Scalar
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """An operand of outer joins that preserve it: factors, and the columns they bind.

    Each of its rows is in some row of the join; a row of the join has one of its rows, or NULL in all its columns.
    """

    factors: tuple[Expr, ...]
    columns: frozenset[Var]


@dataclass(frozen=True, slots=True)
class Item:
    """A FROM item: factors of the block's product, the columns they bind, and the operands that it preserves."""

    factors: tuple[Expr, ...] = ()
    fields: tuple[Field, ...] = ()
    preserved: tuple[Part, ...] = ()

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(f.table for f in self.fields if f.table is not None)


@dataclass(frozen=True, slots=True)
class OutputField:
    name: str
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Relation:
    """A translated query: the bag its factors denote, seen through its columns.

    `single` says that there is exactly one row, whatever the data.
    """

    factors: tuple[Expr, ...]
    columns: tuple[OutputField, ...]
    single: bool = False

    def named(self, names: Sequence[str]) -> Relation:
        """The same columns under the names of an alias list; a shorter list names the first ones."""
        renamed = [OutputField(name, column.scalar) for name, column in zip(names, self.columns, strict=False)]
        return replace(self, columns=(*renamed, *self.columns[len(names) :]))


@dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression in the scope of its definition, and how often its name is written."""

    query: exp.Expr
    columns: tuple[str, ...]
    scope: Scope
    uses: int


@dataclass(frozen=True, slots=True)
class Scope:
    fields: tuple[Field, ...] = ()
    parent: Scope | None = None
    ctes: Mapping[str, Cte] = field(default_factory=dict)

    def cte(self, name: str) -> Cte | None:
        if name in self.ctes:
            return self.ctes[name]
        return self.parent.cte(name) if self.parent else None

    def resolve(self, column: exp.Column, source: Source) -> Scalar | None:
        """The scalar a column name stands for here or in a block around, or None."""
        found = self.own(column, source)
        if found is not None or self.parent is None:
            return found
        return self.parent.resolve(column, source)

    def own(self, column: exp.Column, source: Source) -> Scalar | None:
        """The scalar of a column of this block itself."""
        name = name_of(column.this)
        table = name_of(column.args["table"]) if column.args.get("table") else None
        if table is None:
            found = [f for f in self.fields if f.name == name and not f.hidden]
        else:
            found = [f for f in self.fields if f.name == name and f.table == table]
        if len(found) > 1:
            owners = ", ".join(f"{f.table}.{name}" for f in found if f.table)
            raise source.error(f"column '{name}' is ambiguous" + (f": {owners}" if owners else ""), column)
        return found[0].scalar if found else None

    def tables(self) -> set[str]:
        outer = self.parent.tables() if self.parent else set()
        return outer | {f.table for f in self.fields if f.table is not None}

    def names(self) -> set[str]:
        outer = self.parent.names() if self.parent else set()
        return outer | {f.name for f in self.fields}


@dataclass(frozen=True, slots=True)
class GroupScope(Scope):
    """The block after grouping: its own columns are visible only where they are keys."""

    keys: Mapping[Scalar, Var] = field(default_factory=dict)

    def own(self, column: exp.Column, source: Source) -> Scalar | None:
        scalar = Scope.own(self, column, source)
        if scalar is None or isinstance(scalar, Const):
            return scalar
        if scalar not in self.keys:
            name = sql_of(column)
            raise source.error(f"column '{name}' must appear in GROUP BY or inside an aggregate", column)
        return self.keys[scalar]


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """A message about a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"{kind} '{name}' does not exist" + (f"; did you mean '{near[0]}'?" if near else "")


def named_query(table: exp.Table) -> exp.CTE | None:
    """The query of a WITH clause that a name stands for: one of the query around it, or before it in its own clause."""
    inside: exp.Expr = table
    node = table.parent
    while node is not None:
        clause = node.args.get("with_")
        if isinstance(node, exp.With):
            visible = node.expressions if node.recursive else node.expressions[: node.expressions.index(inside)]
        elif clause is not None and clause is not inside:
            visible = clause.expressions
        else:
            visible = []
        for each in reversed(visible):
            if each.alias.lower() == table.name.lower():
                return each if isinstance(each, exp.CTE) else None
        inside, node = node, node.parent
    return None
