"""Queries with many joins, outer joins, nested aggregates and conditions: their programs stay small, and right."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from inspect import unwrap
from types import FrameType

import pytest

import viewlet
from bench.declare_queries import FAMILIES
from viewlet.algebra.nodes import Expr
from viewlet.algebra.traverse import size as node_count
from viewlet.algebra.traverse import walk
from viewlet.sql import CreateTable, bind_query, parse_statements
from viewlet.triggers.compiler import _Compilation
from viewlet.triggers.join_tree.optimize import SEARCH_BUDGET, Optimizer
from viewlet.triggers.join_tree.tree import Tree
from viewlet.triggers.plan import plan_query
from viewlet.triggers.program import Program


def program_of(family: str, size: int) -> Program:
    *tables, view = FAMILIES[family].statements(size)
    schemas = {
        each.table.name: each.table for each in parse_statements(";".join(tables), {}) if isinstance(each, CreateTable)
    }
    plan = unwrap(plan_query)  # a plan that is remembered takes no calls
    return plan("q", bind_query(view.split(" AS ", 1)[1], schemas).query, schemas)


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


def calls(family: str, size: int) -> int:
    """How many calls of functions declaring a view takes: what seconds would tell, but the same on every machine."""
    return calls_of(lambda: program_of(family, size))


def calls_of(action: Callable[[], object]) -> int:
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("family", "small", "large"),
    [
        ("full outer joins", 2, 3),
        ("AND", 100, 400),
    ],
)
def test_calls_grow_no_worse_than_quadratically(family: str, small: int, large: int) -> None:
    program_of("chain", 2)  # what is computed once per process is not counted, and nothing of the family remembered
    few, many = calls(family, small), calls(family, large)
    assert many <= 2 * few * (large / small) ** 2
    assert many <= 1_500_000, "a million calls take about a second"


@pytest.mark.parametrize(
    ("family", "size"),
    [
        ("left joins, chain", 11),
        ("left joins to aggregates", 3),
        ("left joins to aggregates", 10),
        ("left joins to 4 outputs", 10),
        ("joins, aggregates, conditions", 10),
        ("outer joins, conditions", 6),
    ],
)
def test_the_largest_queries_are_compiled_with_bounded_work(
    family: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that go through the passes of all strategies, and sibling views that searches for trees weigh up."""
    nodes, weighed = [], []
    trace, best = _Compilation._trace, Optimizer.best

    def traced(self: _Compilation, name: str, subject: str, before: Expr, after: Expr) -> None:
        nodes.append(node_count(before) + node_count(after))
        trace(self, name, subject, before, after)

    def searched(self: Optimizer) -> Tree:
        tree = best(self)
        weighed.append(self.weighed)
        return tree

    monkeypatch.setattr(_Compilation, "_trace", traced)
    monkeypatch.setattr(Optimizer, "best", searched)
    program_of(family, size)
    assert sum(nodes) < 160_000
    assert sum(weighed) < 2 * SEARCH_BUDGET


@pytest.mark.parametrize("family", ["full outer joins", "full outer joins, USING", "outer joins, mixed"])
def test_chains_of_outer_joins_are_declared_with_work_that_grows_with_their_length(family: str) -> None:
    few, many = declaration_calls(family, 6), declaration_calls(family, 11)
    assert many <= 2 * few * (11 / 6)
    assert many <= 2_500_000, "a million calls take about a second"


def declaration_calls(family: str, size: int) -> int:
    *tables, view = FAMILIES[family].statements(size)
    with viewlet.connect(engine="interpreter") as db:
        for statement in tables:
            db.execute(statement)
        return calls_of(lambda: db.execute(view))


def test_a_strategy_that_was_left_out_is_told() -> None:
    with viewlet.connect(engine="interpreter") as db:
        for statement in FAMILIES["left joins, chain"].statements(8):
            db.execute(statement)
        assert "first-order: not considered, the query is too large for it" in db.explain("q", stage="cost")


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_many_tests_of_the_same_variables_are_one_condition(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    tests = " AND ".join(f"r.a + {i} > s.b - {i} * s.b" for i in range(20))
    query = f"SELECT r.k, r.a, s.b FROM r JOIN s ON r.k = s.k WHERE {tests} AND r.a < s.b + 9 AND r.a <> 4"
    with viewlet.connect(engine=engine) as db:
        db.execute("CREATE TABLE r (k BIGINT, a BIGINT)")
        db.execute("CREATE TABLE s (k BIGINT, b BIGINT)")
        db.execute(f"CREATE MATERIALIZED VIEW q AS {query}")
        assert db.explain("q", stage="algebra").count("{") == 3
        values = [(k, v) for k in (1, 2, None) for v in (-3, 0, 1, 4, None)]
        for table, rows, change in [
            ("r", values, db.insert),
            ("s", values[::2], db.insert),
            ("r", values[1::3], db.delete),
            ("s", values[1::2], db.insert),
        ]:
            change(table, rows)
            expected = db.execute(query).to_pylist()
            assert Counter(db.view("q").rows()) == Counter(tuple(row.values()) for row in expected)


def test_a_thousand_conditions_are_declared_as_few() -> None:
    assert nodes(program_of("AND", 1000)) < 20


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


NESTED = """
    WITH w AS (SELECT DISTINCT CASE WHEN t.x IS NULL
                                    OR r.d IN (SELECT MAX(u.m) FROM l FULL JOIN u ON l.w = u.m GROUP BY u.a)
                               THEN t.f ELSE r.a END AS c FROM t, r, s)
    SELECT COUNT(*) AS n, MIN(m) AS m FROM u WHERE e IN (
        SELECT MAX(r.a) FROM r, w WHERE (r.d, r.a) NOT IN (
            SELECT q.c, 1 FROM w p LEFT JOIN w q ON p.c IS NOT NULL WHERE q.c < p.c) GROUP BY r.a) GROUP BY a
"""
"""Its change holds what each level nests before and after: dozens of times the query."""


def test_views_with_deltas_much_larger_than_their_definitions_are_evaluated_again() -> None:
    tables = {"r": "a d", "s": "b", "t": "x f", "u": "a e m", "l": "w"}
    rng = random.Random(1)
    with viewlet.connect(engine="interpreter") as db:
        for name, columns in tables.items():
            db.execute(f"CREATE TABLE {name} ({', '.join(f'{each} BIGINT' for each in columns.split())})")
        made = calls_of(lambda: db.execute(f"CREATE MATERIALIZED VIEW v AS {NESTED}"))
        assert made < 2_500_000, "a million calls take about a second"
        for _ in range(12):
            name = rng.choice(sorted(tables))
            row = tuple(rng.choice((0, 1, 2, None)) for _ in tables[name].split())
            db.insert(name, [row, row])
            if rng.random() < 0.5:
                db.delete(name, [row])
            expected = db.execute(NESTED).to_pylist()
            assert Counter(db.view("v").rows()) == Counter(tuple(row.values()) for row in expected)
