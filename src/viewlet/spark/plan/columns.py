"""Which columns of base tables mean the same thing, and which of them identify rows.

Columns that a query equates form a class: orders.orderkey and lineitem.orderkey. A class that holds the primary key of
a table identifies its rows, and so it is a good thing to partition by; the more rows, the better it spreads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Call, Cond, Delta, Expr, Rel, Var, factors_of
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.types import Table

Column = tuple[str, int]


@dataclass(slots=True)
class ColumnClasses:
    """The columns of a program's tables, joined where the program equates them."""

    tables: Mapping[str, Table]
    _parent: dict[Column, Column] = field(default_factory=dict)
    _joined: set[Column] = field(default_factory=set)

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
        """Rows are joined by it, of several tables or of one with itself."""
        return any(self.class_of(column) == root for column in self._joined)

    def join(self, columns: Iterable[Column]) -> None:
        """Notes that rows are joined by these columns."""
        self._joined.update(columns)

    def _name(self, column: Column) -> str:
        return self.tables[column[0]].columns[column[1]].name


def column_classes(program: Program, tables: Mapping[str, Table]) -> ColumnClasses:
    classes = ColumnClasses(tables)
    definitions = [f.definition for view in program.views for f in view.fields]
    for expr in (*definitions, program.query.expr):
        joined = _joined(expr)
        for var, columns in origins(expr).items():
            classes.unite(columns)
            if var in joined:
                classes.join(columns)
    return classes


def _joined(expr: Expr) -> set[Var]:
    """Variables that several factors of one product share."""
    found: set[Var] = set()
    for node in walk(expr):
        atoms = [factor for factor in factors_of(node) if isinstance(factor, Rel)]
        uses = Counter(var for atom in atoms for var in set(atom.args))
        found |= {var for var, number in uses.items() if number > 1}
    return found


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
