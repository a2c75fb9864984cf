"""Table functions in FROM: how views of other kinds than queries are declared.

    CREATE MATERIALIZED VIEW recent AS SELECT * FROM last_rows(clicks, 3, visitor, at)

A function binds its call: it looks the arguments up, and says what the view keeps and which columns its rows have. The
view is all of `SELECT * FROM f(...)`; what should be filtered or joined is a view over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewlet.algebra.nodes import Rel, Var, mul
from viewlet.algebra.query import OutputColumn, Query
from viewlet.errors import SqlError
from viewlet.sql.scope import unknown
from viewlet.sql.source import Source, name_of, sql_of, whole_number
from viewlet.types import Column, Table


@dataclass(frozen=True, slots=True)
class BoundCall:
    """What a call declares: the definition of the view, the columns of its rows, and the tables it reads."""

    definition: object
    columns: tuple[Column, ...]
    sources: frozenset[str]


@dataclass(frozen=True, slots=True)
class TableCall:
    """A call of a table function; what is wrong with an argument is an error that points at it."""

    name: str
    arguments: tuple[exp.Expr, ...]
    source: Source
    catalog: Mapping[str, Table]

    def table(self, number: int) -> Table:
        """The table or view that an argument names."""
        name = self._name(number, "a table")
        if name not in self.catalog:
            raise self.error(unknown("table", name, set(self.catalog)), number)
        return self.catalog[name]

    def column(self, number: int, table: Table) -> int:
        """The position of the column that an argument names."""
        name = self._name(number, f"a column of {table.name}")
        if name not in table.column_names:
            raise self.error(unknown("column", name, set(table.column_names)), number)
        return table.column_names.index(name)

    def whole_number(self, number: int) -> int:
        """The number that an argument is."""
        found = whole_number(sql_of(self._argument(number, "a whole number")))
        if found is None:
            raise self.error(f"{self.name} expects a whole number here", number)
        return found

    def string(self, number: int, what: str) -> str:
        """The text in quotes that an argument is."""
        argument = self.arguments[number] if number < len(self.arguments) else None
        if not isinstance(argument, exp.Literal) or not argument.is_string:
            raise self.error(f"{self.name} expects {what} here, in quotes", number if argument is not None else None)
        return str(argument.this)

    def error(self, message: str, number: int | None = None) -> SqlError:
        """An error that points at an argument."""
        return self.source.error(message, None if number is None else self.arguments[number])

    def _name(self, number: int, what: str) -> str:
        argument = self._argument(number, what)
        if not isinstance(argument, exp.Column) or argument.args.get("table"):
            raise self.error(f"{self.name} expects the name of {what} here", number)
        return name_of(argument.this)

    def _argument(self, number: int, what: str) -> exp.Expr:
        if number >= len(self.arguments):
            raise self.source.error(f"{self.name} needs {what} as its argument {number + 1}")
        return self.arguments[number]


TableFunction = Callable[[TableCall], BoundCall]
TABLE_FUNCTIONS: dict[str, TableFunction] = {}
"""By name, in lower case; kinds of views add theirs when they are registered."""


def called_function(node: exp.Expr) -> exp.Anonymous | None:
    """The call that a query reads, if it is of a known table function."""
    start = node.args.get("from_")
    table = start.this if isinstance(start, exp.From) else None
    call = table.this if isinstance(table, exp.Table) else None
    return call if isinstance(call, exp.Anonymous) and str(call.this).lower() in TABLE_FUNCTIONS else None


def bind_call(
    node: exp.Expr, call: exp.Anonymous, source: Source, catalog: Mapping[str, Table], names: Sequence[str]
) -> tuple[Query, object, frozenset[str]]:
    """The rows, the definition and the sources of a view that is a call; `names` rename its first columns."""
    name = str(call.this).lower()
    others = [clause for clause, value in node.args.items() if value and clause not in ("expressions", "from_")]
    if others or [type(each) for each in node.expressions] != [exp.Star]:
        hint = f"declare SELECT * FROM {name}(...), and a second view over it"
        raise source.unsupported(f"more than SELECT * FROM {name}(...) in one view", call, hint)
    bound = TABLE_FUNCTIONS[name](TableCall(name, tuple(call.expressions), source, catalog))
    if len(names) > len(bound.columns):
        raise source.error(f"{len(names)} column names for {len(bound.columns)} columns", call)
    shown = [*names, *(column.name for column in bound.columns[len(names) :])]
    variables = [Var(shown_as, column.type) for shown_as, column in zip(shown, bound.columns, strict=True)]
    columns = tuple(OutputColumn(var.name, var) for var in variables)
    read = (catalog[table] for table in sorted(bound.sources))
    atoms = [Rel(t.name, tuple(Var(f"{t.name}_{column.name}", column.type) for column in t.columns)) for t in read]
    return Query(mul(*atoms), columns), bound.definition, bound.sources
