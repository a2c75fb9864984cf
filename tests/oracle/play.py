"""Plays a transcript to Viewlet: views declared, batches applied, every answer held against the oracle's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import viewlet
from tests.oracle.oracle import Step
from workloads.query import NamedQuery
from workloads.streams import Batch

FULL = os.environ.get("VIEWLET_ORACLE_SCALE") == "full"
"""Play long streams in all combinations; the default run shows every query to every strategy."""
STRATEGIES = ("auto", "recompute", "first-order", "higher-order", "view-tree")
BATCH_SIZES = (1, 10, 100)
PLAYED = [
    (strategy, size)
    for number, strategy in enumerate(STRATEGIES)
    for size in BATCH_SIZES
    if FULL or strategy == "auto" or size == BATCH_SIZES[number % len(BATCH_SIZES)]
]
"""Strategies and sizes of batches: what is chosen when nobody asks with every size, the others with one."""


def declare(db: Any, query: NamedQuery, strategy: str) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW {query.name} WITH (strategy = '{strategy}') AS {query.sql}")


def changes_of(batch: Batch, columns: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, Any]]]:
    """A batch the way `apply` takes it: one dict per changed row."""
    return {
        table: [{**dict(zip(columns[table], row, strict=True)), "_multiplicity": count} for row, count in changes]
        for table, changes in batch.items()
    }


def objections(
    tables: Mapping[str, str], queries: Iterable[NamedQuery], steps: Sequence[Step], strategy: str, declare_at: int = 0
) -> dict[str, str]:
    """What is wrong with each query's view: the first batch after which it differs, or the error it raised.

    `declare_at` is the number of batches applied before the views are declared. All views live on one connection;
    when a batch fails there, each is played alone to find the guilty one.
    """
    queries = tuple(queries)
    try:
        return _play(tables, queries, steps, strategy, declare_at)
    except Exception as error:
        if len(queries) == 1:
            return {queries[0].name: f"{type(error).__name__}: {error}"}
    found: dict[str, str] = {}
    for query in queries:
        found |= objections(tables, (query,), steps, strategy, declare_at)
    return found or {"all": "a batch fails with all views together, but not with any of them alone"}


def _play(
    tables: Mapping[str, str], queries: Sequence[NamedQuery], steps: Sequence[Step], strategy: str, declare_at: int
) -> dict[str, str]:
    db = viewlet.connect()
    for statement in tables.values():
        db.execute(statement)
    columns = {table: _column_names(statement) for table, statement in tables.items()}
    found: dict[str, str] = {}
    for number, step in enumerate(steps):
        if number == declare_at:
            _declare_all(db, queries, strategy, found)
        db.apply(changes_of(step.batch, columns))
        if number < declare_at:
            continue
        for query in queries:
            if query.name not in found:
                objection = step.expected[query.name].objection(db.view(query.name).rows())
                if objection is not None:
                    found[query.name] = f"after batch {number}: {objection}"
    return found


def _declare_all(db: Any, queries: Sequence[NamedQuery], strategy: str, found: dict[str, str]) -> None:
    for query in queries:
        try:
            declare(db, query, strategy)
        except Exception as error:
            found[query.name] = f"CREATE VIEW: {type(error).__name__}: {error}"


def _column_names(statement: str) -> tuple[str, ...]:
    """The columns of a CREATE TABLE statement."""
    import sqlglot
    from sqlglot import exp

    return tuple(column.name for column in sqlglot.parse_one(statement, read="duckdb").find_all(exp.ColumnDef))


def report(found: Mapping[str, str]) -> str:
    """A message for a failed assertion: one paragraph per query."""
    return "\n".join(f"{name}: {objection}" for name, objection in found.items())
