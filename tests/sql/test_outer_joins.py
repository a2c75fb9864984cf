"""Outer joins over outer joins against DuckDB: a part of an operand stands for it only where that changes nothing."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

import viewlet
from viewlet.algebra.nodes import Rel
from viewlet.algebra.traverse import walk
from viewlet.sql import CreateTable, bind_query, parse_statements

QUERIES = int(os.environ.get("VIEWLET_OUTER_JOINS", "24"))
TABLES = [f"CREATE TABLE t{i} (k BIGINT, v BIGINT, n BIGINT NOT NULL)" for i in range(5)]
SIDES = ("FULL", "FULL", "LEFT", "RIGHT", "INNER")
CONDITIONS = (
    "{a}.k = {b}.k",
    "{a}.k = {b}.k",
    "{a}.n = {b}.n",
    "{a}.k = {b}.k AND {a}.v < {b}.v",
    "{a}.k = {b}.k AND {c}.v = {b}.v",
    "{a}.k = {b}.k AND {a}.v IS NULL",
    "{a}.k = {b}.k AND {b}.v > 0",
    "coalesce({a}.k, 1) = {b}.k",
    "coalesce({a}.k, {c}.k) = {b}.k",
    "{a}.k IS NOT DISTINCT FROM {b}.k",
)


def random_from(rng: random.Random, count: int) -> str:
    """A chain of joins; some operands are joins of two tables in parentheses."""
    joined, known, left = "t0", ["t0"], list(range(1, count))
    while left:
        new = [f"t{left.pop(0)}"]
        operand = new[0]
        if left and rng.random() < 0.3:
            new.append(f"t{left.pop(0)}")
            operand = f"({new[0]} {rng.choice(SIDES)} JOIN {new[1]} ON {new[0]}.k = {new[1]}.k)"
        a, b, c = rng.choice(known), rng.choice(new), rng.choice(known)
        joined += f" {rng.choice(SIDES)} JOIN {operand} ON {rng.choice(CONDITIONS).format(a=a, b=b, c=c)}"
        known += new
    return joined


def random_row(rng: random.Random) -> tuple[int | None, int | None, int]:
    return rng.choice((None, 1, 2, 3)), rng.choice((None, 0, 1)), rng.randint(1, 3)


@pytest.mark.parametrize("seed", range(QUERIES))
def test_random_outer_joins_agree_with_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice((3, 3, 4))
    query = f"SELECT {', '.join(f't{i}.k, t{i}.v, t{i}.n' for i in range(count))} FROM {random_from(rng, count)}"
    names = ", ".join(f"c{i}" for i in range(3 * count))
    compare_with_duckdb(query.replace("SELECT", "SELECT * FROM (SELECT", 1) + f") AS q({names})", count, rng)


@pytest.mark.parametrize("sides", [("FULL", "FULL"), ("FULL", "LEFT"), ("LEFT", "FULL"), ("FULL", "RIGHT")])
def test_merged_columns_agree_with_duckdb(sides: tuple[str, str]) -> None:
    first, second = sides
    joined = f"t0 {first} JOIN t1 USING (k) {second} JOIN t2 USING (k)"
    compare_with_duckdb(f"SELECT k, t0.v AS a, t1.v AS b, t2.v AS c FROM {joined}", 3, random.Random(first + second))


def compare_with_duckdb(query: str, tables: int, rng: random.Random, engine: str = "interpreter") -> None:
    with viewlet.connect(engine=engine) as db:
        for statement in TABLES[:tables]:
            db.execute(statement)
        db.execute(f"CREATE MATERIALIZED VIEW q AS {query}")
        live: dict[str, list[tuple[int | None, int | None, int]]] = {name: [] for name in db.tables}
        for _ in range(3):
            for name, rows in live.items():
                gone = [rows.pop(rng.randrange(len(rows))) for _ in range(min(len(rows), rng.randint(0, 2)))]
                come = [random_row(rng) for _ in range(rng.randint(0, 3))]
                rows += come
                db.delete(name, gone)
                db.insert(name, come)
            expected = db.execute(query).to_pylist()
            assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in expected), query


def atoms(count: int) -> int:
    """How many atoms the translation of a chain of FULL OUTER JOINs has."""
    created = parse_statements(";".join(f"CREATE TABLE t{i} (k BIGINT)" for i in range(count)), {})
    schemas = {each.table.name: each.table for each in created if isinstance(each, CreateTable)}
    joined = " ".join(f"FULL OUTER JOIN t{i} ON t{i - 1}.k = t{i}.k" for i in range(1, count))
    query = bind_query(f"SELECT count(*) AS n FROM t0 {joined}", schemas).query
    return sum(isinstance(node, Rel) for node in walk(query.expr))


def test_the_translation_of_full_outer_joins_at_most_doubles_with_a_table() -> None:
    """Of the rows without a match on the left, one table tells; the left side itself is in two terms."""
    assert atoms(6) <= 2 * atoms(5) + 6


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t0.k AS a, t0.v AS b, t0.n AS c, t1.n AS d, t2.k AS e, t2.v AS f, t2.n AS g "
        "FROM t0 FULL JOIN t1 ON t0.k = t1.k LEFT JOIN t2 ON t0.k = t2.k AND t0.v < t2.v",
        "SELECT n, (SELECT COUNT(*) FROM t0 WHERE t0.k > t.n AND t0.v > t.n AND t0.n > t.n) AS x "
        "FROM (VALUES (0), (1)) AS t(n)",
    ],
)
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_results_that_need_all_columns_of_a_table_agree_with_duckdb(
    query: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a result reads is a view, also where a table could serve as its own."""
    monkeypatch.setenv("VIEWLET_JIT", "0")
    compare_with_duckdb(query, 3, random.Random(query), engine)
