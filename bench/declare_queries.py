"""Families of queries with a size: what grows is one thing a query can have many of.

python -m bench.declare_queries chain 6          declares the chain join of six tables, and prints its seconds of CPU
python -m bench.declare_queries chain 6 spark    the same on the host of Spark without a JVM, then those of writing code

Each process measures one declaration with the `viewlet` that it imports, without generated code: writing that for the
executors of Spark is measured apart. A small view is declared first, so that imports are not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import viewlet
from viewlet.connection.spark_facade import connect_inline


@dataclass(frozen=True, slots=True)
class Family:
    """Statements for a size, the sizes to measure, and the largest one that has to stay below the limit."""

    statements: Callable[[int], list[str]]
    sizes: tuple[int, ...]
    bound: int


def view(query: str) -> str:
    return f"CREATE MATERIALIZED VIEW q AS {query}"


def links(count: int) -> list[str]:
    """Tables t0, t1, ... in which a column of each meets a column of the next."""
    return [f"CREATE TABLE t{i} (a{i} BIGINT, a{i + 1} BIGINT, v{i} BIGINT)" for i in range(count)]


def wide(columns: int = 4) -> list[str]:
    shape = ", ".join(f"x{i} BIGINT" for i in range(columns))
    return [f"CREATE TABLE r (k BIGINT, s VARCHAR, {shape})", "CREATE TABLE u (k BIGINT, y BIGINT)"]


def chain(n: int) -> list[str]:
    joined = " ".join(f"JOIN t{i} ON t{i - 1}.a{i} = t{i}.a{i}" for i in range(1, n))
    return [*links(n), view(f"SELECT t0.a0, SUM(t{n - 1}.v{n - 1}) AS s FROM t0 {joined} GROUP BY t0.a0")]


def star(n: int) -> list[str]:
    tables = [f"CREATE TABLE d{i} (k{i} BIGINT PRIMARY KEY, g{i} BIGINT)" for i in range(1, n)]
    fact = f"CREATE TABLE f ({', '.join(f'k{i} BIGINT' for i in range(1, n))}, x BIGINT)"
    joined = " ".join(f"JOIN d{i} ON f.k{i} = d{i}.k{i}" for i in range(1, n))
    return [fact, *tables, view(f"SELECT d1.g1, SUM(f.x) AS s, COUNT(*) AS n FROM f {joined} GROUP BY d1.g1")]


def left_aggregates(n: int, outputs: int = 2) -> list[str]:
    tables = [f"CREATE TABLE u{i} (k BIGINT, y BIGINT)" for i in range(n)]
    sums = ("SUM(y) AS s", "COUNT(*) AS n", "MAX(y) AS m", "COUNT(y) AS c")[:outputs]
    joined = " ".join(
        f"LEFT JOIN (SELECT k, {', '.join(sums)} FROM u{i} GROUP BY k) a{i} ON a{i}.k = r.k" for i in range(n)
    )
    columns = ", ".join(f"a{i}.{each.split()[-1]} AS {each.split()[-1]}{i}" for i in range(n) for each in sums)
    return ["CREATE TABLE r (k BIGINT, x BIGINT)", *tables, view(f"SELECT r.k, r.x, {columns} FROM r {joined}")]


def left_joins(n: int) -> list[str]:
    joined = " ".join(f"LEFT JOIN t{i} ON t{i - 1}.a{i} = t{i}.a{i}" for i in range(1, n))
    return [*links(n), view(f"SELECT t0.a0, COUNT(t{n - 1}.v{n - 1}) AS n FROM t0 {joined} GROUP BY t0.a0")]


def left_star(n: int) -> list[str]:
    tables = [f"CREATE TABLE d{i} (k BIGINT, g{i} BIGINT)" for i in range(1, n)]
    joined = " ".join(f"LEFT JOIN d{i} ON f.k = d{i}.k" for i in range(1, n))
    columns = ", ".join(f"d{i}.g{i}" for i in range(1, n))
    return ["CREATE TABLE f (k BIGINT, x BIGINT)", *tables, view(f"SELECT f.x, {columns} FROM f {joined}")]


def full_joins(n: int) -> list[str]:
    tables = [f"CREATE TABLE t{i} (k BIGINT, v{i} BIGINT)" for i in range(n)]
    joined = " ".join(f"FULL OUTER JOIN t{i} ON t{i - 1}.k = t{i}.k" for i in range(1, n))
    columns = ", ".join(f"t{i}.v{i}" for i in range(n))
    return [*tables, view(f"SELECT {columns} FROM t0 {joined}")]


def full_joins_using(n: int) -> list[str]:
    tables = [f"CREATE TABLE t{i} (k BIGINT, v{i} BIGINT)" for i in range(n)]
    joined = " ".join(f"FULL OUTER JOIN t{i} USING (k)" for i in range(1, n))
    return [*tables, view(f"SELECT k, {', '.join(f't{i}.v{i}' for i in range(n))} FROM t0 {joined}")]


def mixed_joins(n: int) -> list[str]:
    """LEFT, RIGHT and FULL OUTER JOINs in turn."""
    tables = [f"CREATE TABLE t{i} (k BIGINT, v{i} BIGINT)" for i in range(n)]
    sides = ("FULL", "LEFT", "RIGHT")
    joined = " ".join(f"{sides[i % 3]} JOIN t{i} ON t{i - 1}.k = t{i}.k" for i in range(1, n))
    return [*tables, view(f"SELECT {', '.join(f't{i}.v{i}' for i in range(n))} FROM t0 {joined}")]


def conjunction(n: int) -> list[str]:
    return [
        *wide(),
        view(f"SELECT x0 FROM r WHERE {' AND '.join(f'x{i % 4} + {i} > x{(i + 1) % 4}' for i in range(n))}"),
    ]


def disjunction(n: int) -> list[str]:
    return [
        *wide(),
        view(f"SELECT x0 FROM r WHERE {' OR '.join(f'x{i % 4} + {i} > x{(i + 1) % 4}' for i in range(n))}"),
    ]


def unequal(n: int) -> list[str]:
    return [*wide(), view(f"SELECT x0 FROM r WHERE {' AND '.join(f'x0 <> {i}' for i in range(n))}")]


def equal(n: int) -> list[str]:
    return [*wide(), view(f"SELECT x0 FROM r WHERE {' OR '.join(f'x0 = {i}' for i in range(n))}")]


def members(n: int) -> list[str]:
    return [*wide(), view(f"SELECT x0 FROM r WHERE x0 IN ({', '.join(map(str, range(n)))})")]


def text_members(n: int) -> list[str]:
    texts = ", ".join(f"'name {i}'" for i in range(n))
    return [*wide(), view(f"SELECT x0 FROM r WHERE s NOT IN ({texts})")]


def branches(n: int) -> list[str]:
    cases = " ".join(f"WHEN x0 = {i} THEN x1 + {i}" for i in range(n))
    return [*wide(), view(f"SELECT x2, SUM(CASE {cases} ELSE 0 END) AS s FROM r GROUP BY x2")]


def addition(n: int) -> list[str]:
    return [*wide(), view(f"SELECT x2, SUM({' + '.join(f'x{i % 4}' for i in range(n))}) AS s FROM r GROUP BY x2")]


def nested(n: int) -> list[str]:
    """Aggregates of aggregates."""
    query = "SELECT x0, x1, SUM(x2) AS a0 FROM r GROUP BY x0, x1"
    for level in range(1, n):
        query = f"SELECT x0, x1, SUM(a{level - 1}) AS a{level} FROM ({query}) q{level} GROUP BY x0, x1"
    return [*wide(), view(query)]


def nested_conditions(n: int) -> list[str]:
    """Each condition compares with an aggregate that has such a condition itself."""
    query = "SELECT SUM(x1) FROM r"
    for _ in range(n):
        query = f"SELECT SUM(x1) FROM r WHERE x0 > ({query})"
    return [*wide(), view(query.replace("SUM(x1)", "SUM(x1) AS s", 1))]


def correlated(n: int) -> list[str]:
    conditions = " AND ".join(f"r.x{i % 4} > (SELECT SUM(y) FROM u WHERE u.k = r.k AND u.y > {i})" for i in range(n))
    return [*wide(), view(f"SELECT k, x0 FROM r WHERE {conditions}")]


def existing(n: int) -> list[str]:
    conditions = " AND ".join(f"EXISTS (SELECT 1 FROM u WHERE u.k = r.x{i % 4} AND u.y > {i})" for i in range(n))
    return [*wide(), view(f"SELECT k, x0 FROM r WHERE {conditions}")]


def union(n: int) -> list[str]:
    return [*wide(), view(" UNION ALL ".join(f"SELECT k, x0 + {i} AS x FROM r WHERE x1 > {i}" for i in range(n)))]


def aggregates(n: int) -> list[str]:
    sums = ", ".join(f"SUM(x{i % 4} + {i}) AS s{i}" for i in range(n))
    return [*wide(), view(f"SELECT k, {sums} FROM r GROUP BY k")]


def joined_aggregates(n: int) -> list[str]:
    sums = ", ".join(f"SUM(r.x{i % 4} * u.y + {i}) AS s{i}" for i in range(n))
    return [*wide(), view(f"SELECT r.k, {sums} FROM r JOIN u ON r.k = u.k GROUP BY r.k")]


def columns(n: int) -> list[str]:
    return [*wide(n), view(f"SELECT {', '.join(f'x{i}' for i in range(n))} FROM r WHERE x0 > 1")]


def everything(n: int) -> list[str]:
    """n joins, n / 2 levels of aggregates and 100 n conditions."""
    inner = "SELECT a1, SUM(v0) AS x FROM t0 GROUP BY a1"
    for _ in range(n // 2 - 1):
        inner = f"SELECT a1, SUM(x) AS x FROM ({inner}) w GROUP BY a1"
    joined = " ".join(f"JOIN t{i} ON t{i - 1}.a{i} = t{i}.a{i}" for i in range(2, n + 1))
    tests = " AND ".join(f"t{1 + i % n}.v{1 + i % n} <> {i}" for i in range(50 * n))
    more = " AND ".join(f"t{1 + i % n}.v{1 + i % n} + {i} > t{1 + i % n}.a{1 + i % n}" for i in range(50 * n))
    source = f"({inner}) i JOIN t1 ON i.a1 = t1.a1 {joined}"
    return [*links(n + 1), view(f"SELECT t1.a1, SUM(i.x) AS s FROM {source} WHERE {tests} AND {more} GROUP BY t1.a1")]


def left_everything(n: int) -> list[str]:
    """n joins, half of them LEFT JOINs to aggregates with two outputs, and 100 n conditions on the rows joined."""
    half = n // 2
    joined = " ".join(f"JOIN t{i} ON t{i - 1}.a{i} = t{i}.a{i}" for i in range(1, n - half + 1))
    outer = " ".join(
        f"LEFT JOIN (SELECT k, SUM(y) AS s, COUNT(*) AS n FROM u{i} GROUP BY k) g{i} ON g{i}.k = t0.a0"
        for i in range(half)
    )
    tests = " AND ".join(f"t0.v0 + {i} > t{i % (n - half + 1)}.v{i % (n - half + 1)}" for i in range(100 * n))
    columns = ", ".join(f"g{i}.s AS s{i}, g{i}.n AS n{i}" for i in range(half))
    tables = [f"CREATE TABLE u{i} (k BIGINT, y BIGINT)" for i in range(half)]
    return [*links(n - half + 1), *tables, view(f"SELECT t0.a0, {columns} FROM t0 {joined} {outer} WHERE {tests}")]


def simple_views(n: int) -> list[str]:
    made = [
        f"CREATE MATERIALIZED VIEW v{i} AS SELECT x0, SUM(x1) AS s FROM r WHERE k % {n} = {i} GROUP BY x0"
        for i in range(n)
    ]
    return [*wide(), *made]


def views_over_views(n: int) -> list[str]:
    made = ["CREATE MATERIALIZED VIEW v0 AS SELECT k, SUM(x1) AS s FROM r GROUP BY k"]
    made += [f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, SUM(s) AS s FROM v{i - 1} GROUP BY k" for i in range(1, n)]
    return [*wide(), *made]


def stack(n: int, source: Callable[[int], str]) -> list[str]:
    """Queries of a sum and a count, each over the one before and with one key less; `source` names that one."""
    keys = [f"x{i}" for i in range(n + 1)]
    queries = [f"SELECT {', '.join(keys[:n])}, SUM(x{n}) AS s, COUNT(*) AS n FROM r GROUP BY {', '.join(keys[:n])}"]
    for level in range(1, n):
        kept = ", ".join(keys[: n - level])
        queries.append(f"SELECT {kept}, SUM(s) AS s, COUNT(*) AS n FROM {source(level)} GROUP BY {kept}")
    return queries


def stacked_views(n: int) -> list[str]:
    """Views that aggregate the view before."""
    queries = stack(n, lambda level: f"v{level - 1}")
    return [*wide(n + 1), *(f"CREATE MATERIALIZED VIEW v{i} AS {query}" for i, query in enumerate(queries))]


def stacked_tables(n: int) -> list[str]:
    """The same as derived tables of one query."""
    whole = ""
    for query in stack(n, lambda level: f"({{}}) q{level}"):
        whole = query.format(whole)
    return [*wide(n + 1), view(whole)]


def common_table(n: int) -> list[str]:
    """A common table expression that is joined with itself."""
    joined = " ".join(f"JOIN c c{i} ON c0.k = c{i}.s" for i in range(1, n))
    total = " + ".join(f"c{i}.s" for i in range(n))
    common = "WITH c AS (SELECT k, SUM(x1) AS s FROM r GROUP BY k)"
    return [*wide(), view(f"{common} SELECT c0.k, {total} AS s FROM c c0 {joined}")]


FAMILIES = {
    "chain": Family(chain, (3, 5, 8, 11), 11),
    "star": Family(star, (3, 5, 8, 11), 11),
    "left joins, chain": Family(left_joins, (3, 5, 8, 11), 11),
    "left joins, star": Family(left_star, (3, 5, 8, 11), 11),
    "left joins to aggregates": Family(left_aggregates, (1, 2, 3, 5, 10), 10),
    "left joins to 4 outputs": Family(lambda n: left_aggregates(n, 4), (1, 2, 3, 5, 10), 10),
    "full outer joins": Family(full_joins, (3, 5, 6, 8, 11), 11),
    "full outer joins, USING": Family(full_joins_using, (3, 5, 8, 11), 11),
    "outer joins, mixed": Family(mixed_joins, (3, 5, 8, 11), 11),
    "AND": Family(conjunction, (50, 200, 500, 1000), 1000),
    "OR": Family(disjunction, (50, 200, 500, 1000), 1000),
    "AND of <>": Family(unequal, (50, 200, 500, 1000), 1000),
    "OR of =": Family(equal, (50, 200, 500, 1000), 1000),
    "IN numbers": Family(members, (100, 1000, 10000), 10000),
    "NOT IN strings": Family(text_members, (100, 1000, 10000), 10000),
    "CASE branches": Family(branches, (50, 200, 500, 1000), 1000),
    "addition": Family(addition, (20, 50, 100, 200), 200),
    "nested aggregates": Family(nested, (1, 2, 3, 5), 5),
    "aggregates of derived tables": Family(stacked_tables, (1, 2, 3, 5), 5),
    "aggregates of views": Family(stacked_views, (1, 2, 3, 5), 5),
    "CTE used several times": Family(common_table, (1, 2, 3, 5), 5),
    "nested conditions": Family(nested_conditions, (1, 2, 3, 5), 5),
    "correlated subqueries": Family(correlated, (1, 2, 3, 5), 5),
    "EXISTS": Family(existing, (1, 2, 3, 5), 5),
    "UNION ALL": Family(union, (5, 20, 50, 100), 100),
    "aggregates": Family(aggregates, (5, 20, 50, 100), 100),
    "aggregates of a join": Family(joined_aggregates, (5, 20, 50), 50),
    "columns": Family(columns, (10, 50, 100, 200), 200),
    "joins, aggregates, conditions": Family(everything, (2, 4, 6, 10), 10),
    "outer joins, conditions": Family(left_everything, (2, 4, 6, 10), 10),
    "views": Family(simple_views, (50, 200, 500, 1000), 0),
    "views over views": Family(views_over_views, (5, 20, 50, 100), 0),
}


def declare(db: Any, statements: list[str]) -> float:
    """Seconds to execute the statements that make views, in a database that has declared one before."""
    db.execute("CREATE TABLE warm (a BIGINT, b BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW warmed AS SELECT a, SUM(b) AS s FROM warm WHERE a IN (1, 2) GROUP BY a")
    seconds = 0.0
    for statement in statements:
        begin = time.process_time()
        db.execute(statement)
        if "VIEW" in statement[:30]:
            seconds += time.process_time() - begin
    return seconds


def generate(db: Any) -> float:
    """Seconds to write the code of all views for the executors of Spark."""
    begin = time.process_time()
    for unit in db._host.cluster.units.values():
        unit.code(generated=True)
    return time.process_time() - begin


def main(family: str, size: str, host: str = "process") -> None:
    """Prints the seconds of a declaration; on Spark those of code generation too."""
    statements = FAMILIES[family].statements(int(size))
    if host == "process":
        print(declare(viewlet.connect(engine="interpreter"), statements))
        return
    with tempfile.TemporaryDirectory() as checkpoint, connect_inline(checkpoint, 2, sync=False) as db:
        print(declare(db, statements), flush=True)
        print(generate(db))


if __name__ == "__main__":
    main(*sys.argv[1:])
