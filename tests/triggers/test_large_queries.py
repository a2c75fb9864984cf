"""Queries with many joins, outer joins, nested aggregates and conditions: their programs stay small, and right."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import viewlet
from bench.declare_queries import FAMILIES
from viewlet.algebra.traverse import walk
from viewlet.sql import CreateTable, bind_query, parse_statements
from viewlet.triggers.program import Program
from viewlet.viewtree.plan import plan_query


def program_of(family: str, size: int) -> Program:
    *tables, view = FAMILIES[family].statements(size)
    schemas = {
        each.table.name: each.table for each in parse_statements(";".join(tables), {}) if isinstance(each, CreateTable)
    }
    return plan_query("q", bind_query(view.split(" AS ", 1)[1], schemas).query, schemas)


def nodes(program: Program) -> int:
    return sum(
        1 for trigger in program.triggers for each in trigger.statements for u in each.updates for _ in walk(u.expr)
    )


@pytest.mark.parametrize(
    ("family", "small", "large"),
    [
        ("star", 4, 7),
        ("left joins, star", 4, 6),
        ("AND", 50, 200),
        ("nested conditions", 1, 2),
    ],
)
def test_programs_grow_no_worse_than_quadratically(family: str, small: int, large: int) -> None:
    growth = nodes(program_of(family, large)) / nodes(program_of(family, small))
    assert growth <= 1.5 * (large / small) ** 2


def test_a_thousand_conditions_are_declared() -> None:
    assert nodes(program_of("AND", 1000)) > 1000


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize(
    ("family", "size"),
    [
        ("left joins, star", 4),
        ("left joins, chain", 4),
        ("left joins to aggregates", 2),
        ("full outer joins", 3),
        ("nested aggregates", 3),
        ("nested conditions", 2),
        ("AND of <>", 6),
        ("AND of <>", 100),
        ("OR of =", 6),
        ("OR of =", 100),
    ],
)
def test_large_queries_agree_with_duckdb(family: str, size: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    rng = random.Random(f"{family} {size}")
    *tables, view = FAMILIES[family].statements(size)
    with viewlet.connect(engine=engine) as db:
        for statement in (*tables, view):
            db.execute(statement)
        live: dict[str, list[tuple[object, ...]]] = {name: [] for name in db.tables}
        for _ in range(2):
            for name, rows in live.items():
                gone = [rows.pop(rng.randrange(len(rows))) for _ in range(min(len(rows), rng.randint(0, 2)))]
                come = [random_row(statement_of(name, tables), rng) for _ in range(rng.randint(0, 4))]
                rows += come
                db.delete(name, gone)
                db.insert(name, come)
                expected = db.execute(view.split(" AS ", 1)[1]).to_pylist()
                assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in expected)


def condition_of(where: str) -> str:
    db = viewlet.connect(engine="interpreter")
    db.execute("CREATE TABLE r (a BIGINT, b DOUBLE, s VARCHAR)")
    db.execute(f"CREATE MATERIALIZED VIEW q AS SELECT a FROM r WHERE {where}")
    return db.explain("q", stage="algebra")


@pytest.mark.parametrize(
    ("where", "merged"),
    [
        ("a = 1 OR a = 2 OR 3 = a OR a IN (4, 5, 6)", "in(a, 1, 2, 3, 4, 5, 6)"),
        ("a <> 1 AND a <> 2 AND a <> 3 AND b > 1", "not(in(a, 1, 2, 3))"),
        ("s NOT IN ('a', 'b', 'c') AND s <> 'd' AND s <> 'e'", "not(in(s, 'a', 'b', 'c', 'd', 'e'))"),
        ("CASE WHEN a <> 1 AND a <> 2 AND a <> 3 THEN b > 1 END", "not(in(a, 1, 2, 3))"),
    ],
)
def test_tests_against_constants_are_one_test_against_a_set(where: str, merged: str) -> None:
    assert merged in condition_of(where)


def test_few_tests_and_tests_of_different_scalars_stay_comparisons() -> None:
    assert "in(" not in condition_of("a = 1 OR a = 2 OR b = 1 OR b = 2 OR s = 'x'")


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize(
    "where",
    [
        f"a IN ({', '.join(map(str, range(100)))})",
        f"a NOT IN ({', '.join(map(str, range(100)))})",
        f"a NOT IN ({', '.join(map(str, range(100)))}, NULL)",
        f"a IN ({', '.join(map(str, range(100)))}, NULL) OR a > 150",
        f"(a IN ({', '.join(map(str, range(100)))})) IS NULL",
        f"b IN ({', '.join(f'{i}.5' for i in range(100))})",
        f"s NOT IN ({', '.join(repr(str(i)) for i in range(100))})",
    ],
)
def test_long_lists_of_constants_agree_with_duckdb(where: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    with viewlet.connect(engine=engine) as db:
        db.execute("CREATE TABLE r (a BIGINT, b DOUBLE, s VARCHAR)")
        db.execute(f"CREATE MATERIALIZED VIEW q AS SELECT a, b, s FROM r WHERE {where}")
        numbers = [None, *range(-5, 200, 7)]
        rows = [(n, None if n is None else n + n % 2 / 2, None if n is None else str(n)) for n in numbers]
        for changed in (rows, rows[::3]):
            (db.insert if changed is rows else db.delete)("r", changed)
            expected = db.execute(f"SELECT a, b, s FROM r WHERE {where}").to_pylist()
            assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in expected)
        if engine == "compiled":
            assert len(db.explain("q", stage="code")) < 40_000


def statement_of(name: str, tables: list[str]) -> str:
    return next(each for each in tables if each.split()[2] == name)


def random_row(statement: str, rng: random.Random) -> tuple[object, ...]:
    columns = statement[statement.index("(") + 1 : -1].split(",")
    return tuple(rng.choice(["name 1", "a", None] if "VARCHAR" in each else [0, 1, 2, 3, 7, None]) for each in columns)
