"""Adaptive views: counts, sums, groups and lists of triangles over three tables, and in one stream of edges."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from random import Random

from tests.conformance.program import Program, View
from workloads.query import NamedQuery
from workloads.streams import Batch

TABLES = {
    "r": "CREATE TABLE r (a BIGINT, b VARCHAR NOT NULL, w BIGINT)",
    "s": "CREATE TABLE s (b VARCHAR, c DATE, w BIGINT NOT NULL)",
    "t": "CREATE TABLE t (c DATE NOT NULL, a BIGINT NOT NULL, w DECIMAL(9,2))",
    "e": "CREATE STREAM e (source BIGINT NOT NULL, target BIGINT NOT NULL)",
}
_JOIN = "FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
_CYCLE = "FROM e x JOIN e y ON x.target = y.source JOIN e z ON y.target = z.source AND z.target = x.source"
_SQL = {
    "counted": f"SELECT COUNT(*) AS n {_JOIN}",
    "summed": f"SELECT SUM(r.w * s.w) AS n, COUNT(t.w) AS k {_JOIN} AND r.a > 1",
    "decimals": f"SELECT SUM(t.w * s.w) AS n {_JOIN}",
    "grouped": f"SELECT r.a, COUNT(*) AS n, AVG(r.w) AS m {_JOIN} GROUP BY r.a HAVING COUNT(*) > 1",
    "by_pair": f"SELECT s.c, r.b, SUM(r.w) AS n, COUNT(*) AS k {_JOIN} GROUP BY s.c, r.b",
    "listed": f"SELECT r.a, s.b, t.c {_JOIN}",
    "cycles": f"SELECT COUNT(*) AS n {_CYCLE}",
    "by_vertex": f"SELECT x.source, COUNT(*) AS n {_CYCLE} GROUP BY x.source",
    "in_order": "SELECT COUNT(*) AS n FROM e x, e y, e z WHERE x.target = y.source AND y.target = z.target "
    "AND x.source = z.source AND x.source < y.source AND y.source < z.target",
}
_DATES = (date(2024, 1, 1), date(2024, 2, 29), None)


def _row(random: Random, table: str) -> tuple[object, ...]:
    number = random.choice((0, 0, 0, 1, 2, 3))
    match table:
        case "r":
            return random.choice((number, None)), "pq"[number % 2], random.choice((None, 1, -2))
        case "s":
            return random.choice(("p", "q", None)), random.choice(_DATES), random.randrange(3)
        case "t":
            return random.choice(_DATES[:2]), number, random.choice((None, Decimal("1.50"), Decimal("-0.25")))
        case _:
            return number, random.randrange(4)


def _batches(count: int) -> list[Batch]:
    random, present = Random(3), {table: list[tuple[object, ...]]() for table in TABLES}
    found: list[Batch] = []
    for _ in range(count):
        batch: Batch = {table: [] for table in TABLES}
        for table, rows in present.items():
            for _ in range(random.randrange(6)):
                if rows and random.random() < 0.35:
                    batch[table].append((rows.pop(random.randrange(len(rows))), -1))  # type: ignore[arg-type]
                else:
                    rows.append(_row(random, table))
                    batch[table].append((rows[-1], 1))  # type: ignore[arg-type]
        found.append(batch)
    return found


def programs() -> list[Program]:
    late = {"summed", "grouped", "listed"}
    views = tuple(View(NamedQuery(name, sql), "adaptive", name in late) for name, sql in _SQL.items())
    return [Program("triangles", TABLES, views, _batches(10))]
