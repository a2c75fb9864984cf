"""Compares views over random streams on PostgreSQL or Spark SQL with the same views on DuckDB in this process.

    python -m tests.streams.random_hosts --host postgres --streams 8
    python -m tests.streams.random_hosts --host spark --streams 2 --patterns 4

Streams have late rows, deletes, NULLs, gaps, equal rows and batches that are delivered twice. Half of them roll up old
parts. After every batch the rows of every view are compared; doubles to twelve digits.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import viewlet
from tests.streams.matcher import random_pattern
from tests.streams.model import at, random_batches, signed
from tests.streams.postgres import cluster
from viewlet.streams import PartHost, PostgresHost, SparkSqlHost

STREAM = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT, k BIGINT NOT NULL) PARTITION LENGTH 60 BY ts {}"
ROLLED_UP = "ROLLUP INTERVAL '3' MINUTES AFTER INTERVAL '4' MINUTES"
QUERIES = (
    "SELECT g, SUM(x) AS x, AVG(x) AS mean, COUNT(*) AS n FROM m [WINDOW 6 MINUTES] GROUP BY g HAVING COUNT(*) > 1",
    "SELECT g, SUM(k) AS k, COUNT(k) AS n, SUM(x) AS x FROM m [WINDOW 7 MINUTES] GROUP BY g",
    "SELECT g, k, MAX(x) AS high, MIN(x) AS low FROM m [WINDOW 3 MINUTES] GROUP BY g, k",
    "SELECT g, STDDEV_SAMP(x) AS s, VAR_POP(k) AS v FROM m [WINDOW 4 MINUTES] GROUP BY g",
    "SELECT SUM(x) AS x, COUNT(*) AS n FROM m [WINDOW 5 MINUTES]",
    "SELECT g, MEDIAN(x) AS x FROM m [WINDOW 4 MINUTES] GROUP BY g",
    "SELECT g, window_start, SUM(x) AS x FROM TUMBLE(m, INTERVAL '3' MINUTES) GROUP BY g, window_start",
    """SELECT g, window_end, COUNT(*) AS n FROM HOP(m, INTERVAL '2' MINUTES, INTERVAL '4' MINUTES)
       GROUP BY g, window_end""",
    """SELECT g, window_start, window_end, COUNT(*) AS n, SUM(k) AS k
       FROM SESSION(m PARTITION BY g, INTERVAL '90' SECONDS) GROUP BY g, window_start, window_end""",
    "SELECT ts, g, x - LAG(x) OVER (PARTITION BY g ORDER BY ts) AS rise FROM m",
    "SELECT g, x, k, filled FROM GAPFILL(m PARTITION BY g)",
    "SELECT a.ts, a.g, a.x, b.x AS before FROM m AS a ASOF JOIN m AS b ON a.g = b.g AND a.ts > b.ts",
    """SELECT a.g, a.x, b.x AS other FROM m AS a JOIN m AS b ON a.g = b.g
       AND b.ts BETWEEN a.ts - INTERVAL '2' MINUTES AND a.ts + INTERVAL '1' MINUTE EMIT CHANGES""",
    """SELECT a.g, COUNT(*) AS n FROM m [WINDOW 2 MINUTES] AS a JOIN m [WINDOW 3 MINUTES] AS b ON a.k = b.k
       GROUP BY a.g""",
    """SELECT g, n, x FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES COUNT(*) AS n, LAST(x) AS x
       AFTER MATCH SKIP PAST LAST ROW PATTERN (a b+ c?) DEFINE b AS x < PREV(x), c AS x > PREV(x))""",
    """INITIALIZE v[i] AS SELECT g, x, 1 AS n FROM m[i] UPDATE v[j] AS
       SELECT new.g, new.x, COALESCE(old.n, 0) + 1 AS n FROM (SELECT g, MAX(x) AS x FROM m[j] GROUP BY g) AS new
       LEFT JOIN (SELECT g, MAX(n) AS n FROM v[j-1] GROUP BY g) AS old ON new.g IS NOT DISTINCT FROM old.g""",
)


def statements(seed: int, patterns: int) -> list[str]:
    chance = random.Random(seed)
    found = [f"CREATE VIEW v{number} AS {query.replace('v[', f'v{number}[')}" for number, query in enumerate(QUERIES)]
    for number in range(len(QUERIES), len(QUERIES) + patterns):
        variables, where, _ = random_pattern(chance)
        condition = f"WHERE {where}" if where else ""
        group = chance.choice(("g", "k", "g, k"))
        found.append(f"""CREATE VIEW v{number} AS SELECT {group}, COUNT(*) AS n, SUM(x) AS x FROM m
            PATTERN [{variables}] {condition} GROUP BY {group} ORDER BY g, x, k""")
    return [STREAM.format(ROLLED_UP if seed % 2 else ""), *found]


def rows_of(db: viewlet.Connection, name: str) -> Counter[str]:
    """The rows of a view; the last digits of doubles differ between hosts."""
    return Counter(
        repr(tuple(f"{value:.12g}" if isinstance(value, float) else value for value in row))
        for row in db.view(name).rows()
    )


def compare(host: PartHost, seed: int, patterns: int) -> int:
    """Plays one stream; returns how many rows were compared."""
    databases, compared = (viewlet.connect(), viewlet.connect(streams=host)), 0
    declared = statements(seed, patterns)
    for db in databases:
        for statement in declared:
            db.execute(statement)

    def values(chance: random.Random) -> tuple[Any, ...]:
        return chance.choice(("a", "b", None)), chance.choice((0, 1, 2, 3, 3, 4, None)), chance.choice((1, 2))

    for number, batch in enumerate(random_batches(seed, values, batches=9, minutes=6)):
        for db in databases:
            for _ in range(1 + number % 2):  # what is delivered twice is known by its id
                db.apply({"m": signed(batch, ("ts", "g", "x", "k"))}, batch_id=number)
            if number == 5:
                db.close_parts("m", max(row[0] for row, _ in batch if isinstance(row[0], type(at(0)))))
        for at_view, statement in enumerate(declared[1:]):
            expected, found = (rows_of(db, f"v{at_view}") for db in databases)
            assert found == expected, (seed, number, statement, found - expected, expected - found)
            compared += found.total()
    for db in databases:
        db.close()
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", choices=["postgres", "spark"], default="postgres")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--patterns", type=int, default=10)
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.host == "postgres":
            server = stack.enter_context(cluster())
        else:
            spark = viewlet.spark_session("local[1]", **{"spark.sql.shuffle.partitions": "1"})
            stack.callback(spark.stop)
        for seed in range(options.first, options.first + options.streams):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="viewlet-random-")))
            host = PostgresHost(server) if options.host == "postgres" else SparkSqlHost(spark, folder)
            print(f"stream {seed}: {compare(host, seed, options.patterns)} rows of views are equal", flush=True)


if __name__ == "__main__":
    main()
