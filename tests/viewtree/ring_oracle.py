"""Joins by other means: nested loops in Python, and DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

Row = tuple[Any, ...]
Tables = Mapping[str, Counter[Row]]


def natural_join(schemas: Mapping[str, Sequence[str]], tables: Tables) -> tuple[tuple[str, ...], list[Row]]:
    """The rows of the natural join, repeated by multiplicity, and their columns."""
    columns: tuple[str, ...] = ()
    found: list[Row] = [()]
    for name, schema in schemas.items():
        shared = [column for column in schema if column in columns]
        own, left = [list(schema).index(c) for c in shared], [columns.index(c) for c in shared]
        new = [i for i, column in enumerate(schema) if column not in columns]
        matches: dict[Row, list[Row]] = {}
        for row in tables[name].elements():
            matches.setdefault(tuple(row[i] for i in own), []).append(tuple(row[i] for i in new))
        found = [row + more for row in found for more in matches.get(tuple(row[i] for i in left), ())]
        columns += tuple(schema[i] for i in new)
    return columns, found


def duckdb_join(
    db: duckdb.DuckDBPyConnection,
    schemas: Mapping[str, Sequence[str]],
    tables: Tables,
    variables: Sequence[str],
    sources: Mapping[str, str],
) -> Counter[Row]:
    """The natural join of tables of integers, projected to some variables, as a multiset."""
    relations = ", ".join(_inline(name, schema, tables[sources.get(name, name)]) for name, schema in schemas.items())
    joined, known = "", set[str]()
    for name, schema in schemas.items():
        joined += f" {'NATURAL' if known & set(schema) else 'CROSS'} JOIN {name}" if joined else name
        known |= set(schema)
    return Counter(db.execute(f"WITH {relations} SELECT {', '.join(variables)} FROM {joined}").fetchall())


def _inline(name: str, schema: Sequence[str], table: Counter[Row]) -> str:
    rows = [f"({', '.join(map(str, row))})" for row in table.elements()]
    nothing = f"SELECT {', '.join('0' for _ in schema)} WHERE false"
    return f"{name}({', '.join(schema)}) AS ({'VALUES ' + ', '.join(rows) if rows else nothing})"


def apply(tables: dict[str, Counter[Row]], changes: Mapping[str, Sequence[tuple[Row, int]]]) -> None:
    for name, rows in changes.items():
        for row, times in rows:
            tables[name][row] += times
            assert tables[name][row] >= 0
            if not tables[name][row]:
                del tables[name][row]
