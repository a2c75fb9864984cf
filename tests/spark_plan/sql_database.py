"""A small database in a host that speaks SQL and in the evaluator, and views held against each other in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import isclose
from typing import Any

from tests.conformance.engines import changes_in_order, schemas
from viewlet.algebra.evaluate import State, evaluate
from viewlet.algebra.printer import show
from viewlet.changes.arrow import rows_to_arrow
from viewlet.sql import CreateView, bind_statement, split_statements
from viewlet.sqlgen.definition import definition_sql
from viewlet.triggers.plan import plan_query
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.triggers.store import MapStore
from viewlet.types import Datum, Row, Table, TableKind
from workloads.query import NamedQuery
from workloads.streams import Batch

STRATEGIES = ("higher-order", "view-tree", "auto")
Contents = dict[Row, tuple[int | float, ...]]
Ask = Callable[[str], Iterable[Sequence[Any]]]
"""Runs a SELECT."""


@dataclass(frozen=True, slots=True)
class Database:
    """Streams and the rows that came by them."""

    tables: dict[str, Table]
    state: State

    @property
    def kept(self) -> dict[str, Table]:
        """The tables as those that keep their rows, and check their keys."""
        return {name: replace(table, kind=TableKind.TABLE) for name, table in self.tables.items()}

    @staticmethod
    def of(declarations: Mapping[str, str], batches: Sequence[Batch]) -> Database:
        tables = {name: replace(table, kind=TableKind.STREAM) for name, table in schemas(declarations).items()}
        stores = {name: MapStore() for name in tables}
        for batch in changes_in_order(tables, batches):
            for name, changes in batch.items():
                for row, count in changes.items():
                    stores[name].add(row, (count,))
        return Database(tables, State(stores))

    def rows(self, name: str, with_multiplicity: bool = False) -> Any:
        """The rows of a table in Arrow: a bag, or each row once with its multiplicity."""
        counted = self.state.relations[name].multiplicities()  # type: ignore[attr-defined]
        if with_multiplicity:
            return rows_to_arrow(self.tables[name].columns, counted.items(), with_multiplicity=True)
        bag = [(row, 1) for row, count in counted.items() for _ in range(count)]
        return rows_to_arrow(self.tables[name].columns, bag)

    def program(self, query: NamedQuery, strategy: str) -> Program:
        text = f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}"
        view = bind_statement(next(split_statements(text)), self.tables)
        assert isinstance(view, CreateView)
        return plan_query(query.name, view.query, {name: self.tables[name] for name in sorted(view.sources)}, strategy)

    def views(self, query: NamedQuery, strategies: Sequence[str] = STRATEGIES) -> list[ViewDefinition]:
        """The views of the query's programs; those of several programs are listed once."""
        found = {}
        for strategy in strategies:
            for view in self.program(query, strategy).views:
                found.setdefault((view.keys, tuple(field.definition for field in view.fields)), view)
        return list(found.values())

    def contents(self, view: ViewDefinition) -> Contents:
        """What the definitions mean, without keys at which all fields are zero."""
        fields = [evaluate(field.definition, view.keys, self.state) for field in view.fields]
        keys = dict.fromkeys(key for field in fields for key in field)
        return {key: tuple(number(field.get(key, 0)) for field in fields) for key in keys}

    def disagreement(self, view: ViewDefinition, ask: Ask, dialect: str, multiplicity: str | None = None) -> str | None:
        """How the answer of the host differs from the evaluator's."""
        sql = definition_sql(view, self.tables, dialect, multiplicity=multiplicity)
        width, found = len(view.keys), Contents()
        for row in ask(sql):
            key = tuple(row[:width])
            if key in found:
                return f"{view.name}: {key} comes twice\n{sql}"
            found[key] = tuple(number(value) for value in row[width:])
        expected = self.contents(view)
        if _same(found, expected) and all(same_types(key, view) for key in found):
            return None
        definitions = "\n".join(show(field.definition) for field in view.fields)
        return f"{view.name} = {definitions}\n{found}\ninstead of\n{expected}\n{sql}"


def _same(found: Contents, expected: Contents) -> bool:
    """Everything is exact but sums of doubles, which hosts round as they go."""
    return found.keys() == expected.keys() and all(
        isclose(a, b, rel_tol=1e-12) if isinstance(b, float) else a == b
        for key, numbers in expected.items()
        for a, b in zip(found[key], numbers, strict=True)
    )


def number(value: Any) -> int | float:
    """Exact sums as integers, whatever the host wraps them in."""
    if isinstance(value, Decimal):
        assert value == int(value), "a sum of units is a whole number"
        return int(value)
    return value if isinstance(value, int) else float(value)


def same_types(key: Row, view: ViewDefinition) -> bool:
    """1 == 1.0 == True, but a store tells them apart."""
    return all(_fits(value, var.type.is_float, var.type.kind.value) for value, var in zip(key, view.keys, strict=True))


def _fits(value: Datum | Decimal, is_float: bool, kind: str) -> bool:
    if value is None:
        return True
    if is_float or isinstance(value, float):
        return is_float and isinstance(value, float)
    if kind in ("BOOLEAN", "VARCHAR"):
        return isinstance(value, bool if kind == "BOOLEAN" else str)
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
