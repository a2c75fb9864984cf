"""DuckDB as the oracle: the same tables, changed by the same batches, and the answers it gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from tests.oracle.comparison import Answer, difference, ordered_difference
from workloads.query import NamedQuery
from workloads.streams import Batch, Row

PRIMARY_KEY = re.compile(r",\s*PRIMARY KEY\s*\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The oracle's answer to one query, with what it takes to judge another answer to it."""

    answer: Answer
    unlimited: Answer
    order: tuple[int, ...] = ()

    def objection(self, actual: Answer) -> str | None:
        """What is wrong with an answer, or None."""
        if self.order:
            return ordered_difference(actual, self.answer, self.unlimited, self.order)
        return difference(actual, self.answer)


@dataclass(slots=True)
class Oracle:
    """Tables in DuckDB that follow a stream of batches."""

    connection: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    optimized: bool = True
    """Whether DuckDB rewrites queries, which joins of larger tables need. Some of its rewrites change the answer:
    `join_order` has made rows out of WHERE NULL, `expression_rewriter` takes 12:30 to be before the hour of a DATE."""

    def __post_init__(self) -> None:
        self.connection.execute("SET threads = 1")
        self.connection.execute("SET error_on_division_by_zero = false")
        self.connection.execute("SET ieee_floating_point_ops = false")
        # It takes CASE x WHEN TRUE THEN 'b' END LIKE '%b' for true wherever the CASE is NULL.
        self.connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        if not self.optimized:
            self.connection.execute("PRAGMA disable_optimizer")

    def create(self, table: str, statement: str) -> None:
        """Create a table; without its primary key, whose index would only cost time here."""
        self.connection.execute(PRIMARY_KEY.sub("", statement))
        self.schemas[table] = self.connection.sql(f"SELECT * FROM {table}").to_arrow_table().schema

    def clear(self) -> None:
        """Empty every table."""
        for table in self.schemas:
            self.connection.execute(f"DELETE FROM {table}")

    def apply(self, batch: Batch) -> None:
        for table, changes in batch.items():
            net = Counter[Row]()
            for row, multiplicity in changes:
                net[row] += multiplicity
            self._delete(table, [(*row, -count) for row, count in net.items() if count < 0])
            self._insert(table, [row for row, count in net.items() for _ in range(count)])

    def _insert(self, table: str, rows: list[Row]) -> None:
        if rows:
            changes = _arrow(rows, self.schemas[table])
            self.connection.register("changes", changes)
            self.connection.execute(f"INSERT INTO {table} SELECT * FROM changes")

    def _delete(self, table: str, rows: list[Row]) -> None:
        """Delete exactly as many copies of each row as asked for."""
        if not rows:
            return
        schema = self.schemas[table].append(pa.field("_copies", pa.int64()))
        self.connection.register("changes", _arrow(rows, schema))
        columns = self.schemas[table].names
        same = " AND ".join(f"{table}.{name} IS NOT DISTINCT FROM changes.{name}" for name in columns)
        partition = ", ".join(f"changes.{name}" for name in columns)
        self.connection.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT position FROM ("
            f"SELECT {table}.rowid AS position, _copies, row_number() OVER (PARTITION BY {partition}) AS copy "
            f"FROM {table} JOIN changes ON {same}) WHERE copy <= _copies)"
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def expect(self, query: NamedQuery) -> Expectation:
        """DuckDB's answer to a query at this moment."""
        answer = self.rows(query.sql)
        names = [column[0] for column in self.connection.description or ()]
        order = tuple(names.index(name) for name in query.order)
        return Expectation(answer, answer if query.limit is None else self.rows(query.body), order)


@dataclass(frozen=True, slots=True)
class Step:
    """One batch, and what every query must answer after it."""

    batch: Batch
    expected: dict[str, Expectation]


def transcript(tables: dict[str, str], queries: Iterable[NamedQuery], batches: Iterable[Batch]) -> list[Step]:
    """Play batches to DuckDB once, so that every strategy can be held against the same answers."""
    oracle = Oracle()
    for table, statement in tables.items():
        oracle.create(table, statement)
    steps = []
    for batch in batches:
        oracle.apply(batch)
        steps.append(Step(batch, {query.name: oracle.expect(query) for query in queries}))
    return steps


def _arrow(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([(field.name, field.type) for field in schema]))
