"""Programs of several queries as one: each result is that of its own program, and views in common are kept once."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from tests.oracle.test_shared_views import COLUMNS, random_changes, random_query
from tests.triggers.trigger_program import compiled, tables_of
from viewlet.changes import RowChange
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.merge import Merger, merge_programs, only_for_result, only_views
from viewlet.triggers.program import Program
from viewlet.triggers.rename import rename_views
from viewlet.triggers.show_program import show_triggers, show_views
from viewlet.triggers.store import MapStore

STREAMS = tables_of(
    "".join(f"CREATE STREAM {t} ({a} BIGINT NOT NULL, {b} BIGINT NOT NULL);" for t, (a, b) in COLUMNS.items())
)
JOIN = "FROM r JOIN s ON r.b = s.b"


def planned(name: str, sql: str, strategy: str = "higher-order") -> Program:
    program = compiled(sql, STREAMS, strategy)
    return replace(
        rename_views(program, {view.name: re.sub("^v", name, view.name) for view in program.views}), name=name
    )


def stored(program: Program) -> dict[str, list[str]]:
    return {view.name: [field.name for field in view.fields] for view in program.views}


def test_inner_views_of_different_groups_are_kept_once() -> None:
    first = planned("a", f"SELECT r.a, COUNT(*) AS n {JOIN} GROUP BY r.a")
    second = planned("b", f"SELECT r.a, s.c, COUNT(*) AS n {JOIN} GROUP BY r.a, s.c")
    third = planned("c", f"SELECT s.c, COUNT(*) AS n {JOIN} GROUP BY s.c")
    merged = merge_programs([first, second, third])
    assert stored(merged.program) == {
        "a_r_s": ["count"],
        "a_r": ["count"],
        "a_s": ["count"],
        "b_r_s": ["count"],
        "b_s": ["count"],
        "c_r_s": ["count"],
        "c_r": ["count"],
    }
    assert "b_r_s[a, c].count += Sum[a, c](Δs(b, c) * a_r.count[a, b])" in show_triggers(merged.program)
    assert "c_r_s[c].count += Sum[c](Δr(_, b) * b_s.count[b, c])" in show_triggers(merged.program)


def test_a_view_gets_the_fields_that_only_another_query_needs() -> None:
    """The count and all sums of a key change in one statement: a key leaves with its count."""
    first = planned("a", f"SELECT r.a, SUM(s.c) AS x {JOIN} GROUP BY r.a")
    second = planned("b", f"SELECT r.a, SUM(s.c * 2 + r.a) AS y {JOIN} GROUP BY r.a")
    merged = merge_programs([first, second])
    assert len(merged.program.views) == len(first.views)
    for trigger in merged.program.triggers:
        views = [statement.view for statement in trigger.statements]
        assert len(set(views)) == len(views)
    assert merged.results[1].query is second.query
    assert set(stored(only_for_result(merged.results[0]))) == set(stored(first))


def test_fields_and_views_of_the_same_name_are_told_apart() -> None:
    first = planned("v", f"SELECT r.a, SUM(s.c * s.c) AS x {JOIN} WHERE s.c > 1 GROUP BY r.a")
    second = planned("v", f"SELECT r.a, SUM(s.c * s.c) AS x {JOIN} WHERE s.c > 2 GROUP BY r.a")
    merged = merge_programs([first, second])
    names = [view.name for view in merged.program.views]
    assert len(set(names)) == len(names) < len(first.views) + len(second.views)


def test_views_that_are_assigned_are_not_shared() -> None:
    nested = f"SELECT r.a, COUNT(*) AS n {JOIN} WHERE r.b > (SELECT COUNT(*) FROM t) GROUP BY r.a"
    first, second = planned("a", nested), planned("b", nested)
    assigned = {statement.view for statement in first.statements if statement.replaces}
    assert assigned
    partners = Merger(first).partners(second)
    assert not {partner.name for partner in partners.values()} & assigned
    assert partners


def test_only_views_leaves_the_statements_of_others_out() -> None:
    program = planned("a", f"SELECT r.a, COUNT(*) AS n {JOIN} GROUP BY r.a")
    assert "a_r_s" not in show_views(only_views(program, ["a_r", "a_s"])).split("a =")[0]
    assert only_views(program, [view.name for view in program.views]) is program


@pytest.mark.parametrize("strategy", ["higher-order", "view-tree"])
@pytest.mark.parametrize("seed", range(6))
def test_results_are_those_of_the_programs_alone(seed: int, strategy: str) -> None:
    choose = Random(seed)
    programs = [planned(f"v{i}", random_query(choose), strategy) for i in range(5)]
    merged = merge_programs(programs)
    assert len(merged.program.views) <= sum(len(each.views) for each in programs)
    alone = [Interpreter(program, {table: MapStore() for table in COLUMNS}) for program in programs]
    together = [Interpreter(program, {table: MapStore() for table in COLUMNS}) for program in merged.results]
    for engine in (*alone, *together):
        engine.load()
    rows: dict[str, list[tuple[int, int]]] = {table: [] for table in COLUMNS}
    for _ in range(6):
        batch, _ = random_changes(choose, rows)
        for table, changes in batch.items():
            change: dict[tuple[int, ...], int] = {}
            for row, sign in changes:
                change[row] = change.get(row, 0) + sign
            for engine in (*alone, *together):
                if table in engine.program.changing:
                    engine.apply(table, RowChange({row: sign for row, sign in change.items() if sign}))
        for engine in (*alone, *together):
            engine.finish()
            engine.commit()
        for one, other in zip(alone, together, strict=True):
            assert one.result() == other.result()
