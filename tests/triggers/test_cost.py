"""The cost model: the thesis's example, access paths, and that more data never costs less."""

from __future__ import annotations

import pytest

from tests.triggers.trigger_program import compiled, tables_of
from viewlet.algebra.nodes import Cond, Const, Delta, Expr, Lift, Rel, Sum, Value, Var, View, compare, mul
from viewlet.triggers.cost import VISIT_WEIGHT, Sizes, estimate, execution_cost, program_cost, selectivity, view_size
from viewlet.triggers.program import Field, ViewDefinition
from viewlet.triggers.statistics import DEFAULT_FANOUT, DEFAULT_ROWS, Size, Statistics, default_size, measured_size
from viewlet.types import BIGINT, Column, Table

A, B, C, X = (Var(name, BIGINT) for name in "abcx")
S, R, T = Rel("s", (A,)), Rel("r", (A, B)), Rel("t", (B, C))
SIZES = Sizes(
    {"s": Size(50, (50,)), "r": Size(1_000, (50, 100)), "t": Size(2_000, (100, 400))},
    {"r": Size(1, (1, 1))},
    {"v": Size(100, (100,))},
)


def test_example_3_6_1() -> None:
    """cost_exec(S(A) * Sum[A](R(A, B) * T(B, C))) = |Q| + |R(A, B) * T(B, C)|."""
    query = mul(S, Sum((A,), mul(R, T)))
    joined = estimate(mul(R, T), SIZES).rows
    found = estimate(query, SIZES)
    assert joined == pytest.approx(1_000 * 2_000 / 100)
    assert found.rows == pytest.approx(50)
    assert found.rows + found.materialised == pytest.approx(found.rows + joined)
    assert execution_cost(query, SIZES) == pytest.approx(found.rows + joined + VISIT_WEIGHT * found.visited)


@pytest.mark.parametrize(
    ("expr", "visited"),
    [
        (mul(Lift(A, Value(X)), Lift(B, Value(X)), R), 1),  # a lookup
        (mul(Lift(A, Value(X)), R), 20),  # a slice
        (R, 1_000),  # a scan
        (mul(Delta("r", (A, B)), T), 1 + 20),
        (mul(Delta("r", (A, B)), View("v", "count", (B,))), 1 + 1),
    ],
)
def test_an_atom_costs_what_its_access_path_visits(expr: Expr, visited: float) -> None:
    assert estimate(expr, SIZES, {X: 1.0}).visited == pytest.approx(visited)


def test_a_nested_sum_runs_once_for_each_binding_before_it() -> None:
    alone = estimate(Sum((), T), SIZES).materialised
    assert estimate(mul(S, Lift(X, Sum((), T))), SIZES).materialised == pytest.approx(50 * alone)


def test_a_view_has_no_more_keys_than_values() -> None:
    view = ViewDefinition("v", (A,), (Field("count", Sum((A,), mul(R, T))),))
    assert view_size(view, SIZES) == Size(50, (50,))


def test_selectivities() -> None:
    bound = {A: 50.0, B: 100.0}
    equal, unequal = selectivity(compare("=", A, B), bound), selectivity(compare("<>", A, B), bound)
    assert equal == pytest.approx(1 / 100)
    assert equal + unequal == pytest.approx(1)
    assert selectivity(compare("=", A, Const(1, BIGINT)), bound) == pytest.approx(1 / 50)
    assert 0 < selectivity(compare("<", A, B), bound) < 1
    assert estimate(mul(R, Cond(compare("<", A, B))), SIZES).rows < 1_000


@pytest.mark.parametrize("expr", [R, mul(R, T), Sum((A,), mul(R, T)), mul(S, Sum((A,), mul(R, T))), mul(S, Lift(X, T))])
def test_more_rows_never_cost_less(expr: Expr) -> None:
    costs = []
    for factor in (1, 2, 10, 100):
        tables = {name: Size(size.rows * factor, size.distinct) for name, size in SIZES.tables.items()}
        costs.append(execution_cost(expr, Sizes(tables)))
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


TABLES = tables_of(
    "CREATE TABLE one (k BIGINT NOT NULL, v BIGINT NOT NULL); CREATE TABLE two (k BIGINT NOT NULL, w BIGINT NOT NULL);"
)
JOIN = "SELECT COUNT(*) AS n FROM one, two WHERE one.k = two.k"


def test_a_program_costs_its_triggers_weighted_by_their_rates() -> None:
    program = compiled(JOIN, TABLES)
    even = program_cost(program, TABLES)
    skewed = program_cost(program, TABLES, Statistics(rates={"one": 5.0}))
    assert even.total == pytest.approx(2 * even.result + even.trigger("one") + even.trigger("two"))
    assert skewed.total == pytest.approx(6 * even.result + 5 * even.trigger("one") + even.trigger("two"))


def test_the_rate_of_readings_can_be_given() -> None:
    program = compiled(JOIN, TABLES)
    never = program_cost(program, TABLES, Statistics(query_rate=0.0))
    assert never.total == pytest.approx(never.trigger("one") + never.trigger("two"))


def test_larger_batches_cost_more() -> None:
    program = compiled(JOIN, TABLES)
    costs = [program_cost(program, TABLES, Statistics(batch_rows=rows)).total for rows in (1, 10, 100)]
    assert costs == sorted(costs)


def test_unknown_tables_have_default_sizes() -> None:
    table = Table("t", (Column("k", BIGINT), Column("v", BIGINT)), primary_key=("k",))
    assert default_size(table) == Size(DEFAULT_ROWS, (DEFAULT_ROWS, DEFAULT_ROWS / DEFAULT_FANOUT))


def test_distinct_values_are_estimated_from_a_sample() -> None:
    count = 40_000
    rows = [(i, i // 4, i % 7) for i in range(count)]
    size = measured_size(rows, count, 3)
    assert size.rows == count
    unique, quarters, few = size.distinct
    assert unique > count / 2
    assert count / 20 < quarters <= count
    assert few == pytest.approx(7, abs=1)


def test_an_empty_table_has_a_size() -> None:
    assert measured_size([], 0, 2) == Size(0, (1, 1))
