"""Queries over three small tables and one stream, chosen so that each brings its own kind of statement."""

from __future__ import annotations

from decimal import Decimal
from random import Random

from tests.conformance.program import Program, View
from workloads.query import NamedQuery
from workloads.streams import Batch

TABLES = {
    "r": "CREATE TABLE r (a BIGINT, b BIGINT)",
    "s": "CREATE TABLE s (b BIGINT, c BIGINT)",
    "t": "CREATE TABLE t (c BIGINT, a BIGINT, x DOUBLE)",
    "u": "CREATE STREAM u (a BIGINT, v DECIMAL(9,2))",
}

_SQL = {
    "filtered": "SELECT b, a + 1 AS next FROM r WHERE a > 1",
    "grouped": "SELECT b, COUNT(*) AS n, SUM(a) AS total, AVG(a) AS mean FROM r GROUP BY b",
    "joined": "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "star": "SELECT s.c, SUM(r.a * t.x) AS total FROM r, s, t WHERE r.b = s.b AND s.c = t.c GROUP BY s.c",
    "self_joined": "SELECT x.a, y.a AS other FROM r x, r y WHERE x.b = y.b AND x.a < y.a",
    "triangles": "SELECT COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a",
    "inequality": "SELECT SUM(r.a - s.c) AS total FROM r, s WHERE r.b > s.b",
    "nested": "SELECT COUNT(*) AS n FROM r WHERE r.a < (SELECT COUNT(*) FROM s) AND r.b <> 2",
    "correlated": "SELECT a, b FROM r WHERE a > (SELECT AVG(s.c) FROM s WHERE s.b = r.b)",
    "absent": "SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b)",
    "extremes": "SELECT b, MIN(a) AS low, MAX(a) AS high FROM r GROUP BY b",
    "least": "SELECT MIN(a) AS low FROM r",
    "least_of_groups": "SELECT b, MIN(a) AS low FROM r GROUP BY b",
    "without_duplicates": "SELECT DISTINCT b FROM r UNION SELECT c FROM s",
    "outer_joined": "SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b",
    "assigned_and_read": "SELECT x.b FROM r x, (SELECT s.c FROM r y LEFT JOIN s ON s.b <> y.b GROUP BY s.c) z",
    "streamed": "SELECT r.b, SUM(u.v) AS total FROM u JOIN r ON u.a = r.a GROUP BY r.b",
}
QUERIES = tuple(NamedQuery(name, sql) for name, sql in _SQL.items())
AMOUNTS = (Decimal("1.50"), Decimal("2.25"), Decimal("-1.00"))


def batches(seed: int, count: int = 12) -> list[Batch]:
    """Inserts, deletes of what is there, rows several times over, and NULLs."""
    random = Random(seed)
    present: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    return [_batch(random, present) for _ in range(count)]


def _batch(random: Random, present: dict[str, list[tuple[object, ...]]]) -> Batch:
    batch: Batch = {}
    for table, rows in present.items():
        changes = batch.setdefault(table, [])
        for _ in range(random.randint(0, 4)):
            if rows and random.random() < 0.4:
                changes.append((rows.pop(random.randrange(len(rows))), -1))  # type: ignore[arg-type]
            else:
                row, copies = _row(random, table), random.choice((1, 1, 1, 2))
                rows += [row] * copies
                changes.append((row, copies))  # type: ignore[arg-type]
    return batch


def _row(random: Random, table: str) -> tuple[object, ...]:
    def number() -> int | None:
        return random.choice((None, 1, 2, 3, 4))

    match table:
        case "t":
            return number(), number(), random.choice((0.5, 1.25, None))
        case "u":
            return number(), random.choice(AMOUNTS)
        case _:
            return number(), number()


def program() -> Program:
    """Every second view is declared over rows that are there; a stream keeps none."""
    late = {query.name for query in QUERIES[1::2]} - {"streamed"}
    return Program("small", TABLES, tuple(View(q, is_late=q.name in late) for q in QUERIES), batches(seed=5))
