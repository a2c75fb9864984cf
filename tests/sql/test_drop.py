"""DROP of several names, and of what reads them: all of it or nothing, also after a directory is opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from viewlet.errors import SchemaError

DECLARED = """
    CREATE TABLE a (k BIGINT); CREATE TABLE b (k BIGINT); CREATE STREAM s (k BIGINT);
    CREATE MATERIALIZED VIEW va AS SELECT k, COUNT(*) AS n FROM a GROUP BY k;
    CREATE MATERIALIZED VIEW vb AS SELECT SUM(n) AS n FROM va;
    CREATE MATERIALIZED VIEW vab AS SELECT a.k FROM a JOIN b USING (k);
"""
EVERYTHING = {"a", "b", "s", "va", "vb", "vab"}


def left(db: viewlet.Connection) -> set[str]:
    return {*db.tables, *db.views}


@pytest.mark.parametrize(
    ("sql", "gone"),
    [
        ("DROP VIEW vb, vab", {"vb", "vab"}),
        ("DROP VIEW va, vb", {"va", "vb"}),
        ("DROP VIEW va CASCADE", {"va", "vb"}),
        ("DROP TABLE b CASCADE", {"b", "vab"}),
        ("DROP TABLE a, b CASCADE", {"a", "b", "va", "vb", "vab"}),
        ("DROP TABLE IF EXISTS nobody, s, a CASCADE", {"s", "a", "va", "vb", "vab"}),
        ("DROP VIEW IF EXISTS nobody, nothing", set()),
        ("DROP VIEW vb, vb", {"vb"}),
    ],
)
def test_what_is_named_goes_with_what_reads_it(sql: str, gone: set[str], tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "d") as db:
        db.execute(DECLARED)
        db.insert("a", [(1,), (1,)])
        db.execute(sql)
        assert left(db) == EVERYTHING - gone
        db.close = lambda: None  # type: ignore[method-assign]  # as if it were killed: the log is read again
    db._session.close(False)
    with viewlet.connect(tmp_path / "d") as db:
        assert left(db) == EVERYTHING - gone
        if "va" not in gone:
            assert db.view("va").rows() == [(1, 2)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DROP TABLE a, s", "cannot drop table 'a': view 'va', 'vab' reads it"),
        ("DROP VIEW vab, va", "cannot drop view 'va': view 'vb' reads it"),
        ("DROP TABLE s, nobody", "there is no table 'nobody'"),
        ("DROP TABLE s, va", "'va' is a view"),
        ("DROP VIEW vab, b", "'b' is a table"),
        ("DROP STREAM s, a", "'a' is a TABLE, not a STREAM"),
    ],
)
def test_nothing_goes_if_one_cannot(sql: str, message: str) -> None:
    db = viewlet.connect()
    db.execute(DECLARED)
    with pytest.raises(SchemaError, match=message):
        db.execute(sql)
    assert left(db) == EVERYTHING
