"""Kinds of views as users meet them: handles, and what a kind refuses."""

from __future__ import annotations

import pytest

import viewlet
from viewlet.engine import register_kind
from viewlet.view import CofactorView, FactorisedView, View

KINDS = {
    "SELECT COFACTOR(a, b) FROM t": CofactorView,
    "SELECT FACTORIZED * FROM t": FactorisedView,
    "SELECT COUNT(*) AS n FROM t": View,
}


@pytest.fixture
def db() -> viewlet.Connection:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.insert("t", [(1, 2)])
    return db


@pytest.mark.parametrize("sql", KINDS)
def test_the_handle_is_that_of_the_kind(sql: str, db: viewlet.Connection) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
    assert type(db.view("v")) is KINDS[sql]


@pytest.mark.parametrize(
    ("before", "after", "noun"),
    [
        ("SELECT COFACTOR(a, b) FROM t", "SELECT COUNT(*) AS n FROM t", "a view"),
        ("SELECT COFACTOR(a, b) FROM t", "SELECT FACTORIZED * FROM t", "a FACTORIZED view"),
        ("SELECT FACTORIZED * FROM t", "SELECT COFACTOR(a, b) FROM t", "a COFACTOR view"),
    ],
)
def test_a_handle_of_a_view_that_became_another_kind_says_so(
    before: str, after: str, noun: str, db: viewlet.Connection
) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {before}")
    handle = db.view("v")
    db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {after}")
    with pytest.raises(viewlet.SchemaError, match=rf"'v' is {noun} now: take a new handle with view\('v'\)"):
        handle.cofactor() if isinstance(handle, CofactorView) else list(handle.rows())


@pytest.mark.parametrize(
    ("sql", "noun"),
    [("SELECT COFACTOR(a, b) FROM t", "a COFACTOR view"), ("SELECT FACTORIZED * FROM t", "a FACTORIZED view")],
)
def test_a_view_over_one_that_feeds_no_views_is_refused(sql: str, noun: str, db: viewlet.Connection) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
    with pytest.raises(viewlet.UnsupportedError, match=f"a view over 'v', {noun}"):
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM v")


def test_only_a_kind_is_registered() -> None:
    with pytest.raises(viewlet.SchemaError, match="register_kind\\(\\) takes a ViewKind, not str"):
        register_kind("a kind")  # type: ignore[arg-type]
