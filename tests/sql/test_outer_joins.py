"""Outer joins over outer joins against DuckDB: a part of an operand stands for it only where that changes nothing."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.nodes import Rel
from viewlet.algebra.traverse import size, walk
from viewlet.sql import CreateTable, CreateView, bind_query, bind_statement, parse_statements, split_statements

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


LONG_CHAIN = """
    SELECT t0.k, COUNT(*) AS c, SUM(t2.v) AS x, MAX(s.v) AS y
    FROM t0 FULL JOIN t1 ON t0.k = t1.k FULL JOIN t2 ON t1.k = t2.k AND coalesce(t0.v, 0) <= t2.v
    RIGHT JOIN t3 ON t2.k = t3.k FULL JOIN (SELECT k, SUM(v) AS v FROM t4 GROUP BY k) AS s ON s.k = t0.k
    WHERE t1.v IS NULL GROUP BY t0.k
"""


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
        compare_changes(db, query, tables, rng)


def compare_changes(db: Any, query: str, tables: int, rng: random.Random, strategy: str = "auto") -> None:
    """Declares the query in an empty database, and compares it with DuckDB while random rows come and go."""
    for statement in TABLES[:tables]:
        db.execute(statement)
    db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {query}")
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


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("strategy", ["auto", "higher-order", "view-tree", "first-order", "recompute"])
def test_long_chains_agree_with_duckdb(strategy: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept in layers, whatever the strategy and the kinds of the tables."""
    monkeypatch.setenv("VIEWLET_JIT", "0")
    layers = play_batches(LONG_CHAIN, 5, random.Random(strategy + engine), engine, strategy)
    assert layers == ["joined1", "joined2", "joined3"]


@pytest.mark.parametrize("seed", range(QUERIES // 4))
def test_random_long_chains_agree_with_duckdb(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    rng = random.Random(f"long {seed}")
    count, engine = rng.choice((4, 5, 5)), rng.choice(("interpreter", "compiled"))
    columns = ", ".join(f"t{i}.k AS k{i}, t{i}.v AS v{i}, t{i}.n AS n{i}" for i in range(count))
    play_batches(f"SELECT {columns} FROM {random_from(rng, count)}", count, rng, engine, "auto")


def test_columns_merged_by_a_long_chain_agree_with_duckdb() -> None:
    joined = " ".join(f"FULL JOIN t{i} USING (k)" for i in range(1, 5))
    layers = play_batches(
        f"SELECT k, t0.v AS a, t4.n AS b FROM t0 {joined}", 5, random.Random(3), "interpreter", "auto"
    )
    assert len(layers) == 3


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_outer_joins_of_outer_joins_that_multiply_out_agree_with_duckdb(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No operand is large, but their product has sixteen terms."""
    monkeypatch.setenv("VIEWLET_JIT", "0")
    query = (
        "WITH w AS (SELECT t0.k, t2.v FROM t0 JOIN t1 ON t0.n = t1.n LEFT JOIN t2 ON t1.k = t2.k AND t0.v = t2.v) "
        "SELECT a.k AS x, c.v AS y, COUNT(*) AS c FROM w AS b, w AS a FULL JOIN w AS c ON a.k = c.k WHERE b.v = 1 "
        "GROUP BY a.k, c.v"
    )
    assert play_batches(query, 3, random.Random(engine), engine, "auto")


def length_of_triggers(query: str, strategy: str) -> int:
    """How much text the triggers of a query over the first three tables are."""
    with viewlet.connect(engine="interpreter") as db:
        for statement in TABLES[:3]:
            db.execute(statement)
        db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {query}")
        return len(db.explain("q", "triggers"))


def play_batches(query: str, tables: int, rng: random.Random, engine: str, strategy: str) -> list[str]:
    """Compares a view over tables and streams after batches that change several of them; returns its layers."""
    with viewlet.connect(engine=engine) as db, duckdb.connect() as oracle:
        for statement in TABLES[:tables]:
            db.execute(statement.replace("TABLE", rng.choice(("TABLE", "STREAM"))))
            oracle.execute(statement)
        db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {query}")
        live: dict[str, list[tuple[int | None, int | None, int]]] = {f"t{i}": [] for i in range(tables)}
        for _ in range(4):
            batch: dict[str, list[dict[str, object]]] = {}
            for name, rows in live.items():
                gone = [rows.pop(rng.randrange(len(rows))) for _ in range(min(len(rows), rng.randint(0, 2)))]
                come = [random_row(rng) for _ in range(rng.randint(0, 4))]
                rows += come
                signed = [(row, -1) for row in gone] + [(row, 1) for row in come]
                batch[name] = [dict(zip(("k", "v", "n", "_multiplicity"), (*row, n), strict=True)) for row, n in signed]
                oracle.execute(f"DELETE FROM {name}")
                if rows:
                    oracle.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
            db.apply({name: changes for name, changes in batch.items() if changes})
            assert Counter(db.view("q").rows()) == Counter(oracle.execute(query).fetchall()), query
        return [line[:-1] for line in db.explain("q", stage="algebra").splitlines() if line.startswith("joined")]


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


@pytest.mark.parametrize("join", ["ON t{}.k = t{}.k", "USING (k)"])
def test_a_chain_of_eleven_tables_has_small_layers(join: str) -> None:
    """Each layer mentions the one before it by name, and has the columns that are read later."""
    names = [f"t{i}" for i in range(11)]
    created = parse_statements(";".join(f"CREATE TABLE {name} (k BIGINT, v BIGINT)" for name in names), {})
    schemas = {each.table.name: each.table for each in created if isinstance(each, CreateTable)}
    joined = " ".join(f"FULL JOIN t{i} {join.format(i - 1, i)}" for i in range(1, 11))
    sql = f"CREATE MATERIALIZED VIEW q AS SELECT t0.v AS a, t10.v AS b FROM t0 {joined}"
    bound = bind_statement(next(split_statements(sql)), schemas, layered=True)
    assert isinstance(bound, CreateView)
    query = bound.definition
    assert isinstance(query, LayeredQuery)
    assert len(query.layers) == 9
    assert max(size(each.query.expr) for each in query.layers) < 100
    assert {column.name.split("_")[0] for column in query.layers[-1].table.columns} <= {"v", "k"}
    assert max(len(each.table.columns) for each in query.layers) <= (2 if "ON" in join else 11)


def test_a_part_that_reads_the_row_around_it_is_no_layer() -> None:
    query = (
        "SELECT k, (SELECT COUNT(*) FROM t1 FULL JOIN t2 ON t1.k = t2.k AND t1.v = t0.v "
        "FULL JOIN t3 ON t2.k = t3.k FULL JOIN t4 ON t3.k = t4.k AND t4.v <= t0.n) AS c FROM t0"
    )
    play_batches(query, 5, random.Random(8), "interpreter", "auto")


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
