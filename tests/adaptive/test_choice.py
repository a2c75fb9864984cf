"""The choice of adaptive maintenance under `auto`, and that a view stays as it was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.hosts.local import LocalHost

EDGES = "CREATE TABLE e (src BIGINT NOT NULL, dst BIGINT NOT NULL, w BIGINT)"
CYCLE = "FROM e x JOIN e y ON x.dst = y.src JOIN e z ON y.dst = z.src AND z.dst = x.src"
COUNT = f"SELECT COUNT(*) AS n {CYCLE}"
JOIN = "FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"


def strategy(*statements: str, query: str = COUNT, **options: Any) -> object:
    db = viewlet.connect(**options)
    for statement in statements:
        db.execute(statement)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    return db.view("v").stats()["strategy"]


def three(keys: str = "", kinds: tuple[str, str, str] = ("TABLE", "TABLE", "TABLE")) -> list[str]:
    columns = ("a BIGINT NOT NULL, b", "b BIGINT NOT NULL, c", "c BIGINT NOT NULL, a")
    return [
        f"CREATE {kind} {name} ({each} BIGINT NOT NULL{keys if name == 's' else ''})"
        for kind, name, each in zip(kinds, "rst", columns, strict=True)
    ]


def test_triangles_without_keys_are_kept_adaptively_and_explain_says_why() -> None:
    db = viewlet.connect()
    db.execute(EDGES)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {COUNT}")
    db.insert("e", [(1, 2, 0), (2, 3, 0), (3, 1, 0)])
    assert db.view("v").rows() == [(3,)]
    text = db.explain("v")
    assert text.startswith("view v (adaptive)")
    assert "chosen by auto: an update may meet 100,000 tuples under other plans; the bound of this one is 3,098" in text
    assert "chosen by auto" in str(db.execute(f"EXPLAIN {COUNT}").to_pylist())


def test_what_is_better_off_with_other_plans_is_left_to_them() -> None:
    assert strategy(EDGES, query=f"SELECT SUM(x.w) AS n {CYCLE}") != "adaptive"
    assert strategy(EDGES, engine="interpreter") != "adaptive"
    assert strategy(EDGES, query="SELECT COUNT(*) AS n FROM e x JOIN e y ON x.dst = y.src") != "adaptive"
    count = f"SELECT COUNT(*) AS n {JOIN}"
    assert strategy(*three(), query=count) == "adaptive"
    assert strategy(*three(", PRIMARY KEY (b, c)"), query=count) == "adaptive"
    keys = [three()[i].replace("L)", f"L, PRIMARY KEY ({first}))") for i, first in enumerate("abc")]
    assert strategy(*keys, query=count) != "adaptive"
    assert strategy(*three(kinds=("TABLE", "STATIC TABLE", "STATIC TABLE")), query=count) != "adaptive"
    assert strategy(*three(kinds=("STREAM", "STREAM", "STATIC TABLE")), query=count) == "adaptive"


def test_sizes_that_bound_degrees_count() -> None:
    """Each of five vertices can have five neighbours at most, however many rows there are."""
    db = viewlet.connect()
    db.execute(EDGES)
    db.insert("e", [(i % 5, i // 5 % 5, i) for i in range(2000)])
    assert "chosen by auto" not in str(db.execute(f"EXPLAIN {COUNT}").to_pylist())


def test_groups_and_lists_are_left_to_plans_that_change_rows_in_generated_code() -> None:
    for query in (
        f"SELECT x.src, COUNT(*) AS n {CYCLE} GROUP BY x.src",
        f"SELECT x.src AS a, y.src AS b, COUNT(*) AS n {CYCLE} GROUP BY x.src, y.src",
        f"SELECT x.src AS a, y.src AS b, z.src AS c {CYCLE}",
        f"SELECT DISTINCT x.src {CYCLE}",
    ):
        assert strategy(EDGES, query=query) != "adaptive"
        assert strategy(EDGES, query=query, engine="compiled") != "adaptive"


@pytest.mark.parametrize("is_cached", [True, False])
def test_the_choice_does_not_depend_on_files_of_the_machine(monkeypatch: pytest.MonkeyPatch, is_cached: bool) -> None:
    monkeypatch.setattr("viewlet.engine.adaptive_views.is_kernel_cached", lambda: is_cached)
    assert strategy(EDGES, engine="compiled") == "adaptive"
    assert strategy(EDGES) == "adaptive"
    assert strategy(EDGES, query=f"SELECT x.src, COUNT(*) AS n {CYCLE} GROUP BY x.src") != "adaptive"


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("adaptive", [True, False])
def test_a_view_in_a_directory_goes_on_as_it_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adaptive: bool, snapshot: bool
) -> None:
    with monkeypatch.context() as patch:
        if not adaptive:  # as a version before the choice would have declared it
            patch.setattr(LocalHost, "choose", lambda self, declared: declared)
        with viewlet.connect(tmp_path, fsync=False) as db:
            db.execute(EDGES)
            db.execute(f"CREATE MATERIALIZED VIEW v AS {COUNT}")
            db.insert("e", [(1, 2, 0), (2, 3, 0)])
            if snapshot:
                db.checkpoint()
    for edge, count in (((3, 1, 0), 3), ((1, 1, 0), 4)):
        with viewlet.connect(tmp_path, fsync=False) as db:
            assert (db.view("v").stats()["strategy"] == "adaptive") is adaptive
            db.insert("e", [edge])
            assert db.view("v").rows() == [(count,)]
            assert ("chosen by auto" in db.explain("v")) is adaptive
