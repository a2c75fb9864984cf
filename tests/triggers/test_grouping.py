"""View trees as programs: few views, shared by all triggers, and joined where that is cheap."""

from __future__ import annotations

import pytest

from tests.triggers.trigger_program import compiled, tables_of
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import Size, Statistics

STREAMS = tables_of(
    """
    CREATE STREAM fact (a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL, v BIGINT NOT NULL);
    CREATE STREAM one (a BIGINT PRIMARY KEY, x BIGINT NOT NULL);
    CREATE STREAM two (b BIGINT PRIMARY KEY, y BIGINT NOT NULL);
    CREATE STREAM three (c BIGINT PRIMARY KEY, d BIGINT NOT NULL);
    CREATE STREAM four (d BIGINT PRIMARY KEY, z BIGINT NOT NULL);
    CREATE STREAM edge (s BIGINT NOT NULL, t BIGINT NOT NULL);
    """
)
SNOWFLAKE = (
    "SELECT four.z, SUM(fact.v) AS total FROM fact, one, two, three, four "
    "WHERE fact.a = one.a AND fact.b = two.b AND fact.c = three.c AND three.d = four.d "
    "AND one.x = 7 GROUP BY four.z"
)


def statement_count(program: Program) -> int:
    return sum(len(trigger.statements) for trigger in program.triggers)


def tables_read(program: Program) -> dict[str, frozenset[str]]:
    from viewlet.algebra.traverse import relations

    return {view.name: frozenset(relations(view.fields[0].definition)) for view in program.views}


def test_a_tree_has_fewer_views_than_higher_order_deltas() -> None:
    tree, every = compiled(SNOWFLAKE, STREAMS, "view-tree"), compiled(SNOWFLAKE, STREAMS, "higher-order")
    assert len(tree.views) <= 2 * 5
    assert len(tree.views) < len(every.views)
    assert statement_count(tree) < statement_count(every)


def test_views_are_subtrees_of_one_tree() -> None:
    """Any two views read disjoint sets of tables, or one of them reads all that the other does."""
    sets = list(tables_read(compiled(SNOWFLAKE, STREAMS, "view-tree")).values())
    for left in sets:
        for right in sets:
            assert not left & right or left <= right or right <= left


def test_a_selective_filter_is_joined_first() -> None:
    """Few facts have x = 7: the view of these is worth having, and the others need no index on it."""
    views = tables_read(compiled(SNOWFLAKE, STREAMS, "view-tree")).values()
    assert frozenset({"fact", "one"}) in views


def test_paths_of_a_triangle_are_not_stored() -> None:
    triangle = "SELECT COUNT(*) AS n FROM edge r, edge s, edge u WHERE r.t = s.s AND s.t = u.s AND u.t = r.s"
    assert all(len(view.keys) <= 2 for view in compiled(triangle, STREAMS, "view-tree").views)
    assert len(compiled(triangle, STREAMS, "view-tree").views) == 2


def test_measured_sizes_shape_the_tree() -> None:
    """Where every fact has a key of its own the join with a dimension saves nothing."""
    sql = "SELECT SUM(v) AS total FROM fact, one, two WHERE fact.a = one.a AND fact.b = two.b"
    rows = 1_000.0
    dimension = Size(rows, (rows, 10.0))
    sparse = {"fact": Size(rows, (rows, rows, rows, rows)), "one": dimension, "two": dimension}
    dense = {"fact": Size(1_000 * rows, (rows, rows, rows, rows)), "one": dimension, "two": dimension}
    rates = {"fact": 1.0, "one": 1.0, "two": 1.0}
    flat = compiled(sql, STREAMS, "view-tree", Statistics(sparse, rates))
    deep = compiled(sql, STREAMS, "view-tree", Statistics(dense, rates))
    assert len(flat.views) < len(deep.views)


@pytest.mark.parametrize("strategy", ["higher-order", "view-tree"])
def test_a_case_is_summed_by_the_views_that_know_its_parts(strategy: str) -> None:
    """CASE WHEN y = 1 THEN v ELSE 0 END needs neither v nor y among the keys of a view."""
    sql = "SELECT SUM(CASE WHEN two.y = 1 THEN fact.v ELSE 0 END) AS total FROM fact, two WHERE fact.b = two.b"
    program = compiled(sql, STREAMS, strategy)
    assert {key.name for view in program.views for key in view.keys} == {"b"}
