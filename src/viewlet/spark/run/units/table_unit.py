"""Tables that keep their rows, as ordinary programs; the rows can be read, checked, and used to fill new views.

kept_orders[id, customer].count += Δorders(id, customer)
keys_of_orders[id].count        += Sum[id](Δorders(id, customer))      where there is a primary key
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.nodes import Delta, Expr, Rel, Sum, Var, View
from viewlet.algebra.query import OutputColumn, Query
from viewlet.changes import describe_row, to_python
from viewlet.errors import ConstraintError, DataError
from viewlet.triggers.program import COUNT_FIELD, Field, Program, Statement, Trigger, Update, ViewDefinition
from viewlet.types import Row, Table

STRATEGY = "kept"


def unit_name(table: str) -> str:
    return f"table {table}"


def rows_view(table: str) -> str:
    return f"kept_{table}"


def keys_view(table: str) -> str:
    return f"keys_of_{table}"


def table_program(table: Table) -> Program:
    row = tuple(Var(column.name, column.type) for column in table.columns)
    key = tuple(var for var in row if var.name in table.primary_key)
    shapes = [(rows_view(table.name), row), *([(keys_view(table.name), key)] if key else [])]
    views = tuple(
        ViewDefinition(name, keys, (Field(COUNT_FIELD, _total(keys, Rel(table.name, row))),)) for name, keys in shapes
    )
    statements = tuple(
        Statement(name, keys, (Update(COUNT_FIELD, _total(keys, Delta(table.name, row))),)) for name, keys in shapes
    )
    query = Query(Rel(table.name, row), tuple(OutputColumn(var.name, var) for var in row))
    result = View(rows_view(table.name), COUNT_FIELD, row)
    return Program(unit_name(table.name), STRATEGY, query, views, (Trigger(table.name, statements),), result)


def partitioned_by(table: Table) -> dict[str, tuple[str, ...]]:
    """Rows go by what the table says, by the primary key, or by all they have; keys go with them where they can."""
    columns = table.partition_by or table.primary_key or table.column_names
    if not table.primary_key:
        return {rows_view(table.name): columns}
    keys = columns if set(columns) <= set(table.primary_key) else table.primary_key
    return {rows_view(table.name): columns, keys_view(table.name): keys}


def _total(keys: tuple[Var, ...], atom: Rel | Delta) -> Expr:
    return Sum(keys, atom) if set(keys) != set(atom.args) else atom


@dataclass(frozen=True, slots=True)
class Check:
    """A constraint on the keys that a batch has changed: no count below zero, none above a limit."""

    table: Table
    view: str
    at_most: int | None = None

    def refusal(self, key: Row, count: int) -> DataError:
        name = self.table.name
        if count < 0:
            return DataError(f"cannot delete {describe_row(self.table, key)} from {name}: it is not there so often")
        types = [column.type for column in self.table.columns if column.name in self.table.primary_key]
        shown = ", ".join(repr(to_python(type)(value)) for type, value in zip(types, key, strict=True))
        return ConstraintError(f"duplicate key ({', '.join(self.table.primary_key)}) in {name}: ({shown})")


def checks_of(table: Table) -> tuple[Check, ...]:
    keys = (Check(table, keys_view(table.name), 1),) if table.primary_key else ()
    return (Check(table, rows_view(table.name)), *keys)
