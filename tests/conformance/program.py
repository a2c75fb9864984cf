"""A program of the conformance suite: tables, views over them, a stream of batches, and the answers of an oracle.

DuckDB answers SQL; NumPy, over the join that DuckDB makes, answers for views over rings. Views are compared with it as
they are declared, over empty tables and over rows, and after every batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tests.oracle.comparison import difference
from tests.oracle.oracle import Oracle
from workloads.query import NamedQuery
from workloads.streams import Batch

LATE = 1 / 4
"""The share of the batches that views see which are declared late."""


class Expected(Protocol):
    """What the oracle says of a view at one moment."""

    def objection(self, view: Any) -> str | None:
        """What is wrong with the view of a connection, or None."""


@dataclass(frozen=True, slots=True)
class View:
    """A query kept fresh; a late one is declared when there are rows already."""

    query: NamedQuery
    strategy: str = ""
    is_late: bool = False

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def statement(self) -> str:
        chosen = f" WITH (strategy = '{self.strategy}')" if self.strategy else ""
        return f"CREATE MATERIALIZED VIEW {self.name}{chosen} AS {self.query.sql}"

    @property
    def has_plain_rows(self) -> bool:
        """Its result is a bag of rows without LIMIT, whose changes add up."""
        return self.query.limit is None

    def expect(self, oracle: Oracle) -> Expected:
        return _Rows(oracle.expect(self.query))


@dataclass(frozen=True, slots=True)
class _Rows:
    expected: Any

    def objection(self, view: Any) -> str | None:
        found: str | None = self.expected.objection(view.rows())
        return found


@dataclass(frozen=True, slots=True)
class AggregateView(View):
    """Calls user-defined aggregates; `answer` is the same query with aggregates that DuckDB has."""

    answer: str = ""

    def expect(self, oracle: Oracle) -> Expected:
        return _Rows(oracle.expect(replace(self.query, body=self.answer)))


@dataclass(frozen=True, slots=True)
class CofactorView(View):
    """COFACTOR of numbers, then categories, by groups; `source` is what comes after FROM."""

    groups: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    source: str = ""
    has_plain_rows = False

    def expect(self, oracle: Oracle) -> Expected:
        columns = (*self.groups, *self.continuous, *self.categorical)
        rows = oracle.rows(f"SELECT {', '.join(columns)} FROM {self.source}")
        width = len(self.groups)
        groups: dict[Any, list[tuple[Any, ...]]] = {} if width else {(): []}
        for row in rows:
            if None not in row[width:]:  # a row with NULL in a variable is left out
                groups.setdefault(row[:width], []).append(row[width:])
        names = [[_name(each) for each in part] for part in (self.continuous, self.categorical)]
        return _Cofactors({key: _one_hot(found, *names) for key, found in groups.items()}, bool(width))


@dataclass(frozen=True, slots=True)
class _Cofactors:
    tables: dict[Any, tuple[list[Any], Any]]
    grouped: bool

    def objection(self, view: Any) -> str | None:
        found = view.cofactor()
        own = {k if isinstance(k, tuple) else (k,): v for k, v in found.items()} if self.grouped else {(): found}
        if own.keys() != self.tables.keys():
            return f"groups {sorted(own, key=str)} instead of {sorted(self.tables, key=str)}"
        for key, table in own.items():
            variables, rows = self.tables[key]
            scale = 1e-9 * max(1.0, float(np.abs(rows.T @ rows).max(initial=0.0)))
            same = list(table.variables) == variables and table.count == len(rows)
            same = same and np.allclose(table.sums, rows.sum(axis=0), rtol=1e-9, atol=scale)
            if not (same and np.allclose(table.matrix, rows.T @ rows, rtol=1e-9, atol=scale)):
                return f"group {key}: {table} instead of {variables} of {rows.tolist()}"
        return None


def _name(column: str) -> str:
    return column.rpartition(" AS ")[2]


def _one_hot(rows: Sequence[tuple[Any, ...]], continuous: list[str], categorical: list[str]) -> tuple[list[Any], Any]:
    """The variables, and a matrix with a row for each row; a category becomes a column for each of its values."""
    width = len(continuous)
    kinds = [(name, value) for i, name in enumerate(categorical) for value in sorted({row[width + i] for row in rows})]
    matrix = np.zeros((len(rows), width + len(kinds)))
    for at, row in enumerate(rows):
        matrix[at, :width] = [float(value) for value in row[:width]]
        for i, name in enumerate(categorical):
            matrix[at, width + kinds.index((name, row[width + i]))] = 1.0
    return [*continuous, *kinds], matrix


@dataclass(frozen=True, slots=True)
class ListingView(View):
    """FACTORIZED: the rows of a join, listed from a compressed form."""

    join: str = ""
    has_plain_rows = False

    def expect(self, oracle: Oracle) -> Expected:
        return _Listing(oracle.rows(self.join))


@dataclass(frozen=True, slots=True)
class _Listing:
    rows: list[tuple[Any, ...]]

    def objection(self, view: Any) -> str | None:
        if len(view) != len(self.rows):
            return f"{len(view)} rows instead of {len(self.rows)}"
        return difference(list(view.rows()), self.rows)


@dataclass(frozen=True, slots=True)
class Moment:
    """A batch, and what the oracle says of every view after it."""

    batch: Batch
    expected: dict[str, Expected]


@dataclass(frozen=True)
class Program:
    """One entry of the suite."""

    name: str
    tables: Mapping[str, str]
    views: tuple[View, ...]
    batches: Sequence[Batch] = field(repr=False)
    sizes: Mapping[str, float] = field(default_factory=dict)
    """About how many rows the tables have, for engines that plan by it."""
    is_large: bool = False
    """Its views take long to plan and to compile."""

    @cached_property
    def moments(self) -> list[Moment]:
        """Before the first batch, and after each; computed once, however many engines are compared with it."""
        oracle = Oracle()
        for table, statement in self.tables.items():
            oracle.create(table, _as_table(statement))
        found = []
        for batch in [Batch(), *self.batches]:
            oracle.apply(batch)
            found.append(Moment(batch, {view.name: view.expect(oracle) for view in self.views}))
        return found

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The tables as Arrow has them."""
        oracle = Oracle()
        for table, statement in self.tables.items():
            oracle.create(table, _as_table(statement))
        return oracle.schemas

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        return {table: schema.names for table, schema in self.schemas.items()}

    @property
    def late(self) -> int:
        """The number of the moment after which late views are declared."""
        return round(len(self.batches) * LATE)


def _as_table(statement: str) -> str:
    """DuckDB has one kind of table."""
    return re.sub(r"CREATE (STATIC TABLE|STREAM)", "CREATE TABLE", statement)
