"""What `auto` chooses, and that it says why."""

from __future__ import annotations

import pytest

from tests.triggers.trigger_program import compiled, tables_of
from viewlet.sql import bind_query
from viewlet.triggers.compiler import compile_query
from viewlet.triggers.cost import ProgramCost, StatementCost
from viewlet.triggers.statistics import Size, Statistics
from viewlet.triggers.strategy import choose

TABLES = tables_of(
    """
    CREATE TABLE facts (k BIGINT NOT NULL, v BIGINT NOT NULL);
    CREATE TABLE dims (k BIGINT PRIMARY KEY, name BIGINT NOT NULL);
    """
)
JOIN = "SELECT d.name, SUM(f.v) AS total FROM facts f JOIN dims d ON f.k = d.k GROUP BY d.name"


def sizes(facts: float, keys: float, rates: dict[str, float] | None = None) -> Statistics:
    return Statistics({"facts": Size(facts, (keys, facts)), "dims": Size(keys, (keys, keys / 10))}, rates or {})


def test_joins_are_maintained_with_views_when_nothing_is_known() -> None:
    program = compiled(JOIN, TABLES, "auto")
    assert program.strategy == "higher-order"
    assert [cost.strategy for cost in program.costs] == ["higher-order", "first-order", "view-tree"]


def test_many_rows_per_key_call_for_views() -> None:
    assert compiled(JOIN, TABLES, "auto", sizes(1_000_000, 100)).strategy == "higher-order"


def test_one_row_per_key_does_not() -> None:
    assert compiled(JOIN, TABLES, "auto", sizes(1_000, 1_000)).strategy == "first-order"


def test_rates_decide_what_the_views_are_worth() -> None:
    busy, quiet = (sizes(10_000, 1_000, {"facts": 1.0, "dims": rate}) for rate in (1.0, 0.001))
    assert compiled(JOIN, TABLES, "auto", busy).strategy == "higher-order"
    assert compiled(JOIN, TABLES, "auto", quiet).strategy == "first-order"


@pytest.mark.parametrize("facts", [1_000, 20_000, 1_000_000])
def test_the_cheaper_program_is_chosen(facts: float) -> None:
    program = compiled(JOIN, TABLES, "auto", sizes(facts, 1_000))
    best = min(program.costs, key=lambda cost: cost.total)
    assert program.strategy == best.strategy


def test_a_strategy_that_was_asked_for_is_kept_whatever_it_costs() -> None:
    program = compiled(JOIN, TABLES, "recompute", sizes(1_000_000, 100))
    assert program.strategy == "recompute"
    assert [cost.strategy for cost in program.costs] == ["recompute"]


def test_views_that_cost_more_than_they_save_are_declined() -> None:
    """A key of the facts is unique: a view of their sums by key saves nothing, one of a long join does."""
    tables = TABLES | tables_of("CREATE TABLE more (name BIGINT NOT NULL, w BIGINT NOT NULL)")
    sql = "SELECT COUNT(*) AS n FROM facts f, dims d, more m WHERE f.k = d.k AND d.name = m.name"
    statistics = Statistics(
        {
            "facts": Size(1_000, (1_000, 1_000)),
            "dims": Size(1_000, (1_000, 1_000)),
            "more": Size(50_000, (1_000, 50_000)),
        }
    )
    query = bind_query(sql, tables).query
    every = compile_query("v", query, tables, "higher-order")
    program = compile_query("v", query, tables, "auto", statistics)
    assert program.strategy == "higher-order"
    assert 1 < len(program.views) < len(every.views)


def cost(strategy: str, statements: int, total: float) -> ProgramCost:
    each = StatementCost("t", "v", False, total / statements)
    return ProgramCost(strategy, (each,) * statements, {"t": 1.0}, 0.0, 0.0, {})


@pytest.mark.parametrize(
    ("costs", "measured", "chosen"),
    [
        ([cost("higher-order", 5, 100), cost("view-tree", 5, 100)], True, 0),  # the first of equals
        ([cost("higher-order", 20, 100), cost("view-tree", 5, 100)], True, 1),  # less to compile
        ([cost("higher-order", 20, 100), cost("view-tree", 5, 200)], True, 0),
        ([cost("higher-order", 200, 100), cost("view-tree", 5, 1_000)], True, 1),  # not worth waiting for
        ([cost("higher-order", 200, 100), cost("view-tree", 5, 100_000)], True, 0),
        ([cost("higher-order", 200, 100), cost("view-tree", 5, 100_000)], False, 1),  # a guess is not to be trusted
        ([cost("higher-order", 5, 100), cost("first-order", 5, 1)], True, 1),
        ([cost("higher-order", 5, 100), cost("first-order", 5, 1)], False, 0),
    ],
)
def test_programs_are_charged_for_their_statements(costs: list[ProgramCost], measured: bool, chosen: int) -> None:
    assert choose(costs, measured) == chosen
