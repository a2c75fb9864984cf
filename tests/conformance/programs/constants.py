"""Queries whose answer has rows before the first change."""

from __future__ import annotations

from tests.conformance.program import Program, View
from workloads.query import NamedQuery
from workloads.streams import Batch

TABLES = {"c": "CREATE TABLE c (id INTEGER, w INTEGER, y DOUBLE)"}
_SQL = {
    "counted": "SELECT t.n, COUNT(c.id) AS k FROM (VALUES (1), (2), (3)) AS t(n) LEFT JOIN c ON c.w = t.n GROUP BY t.n",
    "values_only": "SELECT n, s FROM (VALUES (1, 'a'), (2, NULL)) AS t(n, s)",
    "absent": "SELECT n FROM (VALUES (1), (2)) AS t(n) WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.w = t.n)",
    "one_more": "SELECT w FROM c UNION ALL SELECT 7",
    "one_more_in_a_group": "SELECT w, COUNT(*) AS k FROM (SELECT w FROM c UNION ALL SELECT 1) z GROUP BY w",
    "united": "SELECT w FROM c UNION SELECT 7",
    "left_over": "SELECT n FROM (VALUES (1), (2)) AS t(n) EXCEPT SELECT w FROM c",
    "nothing_counted": "SELECT COUNT(*) AS k, SUM(y) AS total, MAX(w) AS high FROM c",
    "full_joined": "SELECT t.n, c.w FROM (VALUES ('a'), ('b')) AS t(n) FULL JOIN c ON c.w > 1",
    "scalar": "SELECT t.n, (SELECT SUM(y) FROM c WHERE c.w = t.n) AS total FROM (VALUES (1), (2)) AS t(n)",
    "doubles": "SELECT t.y, COUNT(c.id) AS k FROM (VALUES (0.5e0), (1e0), (-0e0)) AS t(y) "
    "LEFT JOIN c ON c.y = t.y GROUP BY t.y",
    "extreme": "SELECT MAX(t.n) AS high, SUM(t.n) AS total FROM (VALUES (1.5), (2.5)) AS t(n) LEFT JOIN c ON c.w = t.n",
    "nested": "SELECT k, COUNT(*) AS n FROM (SELECT t.n, COUNT(c.id) AS k FROM (VALUES (1), (2), (3)) AS t(n) "
    "LEFT JOIN c ON c.w = t.n GROUP BY t.n) z GROUP BY k",
}  # fmt: skip
QUERIES = tuple(NamedQuery(name, sql) for name, sql in _SQL.items())
BATCHES: list[Batch] = [
    {"c": [((1, 1, 0.5), 1), ((2, 1, 1.0), 1)]},
    {"c": [((1, 1, 0.5), -1), ((3, 2, 0.5), 1)]},
    {"c": [((2, 1, 1.0), -1), ((3, 2, 0.5), -1)]},
    {"c": [((4, 7, 0.5), 1), ((5, 7, 0.0), 1)]},
]


def program() -> Program:
    return Program("constants", TABLES, tuple(View(query) for query in QUERIES), BATCHES)
