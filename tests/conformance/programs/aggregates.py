"""User-defined aggregates that DuckDB has under other names: alone, beside built-in ones, over joins, and filtered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.conformance.program import AggregateView, Program
from workloads.query import NamedQuery
from workloads.streams import Batch

TABLES = {
    "r": "CREATE TABLE r (a BIGINT, b BIGINT, x BIGINT)",
    "s": "CREATE TABLE s (b BIGINT, c VARCHAR)",
}
VIEWS = {
    "alone": "SELECT a, {mix}(x) AS m, {squares}(x) AS q FROM r GROUP BY a",
    "beside": "SELECT a, {mix}(x) AS m, COUNT(*) AS n, MAX(x) AS top, COUNT(DISTINCT b) AS d, AVG(x) AS mean"
    " FROM r GROUP BY a",
    "joined": "SELECT c, {mix}(x + 1) AS m, SUM(x) AS total FROM r JOIN s USING (b) GROUP BY c",
    "outer_joined": "SELECT r.a, {mix}(s.b) AS m FROM r LEFT JOIN s ON r.b = s.b AND s.c = 'u' GROUP BY r.a",
    "kept_groups": "SELECT a % 2 AS parity, {squares}(x) FILTER (WHERE x > 2) AS q FROM r GROUP BY a % 2"
    " HAVING {mix}(x) > 1 AND COUNT(x) > 1",
    "whole": "SELECT {mix}(x) AS m, {squares}(x) + COUNT(*) AS q FROM r WHERE b IS NOT NULL",
    "distinct_results": "SELECT DISTINCT {mix}(x) AS m FROM r GROUP BY a, b",
}
LATE = ("beside", "whole")
OURS = {"mix": "bit_mix", "squares": "squares"}


def programs() -> Iterator[Program]:
    for kind in ("TABLE", "STREAM"):
        tables = {name: text.replace("TABLE", kind) for name, text in TABLES.items()}
        views = tuple(
            AggregateView(
                NamedQuery(name, sql.format(**OURS)), is_late=kind == "TABLE" and name in LATE, answer=_in_duckdb(sql)
            )
            for name, sql in VIEWS.items()
        )
        yield Program(f"aggregates over a {kind.lower()}", tables, views, _batches(Random(9)))


def _in_duckdb(sql: str) -> str:
    """The query with aggregates of DuckDB; for no values bit_mix() is 0."""
    sql = re.sub(r"\{mix\}\((.*?)\)", r"COALESCE(BIT_XOR(\1), 0)", sql)
    return re.sub(r"\{squares\}\((.*?)\)", r"SUM(\1 * \1)", sql)


def _batches(random: Random) -> list[Batch]:
    """Rows come and go; the last batch takes all of them out."""
    held: dict[str, list[Any]] = {"r": [], "s": []}
    batches: list[Batch] = []
    for _ in range(6):
        batch: dict[str, list[tuple[Any, int]]] = {"r": [], "s": []}
        for name, rows in held.items():
            gone = random.sample(rows, len(rows) // 3)
            for row in gone:
                rows.remove(row)
            new = [_row(name, random) for _ in range(8 if name == "r" else 3)]
            rows += new
            batch[name] = [*((row, 1) for row in new), *((row, -1) for row in gone)]
        batches.append(batch)
    batches.append({name: [(row, -1) for row in rows] for name, rows in held.items()})
    return batches


def _row(table: str, random: Random) -> tuple[Any, ...]:
    key = random.choice([None, 1, 2, 3])
    if table == "s":
        return key, random.choice("uv")
    return random.choice([None, 1, 2, 3, 4]), key, random.choice([None, *range(9)])
