"""A table joined with itself: the terms of a change add to the same count, each of them, in generated code too."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from viewlet.connection.spark_facade import connect_inline

TABLES = "CREATE TABLE r (k INTEGER, v INTEGER); CREATE TABLE s (k INTEGER, v INTEGER)"
LEAST = "(SELECT v, MIN(v) AS m FROM s GROUP BY v)"
QUERIES = (
    f"SELECT c.m, a.v FROM r AS a JOIN r AS b ON b.v = a.v JOIN {LEAST} AS c ON c.m = b.v",
    f"SELECT c.m, a.v FROM r AS a JOIN r AS b ON b.v = a.v JOIN {LEAST} AS c ON c.m IS NOT DISTINCT FROM b.v",
    f"SELECT a.k FROM r AS a JOIN r AS b ON b.v = a.v JOIN r AS d ON d.v = a.v JOIN {LEAST} AS c ON c.v = b.v",
    "SELECT a.v FROM r AS a, r AS b, r AS c WHERE a.v = b.v AND b.v = c.v",
    "SELECT a.v, b.k FROM r AS a JOIN r AS b ON a.v = b.v JOIN s ON s.v = a.v JOIN s AS t ON t.v = b.v",
    "SELECT a.v, COUNT(*) AS n, SUM(a.k) AS x FROM r AS a JOIN r AS b ON a.v = b.v GROUP BY a.v",
    "SELECT DISTINCT a.v FROM r AS a JOIN r AS b ON a.v = b.v WHERE EXISTS (SELECT 1 FROM s WHERE s.v = b.k)",
)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("strategy", ["auto", "higher-order", "first-order", "view-tree"])
def test_every_term_counts(strategy: str, query: str, tmp_path: Path) -> None:
    choice, kept = random.Random(7), {"r": list[tuple[int, int | None]](), "s": list[tuple[int, int | None]]()}
    inline = connect_inline(tmp_path, choice.choice((1, 3)), sync=False, engine="compiled")
    with inline as db, duckdb.connect() as expected:
        for each in (db, expected):
            each.execute(TABLES)
        db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {query}")
        for step in range(12):
            for name, rows in kept.items():
                gone = choice.sample(rows, choice.randint(0, len(rows) // 2))
                new = [(choice.randint(0, 1), choice.choice((0, 1, 2, None))) for _ in range(choice.randint(0, 4))]
                changes = [(row, -1) for row in gone] + [(row, 1) for row in new]
                db.apply({name: [{"k": k, "v": v, "_multiplicity": n} for (k, v), n in changes]})
                for row in gone:
                    rows.remove(row)
                rows += new
                expected.execute(f"DELETE FROM {name}")
                if rows:
                    expected.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
            assert Counter(db.view("q").rows()) == Counter(expected.execute(query).fetchall()), step
