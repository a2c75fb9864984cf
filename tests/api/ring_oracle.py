"""What views over rings should hold: NumPy over the join that DuckDB makes of the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import duckdb
import numpy as np

import viewlet

Rows = list[tuple[Any, ...]]


@dataclass
class Twin:
    """The same tables in Viewlet and in DuckDB, changed by the same batches."""

    schema: str
    engine: str
    db: Any = field(init=False)
    duck: Any = field(init=False)
    rows: dict[str, Rows] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.db = viewlet.connect(engine=self.engine)
        self.duck = duckdb.connect()
        self.db.execute(self.schema)
        self.duck.execute(self.schema.replace("CREATE STREAM", "CREATE TABLE"))
        self.rows = {name: [] for name in self.db.tables}

    def apply(self, changes: Mapping[str, tuple[Rows, Rows]]) -> None:
        """Inserts and deletes of several tables, as one batch."""
        batch: dict[str, Any] = {}
        for table, (inserted, deleted) in changes.items():
            names = self.columns(table)
            rows = [(dict(zip(names, row, strict=True)), 1) for row in inserted]
            rows += [(dict(zip(names, row, strict=True)), -1) for row in deleted]
            batch[table] = [{**row, "_multiplicity": sign} for row, sign in rows]
            for row in deleted:
                self.rows[table].remove(row)
            self.rows[table] += inserted
        self.db.apply({table: rows for table, rows in batch.items() if rows})
        for table in changes:
            self.duck.execute(f"DELETE FROM {table}")
            if self.rows[table]:
                marks = ", ".join("?" * len(self.rows[table][0]))
                self.duck.executemany(f"INSERT INTO {table} VALUES ({marks})", self.rows[table])

    def columns(self, table: str) -> list[str]:
        return [name for name, *_ in self.duck.execute(f"DESCRIBE {table}").fetchall()]

    def ask(self, sql: str) -> Rows:
        return list(self.duck.execute(sql).fetchall())

    def churn(self, random: Random, make: Mapping[str, Any], batches: int, size: int) -> Iterable[int]:
        """Random batches: some rows come, some of those that are there go."""
        for number in range(batches):
            changes = {}
            for table, row in make.items():
                gone = random.sample(self.rows[table], min(len(self.rows[table]), random.randrange(size)))
                changes[table] = ([row(random) for _ in range(random.randrange(1, size + 1))], gone)
            self.apply(changes)
            yield number


def expected_cofactor(
    rows: Rows, continuous: Sequence[str], categorical: Sequence[str]
) -> tuple[list[Any], int, Any, Any]:
    """Variables, count, sums and matrix of rows of continuous, then categorical values; one-hot, expanded."""
    kinds = [
        (name, value)
        for i, name in enumerate(categorical)
        for value in sorted({row[len(continuous) + i] for row in rows})
    ]
    matrix = np.zeros((len(rows), len(continuous) + len(kinds)))
    for at, row in enumerate(rows):
        matrix[at, : len(continuous)] = [float(value) for value in row[: len(continuous)]]
        for i, name in enumerate(categorical):
            matrix[at, len(continuous) + kinds.index((name, row[len(continuous) + i]))] = 1.0
    return [*continuous, *kinds], len(rows), matrix.sum(axis=0), matrix.T @ matrix


def assert_cofactor(found: Any, rows: Rows, continuous: Sequence[str], categorical: Sequence[str] = ()) -> None:
    variables, count, sums, matrix = expected_cofactor(rows, continuous, categorical)
    assert list(found.variables) == variables
    assert found.count == count
    scale = max(1.0, float(np.abs(matrix).max(initial=0.0)))
    np.testing.assert_allclose(found.sums, sums, rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(found.matrix, matrix, rtol=1e-9, atol=1e-9 * scale)


def multiset(rows: Iterable[Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in rows)
