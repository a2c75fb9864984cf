"""The table that a statement changes, and its rows as SQL of DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewlet.sql.scope import unknown
from viewlet.sql.source import Source, name_of, quoted
from viewlet.sql.syntax import check_target
from viewlet.sql.tables import table_name
from viewlet.types import Column, Table, TableKind


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a statement changes, and the name that the statement has for it."""

    table: Table
    alias: str
    source: Source
    names: frozenset[str]
    """Those of tables, views and columns, which the names of the query itself have to differ from."""

    @property
    def read(self) -> str:
        return f"{quoted(self.table.name)} AS {quoted(self.alias)}"

    def fresh(self, name: str) -> str:
        """A name that nothing else in the query has."""
        while name in self.names:
            name += " "
        return name

    @property
    def number(self) -> str:
        """The column of row numbers."""
        return f"{quoted(self.alias)}.{quoted(self.fresh('row number'))}"

    @property
    def numbered(self) -> str:
        """The rows of the table with their numbers, as a common table expression."""
        number = quoted(self.fresh("row number"))
        rows = f"SELECT *, row_number() OVER () AS {number} FROM {quoted(self.table.name)}"
        return f"{quoted(self.fresh('target rows'))} AS MATERIALIZED ({rows})"

    @property
    def read_numbered(self) -> str:
        return f"{quoted(self.fresh('target rows'))} AS {quoted(self.alias)}"

    def cell(self, name: str) -> str:
        return f"{quoted(self.alias)}.{quoted(name)}"

    def row(self) -> str:
        """A row as it is."""
        return ", ".join(self.cell(name) for name in self.table.column_names)

    def new_row(self, values: Mapping[str, str]) -> str:
        """A row of given values, and the defaults of the other columns."""
        return ", ".join(_cast(values.get(column.name, _default(column)), column) for column in self.table.columns)

    def default(self, name: str) -> str:
        """What DEFAULT means for a column."""
        return _default(self.table.columns[self.table.column_names.index(name)])

    def change(self, values: Mapping[str, str] | None, is_new: bool = False) -> str:
        """What a row was, and what it becomes: given values, and what it was in the other columns; None if it goes."""
        columns = self.table.columns
        olds = ["NULL" if is_new else self.cell(column.name) for column in columns]
        others = [_default(column) for column in columns] if is_new else olds
        news = ["NULL" if values is None else values.get(c.name, cell) for c, cell in zip(columns, others, strict=True)]
        return ", ".join(
            f"CAST({cell} AS {column.type}) AS {quoted(f'{side} {i}')}"
            for side, cells in (("old", olds), ("new", news))
            for i, (cell, column) in enumerate(zip(cells, columns, strict=True))
        )

    def named(self, column: exp.Expr) -> str:
        """The name of a column of the table that a statement sets."""
        name = name_of(column.this if isinstance(column, exp.Column) else column)
        if name not in self.table.column_names:
            raise self.source.error(unknown("column", name, self.table.column_names), column)
        return name

    @property
    def settable(self) -> tuple[str, ...]:
        """The columns that statements may say something about besides DEFAULT."""
        return tuple(column.name for column in self.table.columns if not column.always)

    def check_settable(self, name: str, value: exp.Expr | None) -> None:
        """Refuses a value for a column that is always generated."""
        if name not in self.settable and (value is None or not is_default(value)):
            raise self.source.error(f"column '{name}' is GENERATED ALWAYS: leave it out, or say DEFAULT", value)


def _default(column: Column) -> str:
    return "NULL" if column.default is None else column.default


def is_default(value: exp.Expr) -> bool:
    """The word DEFAULT, which the parser takes for a name."""
    return isinstance(value, exp.Column | exp.Var) and value.sql().upper() == "DEFAULT"


def find_target(node: exp.Expr, source: Source, catalog: Mapping[str, Table], alias: bool = True) -> Target:
    name = table_name(node, source)
    if name not in catalog:
        raise source.error(unknown("table", name, catalog), node)
    if catalog[name].kind is TableKind.VIEW:
        raise source.error(f"'{name}' is a view: change the tables it reads", node)
    check_target(node, source, alias=alias)
    written = node.args.get("alias")
    names = frozenset(catalog).union(catalog[name].column_names)
    return Target(catalog[name], name if written is None else name_of(written.this), source, names)


def refuse(node: exp.Expr, source: Source, *clauses: str) -> None:
    for clause in clauses:
        if node.args.get(clause):
            where = node.args[clause]
            raise source.unsupported(
                f"{node.key.upper()} with {clause.strip('_').upper()}",
                where if isinstance(where, exp.Expr) else None,
            )


def text_of(node: exp.Expr, source: Source) -> str:
    """A part of the statement as SQL of DuckDB."""
    try:
        return node.sql("duckdb")
    except Exception:  # the generator fails in its own ways on trees it does not expect
        raise source.unsupported(f"{node.key.upper()} here", node) from None


def _cast(sql: str, column: Column) -> str:
    return f"CAST({sql} AS {column.type}) AS {quoted(column.name)}"
