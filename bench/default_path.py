"""What declarations as people write them cost: columns that may be NULL, against the same columns NOT NULL.

python -m bench.default_path
python -m bench.default_path --queries q01,q05,bsp,products --batches 20

Every query runs over two databases that differ in `NOT NULL` alone; keys stay what they are. No row has a NULL, so that
both do the same work. Both take the same batches in turn, columns of the types of the tables, each of them deleting
rows and inserting them again, and what is compared are medians of processor time and the bytes of the stored views.
Bars: 1.3 in time, 1.5 in memory.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

import pyarrow as pa
import typer

import viewlet
from workloads import finance, housing, tpch
from workloads.small_tpch import small_database

TIME_BAR, MEMORY_BAR = 1.3, 1.5
JOIN = "FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c"
CYCLE = "FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c AND t.a = r.a"


@dataclass(frozen=True)
class Case:
    """One query, its tables, and the rows that they are filled with; those of `changing` leave and come back."""

    query: str
    sql: str
    tables: Mapping[str, str]
    rows: Mapping[str, list[tuple[Any, ...]]]
    changing: str


@dataclass(frozen=True)
class Measured:
    """Milliseconds of a batch, and bytes."""

    milliseconds: float
    bytes: int


def cases(size: int) -> Iterator[Case]:
    random = Random(1)
    orders = small_database(1, size / 100)
    for query in tpch.QUERIES:
        yield Case(query.name, query.sql, tpch.TABLES, orders, "lineitem")
    book = {
        side: [
            (i, i, random.randrange(finance.BROKERS), random.randint(1, 100), random.randint(1, 50_000))
            for i in range(size // 10)
        ]
        for side in finance.TABLES
    }
    for query in finance.QUERIES:
        yield Case(query.name, query.sql, finance.TABLES, book, "bids")
    plain = {
        "r": "CREATE TABLE r (a BIGINT NOT NULL, b BIGINT NOT NULL)",
        "s": "CREATE TABLE s (a BIGINT NOT NULL, c BIGINT NOT NULL, e BIGINT NOT NULL)",
        "t": "CREATE TABLE t (c BIGINT NOT NULL, d BIGINT NOT NULL)",
    }
    some = {
        name: [tuple(random.randrange(size // 20) for _ in range(columns)) for _ in range(size)]
        for name, columns in (("r", 2), ("s", 3), ("t", 2))
    }
    for name, sums in (
        ("products", "SUM(r.b * t.d * s.e) AS v"),
        ("averages", "AVG(r.b * s.e) AS x, VAR_POP(t.d) AS y, COUNT(r.b) AS n"),
        ("cases", "SUM(CASE WHEN s.e > 9 THEN r.b * t.d END) AS v, SUM(COALESCE(r.b, t.d)) AS w"),
        ("extremes", "MIN(r.b) AS x, MAX(t.d) AS y"),
    ):
        yield Case(name, f"SELECT s.a, s.c, {sums} {JOIN} GROUP BY s.a, s.c", plain, some, "s")
    cycle = {
        name: f"CREATE TABLE {name} ({x} BIGINT NOT NULL, {y} BIGINT NOT NULL, w BIGINT NOT NULL)"
        for name, x, y in (("r", "a", "b"), ("s", "b", "c"), ("t", "c", "a"))
    }
    edges = {name: [tuple(random.randrange(size // 40) for _ in range(3)) for _ in range(size)] for name in cycle}
    yield Case("triangles", f"SELECT COUNT(*) AS n {CYCLE}", cycle, edges, "s")
    yield Case("weights", f"SELECT SUM(r.w * s.w * t.w) AS n {CYCLE}", cycle, edges, "s")
    homes = housing.housing_database(1, postcodes=size // 4)
    columns = {
        name: f"CREATE TABLE {name} ({', '.join(f'{column} DOUBLE NOT NULL' for column in schema)})".replace(
            "postcode DOUBLE", "postcode BIGINT"
        )
        for name, schema in housing.RELATIONS.items()
    }
    joined = " NATURAL JOIN ".join(housing.RELATIONS)
    yield Case("sums of houses", f"SELECT SUM(price * averagesalary) AS v FROM {joined}", columns, homes, "House")
    yield Case("cofactor", f"SELECT COFACTOR(livingarea, price, averagesalary) FROM {joined}", columns, homes, "House")


def measure(case: Case, engine: str, batches: int, batch: int) -> tuple[Measured, Measured]:
    """The figures NOT NULL, and nullable."""
    both = [_filled(case, engine, ddl) for ddl in (case.tables, {n: nullable(d) for n, d in case.tables.items()})]
    whole = both[0][1][case.changing]
    times: tuple[list[float], list[float]] = [], []
    for number in range(batches + 2):
        begin = number * batch % max(len(whole) - batch, 1)
        part = whole.slice(begin, batch)
        for i in (0, 1) if number % 2 else (1, 0):
            started = time.process_time()
            both[i][0].delete(case.changing, part)
            both[i][0].insert(case.changing, part)
            if number >= 2:
                times[i].append(time.process_time() - started)
    found = []
    for (db, _), own in zip(both, times, strict=True):
        sizes: Any = db.view("v").stats().get("bytes", {})
        held = sum(sizes.values()) if isinstance(sizes, Mapping) else sizes
        found.append(Measured(1e3 * statistics.median(own), held))
    return found[0], found[1]


def nullable(ddl: str) -> str:
    return re.sub(r" NOT NULL", "", ddl)


def _filled(case: Case, engine: str, tables: Mapping[str, str]) -> tuple[viewlet.Connection, dict[str, pa.Table]]:
    db = viewlet.connect(engine=engine)
    for ddl in tables.values():
        db.execute(ddl)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {case.sql}")
    contents = {}
    for name, rows in case.rows.items():
        columns = db.table(name).columns
        contents[name] = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    db.apply(contents)
    return db, {name: db.table(name).to_arrow() for name in case.rows}


def main(
    queries: Annotated[str, typer.Option(help="q01,bsp,products,...; all when empty")] = "",
    engine: Annotated[str, typer.Option(help="interpreter or compiled")] = "compiled",
    size: Annotated[int, typer.Option(help="rows of the largest table, about")] = 20_000,
    batches: Annotated[int, typer.Option(help="batches that are measured")] = 15,
    batch: Annotated[int, typer.Option(help="rows that a batch deletes and inserts again")] = 1_000,
) -> None:
    wanted = {name.strip() for name in queries.split(",") if name.strip()}
    typer.echo("| query | ms NOT NULL | ms nullable | ratio | KB NOT NULL | KB nullable | ratio |")
    typer.echo("|---|---|---|---|---|---|---|")
    for case in cases(size):
        if wanted and case.query not in wanted:
            continue
        plain, other = measure(case, engine, batches, min(batch, len(case.rows[case.changing]) // 2))
        slower = other.milliseconds / plain.milliseconds
        larger = other.bytes / plain.bytes if plain.bytes else 1.0
        mark = " **" if slower > TIME_BAR or larger > MEMORY_BAR else ""
        typer.echo(
            f"| {case.query} | {plain.milliseconds:.2f} | {other.milliseconds:.2f} | {slower:.2f} |"
            f" {plain.bytes / 1e3:.0f} | {other.bytes / 1e3:.0f} | {larger:.2f} |{mark}"
        )


if __name__ == "__main__":
    typer.run(main)
