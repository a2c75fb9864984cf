"""The proof: every view equals what DuckDB computes from scratch over the rows that are left.

The demonstration keeps its own account of those rows, so the check does not rest on what Viewlet believes its tables
hold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.demo.views import SCHEMA, VIEWS, DemoView
from viewlet.duckdb_access import open_duckdb
from viewlet.errors import interruptible

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one view compares with its recomputation; `difference` is empty when they agree."""

    view: DemoView
    rows: int
    difference: str
    duckdb_seconds: float

    @property
    def agrees(self) -> bool:
        return not self.difference


class Recomputation:
    """A DuckDB database with the surviving rows, ready to answer the queries of the views from scratch."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self._db = open_duckdb()
        for name, declaration in SCHEMA.items():
            self._db.execute(declaration.replace("STATIC TABLE", "TABLE"))
            self._db.register("incoming", tables[name])
            self._db.execute(f"INSERT INTO {name} SELECT * FROM incoming")
            self._db.unregister("incoming")

    def verdict(self, view: DemoView, maintained: Sequence[tuple[Any, ...]]) -> Verdict:
        """Compare the rows of a maintained view, in their order, with DuckDB's."""
        start = time.perf_counter()
        with interruptible(self._db):
            expected = self._db.execute(view.query).fetchall()
        seconds = time.perf_counter() - start
        return Verdict(view, len(expected), first_difference(list(maintained), expected), seconds)


def verdicts(tables: dict[str, Any], maintained: dict[str, Rows]) -> list[Verdict]:
    recomputation = Recomputation(tables)
    return [recomputation.verdict(view, maintained[view.name]) for view in VIEWS]


def first_difference(ours: Rows, theirs: Rows) -> str:
    """Say where two answers part, or nothing; averages may differ in the last bits of a double.

    >>> first_difference([(1, 0.1 + 0.2)], [(1, 0.3)])
    ''
    >>> first_difference([(1, 2)], [(1, 3)])
    'row 1 is (1, 2), recomputed (1, 3)'
    """
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, recomputed {len(theirs)}"
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
        if not _same(mine, other):
            return f"row {number} is {mine}, recomputed {other}"
    return ""


def _same(mine: Iterable[Any], other: Iterable[Any]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(mine, other, strict=True)
    )
