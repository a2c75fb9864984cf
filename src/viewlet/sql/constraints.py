"""CHECK, UNIQUE and FOREIGN KEY: each is a view of the rows that break it, which every batch has to leave empty.

    CHECK (price > 0)                        SELECT * FROM t WHERE NOT (price > 0)
    UNIQUE (a, b)                            SELECT a, b FROM t WHERE a IS NOT NULL AND b IS NOT NULL
                                             GROUP BY a, b HAVING COUNT(*) > 1
    FOREIGN KEY (a) REFERENCES p (k)         SELECT a FROM t WHERE a IS NOT NULL AND a has no row in p

As in SQL, a condition that is NULL holds, NULLs are not equal, and a key with a NULL refers to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlglot
from sqlglot import exp

from viewlet.sql.scope import unknown
from viewlet.sql.source import Source, name_of, quoted
from viewlet.types import Constraint, Table

DIALECT = "duckdb"


class Constraints:
    """The constraints of one table, as they are read."""

    def __init__(self, table: str, source: Source) -> None:
        self.table = table
        self.found: list[Constraint] = []
        self.unique: list[tuple[str, tuple[str, ...]]] = []
        """The names and columns of those that are UNIQUE."""
        self._source = source
        self._references: list[tuple[str | None, tuple[exp.Expr, ...], exp.Reference]] = []
        self._uniques: list[tuple[str | None, tuple[exp.Expr, ...]]] = []
        self._checks: list[tuple[str | None, exp.Expr]] = []

    def add(self, node: exp.Expr, column: exp.Expr | None = None, name: str | None = None) -> bool:
        """Reads a constraint of a table, or of one column; False if it is none of these."""
        own = () if column is None else (column,)
        match node:
            case exp.CheckColumnConstraint():
                self._checks.append((name, node.this))
            case exp.UniqueColumnConstraint():
                if node.args.get("nulls"):
                    raise self._source.unsupported("UNIQUE NULLS NOT DISTINCT", node)
                self._uniques.append((name, own or tuple(node.this.expressions)))
            case exp.Reference():
                self._references.append((name, own, node))
            case exp.ForeignKey():
                self._references.append((name, tuple(node.expressions), node.args["reference"]))
            case _:
                return False
        return True

    def non_negative(self, columns: Collection[str]) -> frozenset[str]:
        """The columns of CHECK (column >= 0): views profit from it, and values are checked as they are read."""
        found = {name for _, test in self._checks if (name := _checked_column(test)) in columns}
        self._checks = [(name, test) for name, test in self._checks if _checked_column(test) not in columns]
        return frozenset(found)

    def bound(self, table: Table, catalog: Mapping[str, Table]) -> tuple[Constraint, ...]:
        """All of them, once the columns of the table are known."""
        for name, test in self._checks:
            columns = {each.name for each in test.find_all(exp.Column)}
            if test.find(exp.Query, exp.AggFunc) is not None:
                raise self._source.error("CHECK is about one row: it takes no query and no aggregate", test)
            text = test.sql(dialect=DIALECT)
            query = f"SELECT * FROM {quoted(self.table)} WHERE NOT ({text})"
            self._put(name, columns, "check", f"CHECK ({text})", query)
        for name, nodes in self._uniques:
            self._unique(name, self._columns(nodes, table.column_names))
        for name, nodes, reference in self._references:
            self._reference(name, self._columns(nodes, table.column_names), reference, {**catalog, table.name: table})
        return tuple(self.found)

    def _unique(self, name: str | None, columns: tuple[str, ...]) -> None:
        listed = ", ".join(map(quoted, columns))
        present = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in columns)
        query = f"SELECT {listed} FROM {quoted(self.table)} WHERE {present} GROUP BY {listed} HAVING COUNT(*) > 1"
        self._put(name, columns, "key", f"UNIQUE ({', '.join(columns)})", query)
        self.unique.append((self.found[-1].name, columns))

    def _reference(
        self, name: str | None, columns: Sequence[str], node: exp.Reference, catalog: Mapping[str, Table]
    ) -> None:
        for option in node.args.get("options") or ():
            if not str(option).upper().endswith(("RESTRICT", "NO ACTION")):
                hint = "change the rows that refer to it in the same batch"
                raise self._source.unsupported(f"FOREIGN KEY with {option}", node, hint)
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        other = name_of(target.this) if isinstance(target, exp.Table) else name_of(target)
        if other not in catalog:
            raise self._source.error(unknown("table", other, catalog), target)
        listed = tuple(node.this.expressions) if isinstance(node.this, exp.Schema) else ()
        keys = self._columns(listed, catalog[other].column_names) or catalog[other].primary_key
        if not keys:
            raise self._source.error(f"'{other}' has no PRIMARY KEY: say which columns are referred to", node)
        if len(keys) != len(columns):
            raise self._source.error(f"{len(columns)} columns refer to {len(keys)}", node)
        own = ", ".join(f"referring.{quoted(column)}" for column in columns)
        present = " AND ".join(f"referring.{quoted(column)} IS NOT NULL" for column in columns)
        equal = " AND ".join(
            f"referred.{quoted(key)} = referring.{quoted(column)}" for key, column in zip(keys, columns, strict=True)
        )
        query = (
            f"SELECT {own} FROM {quoted(self.table)} AS referring LEFT JOIN {quoted(other)} AS referred ON {equal}"
            f" WHERE {present} AND referred.{quoted(keys[0])} IS NULL"
        )
        text = f"FOREIGN KEY ({', '.join(columns)}) REFERENCES {other} ({', '.join(keys)})"
        self._put(name, columns, "fkey", text, query)

    def _columns(self, nodes: Sequence[exp.Expr], known: Collection[str]) -> tuple[str, ...]:
        for node in nodes:
            if name_of(node) not in known:
                raise self._source.error(unknown("column", name_of(node), known), node)
        return tuple(dict.fromkeys(map(name_of, nodes)))

    def _put(self, name: str | None, columns: Collection[str], kind: str, text: str, query: str) -> None:
        """Adds a constraint under its name, or one like those that PostgreSQL gives."""
        taken = {each.name for each in self.found}
        made = name or "_".join((self.table, *sorted(columns), kind))
        if name in taken:
            raise self._source.error(f"constraint '{name}' is declared twice")
        number = 1
        while made in taken:
            number += 1
            made = "_".join((self.table, *sorted(columns), f"{kind}{number}"))
        self.found.append(Constraint(made, self.table, text, query))


def _checked_column(test: exp.Expr) -> str:
    """The column of CHECK (column >= 0); nothing if the condition is another one."""
    while isinstance(test, exp.Paren):
        test = test.this
    if isinstance(test, exp.GTE) and isinstance(test.this, exp.Column) and test.expression.sql() == "0":
        return name_of(test.this.this)
    return ""


def columns_checked(constraint: Constraint, table: Table) -> list[str]:
    """The columns that a CHECK is about, in the order of the table."""
    test = sqlglot.parse_one(constraint.text.removeprefix("CHECK "), read=DIALECT)
    named = {name_of(column.this) for column in test.find_all(exp.Column)}
    return [name for name in table.column_names if name in named]


def constraint_statement(constraint: Constraint) -> str:
    """The view of the rows that break a constraint."""
    return f"CREATE MATERIALIZED VIEW {quoted(constraint.name)} AS {constraint.query}"
