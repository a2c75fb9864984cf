"""Depth of compilation: of a cyclic join only whole cycles and ears become views (thesis, section 3.6.1)."""

from __future__ import annotations

import pytest

from tests.triggers.trigger_program import compiled, joined_in, tables_of

TABLES = tables_of(
    """
    CREATE TABLE r (a BIGINT NOT NULL, b BIGINT NOT NULL); CREATE TABLE s (b BIGINT NOT NULL, c BIGINT NOT NULL);
    CREATE TABLE t (c BIGINT NOT NULL, a BIGINT NOT NULL); CREATE TABLE u (a BIGINT NOT NULL, d BIGINT NOT NULL);
    CREATE TABLE v (d BIGINT NOT NULL, e BIGINT NOT NULL); CREATE TABLE w (c BIGINT NOT NULL, d BIGINT NOT NULL);
    CREATE TABLE x (d BIGINT NOT NULL, a BIGINT NOT NULL); CREATE TABLE y (a BIGINT NOT NULL, f BIGINT NOT NULL);
    CREATE TABLE p (a BIGINT NOT NULL, f BIGINT NOT NULL); CREATE TABLE q (f BIGINT NOT NULL, g BIGINT NOT NULL);
    CREATE TABLE z (g BIGINT NOT NULL, a BIGINT NOT NULL);
    """
)
TRIANGLE = "r.b = s.b AND s.c = t.c AND t.a = r.a"


def test_a_triangle_needs_no_paths() -> None:
    assert joined_in(compiled(f"SELECT COUNT(*) AS n FROM r, s, t WHERE {TRIANGLE}", TABLES)) == []


def test_a_longer_cycle_needs_no_paths() -> None:
    cycle = "r.b = s.b AND s.c = w.c AND w.d = x.d AND x.a = r.a"
    assert joined_in(compiled(f"SELECT COUNT(*) AS n FROM r, s, w, x WHERE {cycle}", TABLES)) == []


@pytest.mark.parametrize(("tail", "condition"), [("u", "u.a = r.a"), ("w", "w.c = s.c")])
def test_a_tail_is_joined_up_to_the_triangle(tail: str, condition: str) -> None:
    sql = f"SELECT COUNT(*) AS n FROM r, s, t, {tail}, v WHERE {TRIANGLE} AND {condition} AND {tail}.d = v.d"
    assert joined_in(compiled(sql, TABLES)) == sorted(["r s t", " ".join(sorted((tail, "v"))), "v"])


def test_two_tails_at_one_corner_stay_two() -> None:
    sql = f"SELECT COUNT(*) AS n FROM r, s, t, u, y WHERE {TRIANGLE} AND u.a = r.a AND y.a = r.a"
    assert "u y" not in joined_in(compiled(sql, TABLES))


def test_triangles_that_share_a_corner_are_views_for_each_other() -> None:
    other = "p.a = r.a AND p.f = q.f AND q.g = z.g AND z.a = p.a"
    program = compiled(f"SELECT COUNT(*) AS n FROM r, s, t, p, q, z WHERE {TRIANGLE} AND {other}", TABLES)
    assert joined_in(program) == ["p q z", "r s t"]


def test_an_acyclic_join_is_decomposed_as_ever() -> None:
    program = compiled("SELECT COUNT(*) AS n FROM r, s, w WHERE r.b = s.b AND s.c = w.c", TABLES)
    assert joined_in(program) == ["r", "r s", "s w", "w"]
