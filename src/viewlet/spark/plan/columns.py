"""Which columns of base tables mean the same thing, and which of them identify rows.

Columns that a query equates form a class: orders.orderkey and lineitem.orderkey. A class that holds the primary key of
a table identifies its rows, and so it is a good thing to partition by; the more rows, the better it spreads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Call, Cond, Delta, Expr, Rel, Var
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.types import Table

Column = tuple[str, int]


@dataclass(slots=True)
class ColumnClasses:
    """The columns of a program's tables, joined where the program equates them."""

    tables: Mapping[str, Table]
    _parent: dict[Column, Column] = field(default_factory=dict)

    def class_of(self, column: Column) -> Column:
        """One column that stands for all of its class."""
        while (parent := self._parent.get(column, column)) != column:
            column = parent
        return column

    def unite(self, columns: Iterable[Column]) -> None:
        roots = sorted({self.class_of(column) for column in columns})
        for root in roots[1:]:
            self._parent[root] = roots[0]

    def members(self, root: Column) -> Iterator[Column]:
        for table in self.tables.values():
            for i in range(len(table.columns)):
                if self.class_of((table.name, i)) == root:
                    yield table.name, i

    def identified(self, root: Column) -> list[str]:
        """Tables whose primary key is this one column."""
        return [name for name, i in self.members(root) if self.tables[name].primary_key == (self._name((name, i)),)]

    def partly_identified(self, root: Column) -> list[str]:
        """Tables whose primary key has this column among others."""
        return [name for name, i in self.members(root) if self._name((name, i)) in self.tables[name].primary_key]

    def is_joined(self, root: Column) -> bool:
        """Columns of several tables are equated by it."""
        return len({name for name, _ in self.members(root)}) > 1

    def _name(self, column: Column) -> str:
        return self.tables[column[0]].columns[column[1]].name


def column_classes(program: Program, tables: Mapping[str, Table]) -> ColumnClasses:
    classes = ColumnClasses(tables)
    definitions = [f.definition for view in program.views for f in view.fields]
    for expr in (*definitions, program.query.expr):
        for columns in origins(expr).values():
            classes.unite(columns)
    return classes


def origins(expr: Expr) -> dict[Var, set[Column]]:
    """The columns that each variable stands for, directly or through an equality."""
    found: dict[Var, set[Column]] = {}
    for node in walk(expr):
        if isinstance(node, Rel | Delta):
            for i, arg in enumerate(node.args):
                found.setdefault(arg, set()).add((node.name, i))
    for node in walk(expr):
        match node:
            case Cond(Call("=", (Var() as left, Var() as right), _)) if left in found and right in found:
                found[left] = found[right] = found[left] | found[right]
            case _:
                pass
    return found


def key_columns(view: ViewDefinition) -> dict[Var, set[Column]]:
    """The columns that a view's keys come from; none for what is computed."""
    found: dict[Var, set[Column]] = {key: set() for key in view.keys}
    for each in view.fields:
        for var, columns in origins(each.definition).items():
            if var in found:
                found[var] |= columns
    return found
