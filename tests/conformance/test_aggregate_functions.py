"""Nested aggregates that statements repeat, as functions of generated code: the rows of DuckDB, and less code."""

from __future__ import annotations

import random
import re
from collections import Counter
from inspect import unwrap

import pytest

import viewlet
from tests.sql.test_large_changes import COMPARED
from tests.sql.test_outer_joins import TABLES, play_batches
from viewlet.algebra.nodes import Cond, Lift, Sum, Var, View, call, mul
from viewlet.algebra.pattern import Patterns
from viewlet.codegen import aggregate_functions, module
from viewlet.sql import layers
from viewlet.types import BIGINT, BOOLEAN, DOUBLE

DEEP = "SELECT MIN(b.v) FROM t1 b WHERE b.n >= (SELECT MAX(c.n) FROM t2 c JOIN t0 d ON c.k = d.k WHERE c.v <> {a}.v)"
QUERIES = {
    "totals": f"SELECT a.k, SUM(a.n) AS s FROM t0 a WHERE a.v NOT IN ({DEEP.format(a='a')} GROUP BY b.k) GROUP BY a.k",
    "extremes": (
        f"SELECT a.k, MAX(a.n) AS m FROM t0 a WHERE a.n > ({DEEP.format(a='a')}) OR a.v = ({DEEP.format(a='a')}) "
        "GROUP BY a.k"
    ),
    "groups": (
        "SELECT x.k, COUNT(*) AS c FROM (SELECT k, MIN(v) AS v FROM t0 GROUP BY k EXCEPT ALL SELECT k, v FROM t1) x "
        "JOIN (SELECT k, MIN(v) AS v FROM t0 GROUP BY k INTERSECT SELECT k, n FROM t2) y ON x.v = y.v GROUP BY x.k"
    ),
    "groups in loops over the same groups": (
        "SELECT x.s, y.s AS z FROM (SELECT DISTINCT t0.k + t1.k AS s FROM t0, t1 WHERE t0.v >= t1.v) x, "
        "(SELECT DISTINCT t0.k + t1.k AS s FROM t0, t1 WHERE t0.v >= t1.v) y, t2 WHERE x.s < y.s AND t2.n > x.s"
    ),
    "doubles": (
        "SELECT a.k, SUM(a.n / 3) AS s FROM t0 a WHERE a.n / 2 > (SELECT SUM(b.n / 7) FROM t1 b WHERE b.k = a.k "
        "AND b.v < (SELECT AVG(c.n) FROM t2 c WHERE c.k = b.k)) GROUP BY a.k"
    ),
}


QUERIES["compared"] = f"SELECT d.m, t2.n FROM ({COMPARED}) d, t2 WHERE d.m < t2.n"


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    monkeypatch.setattr(module, "write_module", unwrap(module.write_module))  # code that is remembered is not written
    monkeypatch.setattr(layers, "DEEP_SUBQUERY", 100)
    monkeypatch.setattr(aggregate_functions, "LARGE_PROGRAM", 0)
    monkeypatch.setattr(aggregate_functions, "SMALL_AGGREGATE", 1)


@pytest.mark.parametrize("simplified", [True, False])
@pytest.mark.parametrize("name", QUERIES)
def test_they_agree_with_duckdb(name: str, simplified: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not simplified:
        monkeypatch.setattr(module, "_HUGE_PROGRAM", 0)
    for strategy in ("higher-order", "first-order"):
        play_batches(QUERIES[name], 3, random.Random(name), "compiled", strategy)


def code(query: str) -> str:
    with viewlet.connect(engine="interpreter") as db:
        for statement in TABLES[:3]:
            db.execute(statement)
        db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = 'higher-order') AS {query}")
        return db.explain("q", stage="code")


def test_code_is_shorter_than_with_aggregates_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = code(QUERIES["compared"])
    monkeypatch.setattr(aggregate_functions, "LARGE_PROGRAM", 1_000_000)
    assert 3 * len(shared) < len(code(QUERIES["compared"]))


@pytest.mark.parametrize("verb", ["total", "min", "group"])
def test_functions_are_called_several_times(verb: str) -> None:
    calls = Counter(re.findall(rf"\b({verb}_\w+)\(", code(QUERIES["compared"])))
    assert max(calls.values()) > 2  # its definition, and two calls at least


def test_small_programs_have_no_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert "compiled\ndef total_" not in code(
        "SELECT a.k, SUM(a.n) AS s FROM t0 a WHERE a.v > (SELECT MIN(v) FROM t1) GROUP BY a.k"
    )


A, B, C, D = (Var(name, BIGINT) for name in "abcd")
X = Var("x", DOUBLE)


def condition(left: Var, right: Var) -> Cond:
    return Cond(call("<", left, right, type=BOOLEAN))


def test_patterns_leave_names_out() -> None:
    patterns = Patterns()
    one = patterns.of(Sum((A,), mul(View("v", "count", (A, B)), condition(A, B))))
    other = patterns.of(Sum((D,), mul(View("v", "count", (D, A)), condition(D, A))))
    assert one.number == other.number
    assert (one.variables, other.variables) == ((A, B), (D, A))


def test_patterns_tell_uses_types_and_fields_apart() -> None:
    patterns = Patterns()
    one = Lift(C, Sum((), mul(View("v", "count", (A, B)), condition(A, B))))
    others = [
        Lift(C, Sum((), mul(View("v", "count", (A, B)), condition(B, A)))),
        Lift(C, Sum((), mul(View("v", "sum", (A, B)), condition(A, B)))),
        Lift(C, Sum((), mul(View("v", "count", (A, A)), condition(A, A)))),
        Lift(C, Sum((), mul(View("v", "count", (A, X)), condition(A, X)))),
        Lift(A, Sum((), mul(View("v", "count", (A, B)), condition(A, B)))),
    ]
    assert patterns.of(one).number not in {patterns.of(other).number for other in others}
