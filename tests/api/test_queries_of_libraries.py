"""Views of queries that were written with Ibis, SQLAlchemy or sqlglot."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp, parse_one

import viewlet
from viewlet.errors import DataError, SqlError


@pytest.fixture
def db() -> Any:
    made = viewlet.connect()
    made.execute('CREATE TABLE t (k BIGINT, g VARCHAR, x DOUBLE, "Odd name" DATE); CREATE TABLE u (k BIGINT, y BIGINT)')
    return made


def test_expressions_of_ibis(db: Any) -> None:
    ibis = pytest.importorskip("ibis")
    t = ibis.table({"k": "int64", "g": "string", "x": "float64", "Odd name": "date"}, name="t")
    u = ibis.table({"k": "int64", "y": "int64"}, name="u")
    _ = ibis._
    rows = {"t": [(1, "a", 1.5, "2026-01-02"), (1, "a", 2.5, None), (2, "b", None, None)], "u": [(1, 10), (3, 30)]}
    expected = {
        t.group_by("g").agg(s=_.x.sum(), n=_.count()): [("a", 4.0, 2), ("b", None, 1)],
        t.filter(_.x > 2).select("k", "x"): [(1, 2.5)],
        t.join(u, "k").group_by("g").agg(m=_.y.sum()): [("a", 20)],
        t.filter(t.k.isin(u.k)).select("g").distinct(): [("a",)],
        t.select("x").order_by(ibis.desc("x")).limit(1): [(2.5,)],
        t.x.max(): [(2.5,)],
        t.mutate(size=ibis.cases((t.x > 2, "big"), else_="small")).select("size", "Odd name"): 3,
    }
    views = [db.create_view(f"v{number}", expression) for number, expression in enumerate(expected)]
    db.apply(rows)
    for view, found in zip(views, expected.values(), strict=True):
        assert view.rows() == found if isinstance(found, list) else len(view.rows()) == found


def test_expressions_of_sqlalchemy(db: Any) -> None:
    sa = pytest.importorskip("sqlalchemy")
    t = sa.table("t", sa.column("k"), sa.column("g"), sa.column("x"))
    view = db.create_view("v", sa.select(t.c.g, sa.func.sum(t.c.x).label("s")).where(t.c.g != "it's").group_by(t.c.g))
    db.insert("t", [(1, "it's", 1, None), (1, "a", 2, None)])
    assert view.rows() == [("a", 2.0)]


def test_texts_and_expressions_of_sqlglot(db: Any) -> None:
    view = db.create_view("By group", "SELECT g, COUNT(*) AS n FROM t GROUP BY g;")
    other = db.create_view("w", exp.select("k").from_("t").where("x > 1"))
    assert db.create_view("same", parse_one("SELECT k FROM t")).columns == ("k",)
    db.insert("t", [(1, "a", 2, None)])
    assert (view.name, view.rows(), other.rows()) == ("By group", [("a", 1)], [(1,)])


@pytest.mark.parametrize("query", ["SELECT 1 AS a; DROP TABLE t", "", 7, None, ["SELECT 1"]])
def test_what_is_no_query_is_refused(db: Any, query: Any) -> None:
    with pytest.raises(DataError, match="create_view"):
        db.create_view("v", query)
    with pytest.raises(SqlError):
        db.create_view("v", "SELECT nobody FROM t")
    with pytest.raises(DataError, match="retain"):
        db.create_view("v", "SELECT k FROM t", retain="1h")
    assert (db.views, db.tables) == ((), ("t", "u"))
