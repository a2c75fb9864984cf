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
        ("star", 4, 8),
        ("left joins, star", 4, 8),
        ("AND", 50, 200),
        ("nested conditions", 1, 2),
    ],
)
def test_programs_grow_no_worse_than_quadratically(family: str, small: int, large: int) -> None:
    growth = nodes(program_of(family, large)) / nodes(program_of(family, small))
    assert growth <= 1.5 * (large / small) ** 2


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize(
    ("family", "size"),
    [
        ("left joins, star", 4),
        ("left joins, star", 5),
        ("left joins, chain", 4),
        ("left joins to aggregates", 3),
        ("full outer joins", 3),
        ("nested aggregates", 3),
        ("nested conditions", 2),
        ("AND of <>", 6),
        ("OR of =", 6),
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
        for _ in range(3):
            for name, rows in live.items():
                gone = [rows.pop(rng.randrange(len(rows))) for _ in range(min(len(rows), rng.randint(0, 2)))]
                come = [random_row(statement_of(name, tables), rng) for _ in range(rng.randint(0, 4))]
                rows += come
                db.delete(name, gone)
                db.insert(name, come)
                expected = db.execute(view.split(" AS ", 1)[1]).to_pylist()
                assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in expected)


def statement_of(name: str, tables: list[str]) -> str:
    return next(each for each in tables if each.split()[2] == name)


def random_row(statement: str, rng: random.Random) -> tuple[object, ...]:
    columns = statement[statement.index("(") + 1 : -1].split(",")
    return tuple(rng.choice(["name 1", "a", None] if "VARCHAR" in each else [0, 1, 2, 3, 7, None]) for each in columns)
