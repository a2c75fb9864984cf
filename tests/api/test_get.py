"""Single rows by their key, and rows as Arrow streams and NumPy arrays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline
from viewlet.errors import DataError, SchemaError, ViewletError


@pytest.fixture(params=["interpreter", "compiled", "spark"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = (
        connect_inline(tmp_path, 2, sync=False) if request.param == "spark" else viewlet.connect(engine=request.param)
    )
    made.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, g VARCHAR, x DOUBLE); CREATE TABLE bag (a INTEGER)")
    made.execute("CREATE MATERIALIZED VIEW v AS SELECT g, k % 3 AS r, SUM(x) AS s FROM t GROUP BY g, k % 3")
    made.execute("CREATE MATERIALIZED VIEW w AS SELECT g, k FROM t")
    return made


def test_rows_are_found_as_they_change(db: Any) -> None:
    chance, rows = random.Random(1), dict[int, tuple[int, str | None, float | None]]()
    for _ in range(8):
        new = [
            (k, chance.choice(["a", "b", "", None]), chance.choice([0.5, 2.0, None]))
            for k in chance.sample(range(30), 8)
        ]
        db.upsert("t", new)
        rows |= {row[0]: row for row in new}
        for k in (*range(0, 30, 7), 99):
            assert db.table("t").get(k) == db.table("t").get(k=k) == rows.get(k)
        shown = {row[:2]: row for row in db.view("v").rows()}
        for g in ("a", "", None, "zz"):
            for r in range(3):
                assert db.view("v").get(g, r) == db.view("v").get(r=r, g=g) == shown.get((g, r))
    with db.transaction():
        db.upsert("t", [(0, "new", 9.0)])
        assert db.table("t").get(0) == (0, "new", 9.0)
        with pytest.raises(SchemaError, match="after COMMIT"):
            db.view("v").get("new")


def test_refusals(db: Any) -> None:
    db.insert("t", [(1, "a", 1.0), (2, "a", 1.0)])
    for ask, message in (
        (lambda: db.view("w").get("a"), "has 2 rows with this key"),
        (lambda: db.table("t").get(1, 2), r"the primary key \(k\) of 't'"),
        (lambda: db.table("bag").get(1), "by their names"),
        (lambda: db.view("v").get(), "takes values of columns"),
        (lambda: db.view("v").get(gg=1), "no column 'gg'; did you mean 'g'"),
        (lambda: db.view("v").get("a", g="a"), "or columns by their names"),
        (lambda: db.table("t").get("x"), "'x' is refused"),
    ):
        with pytest.raises(ViewletError, match=message):
            ask()
    assert db.table("bag").get(a=1) is None
    db.insert("bag", [(1,), (1,)])
    with pytest.raises(DataError, match="has 2 rows"):
        db.table("bag").get(a=1)


def test_libraries_read_relations_as_arrow_streams(db: Any) -> None:
    db.insert("t", [(1, "a", 1.5), (2, None, None)])
    t = db.table("t")
    assert pa.table(t).to_pylist() == t.to_arrow().to_pylist()
    assert pl.DataFrame(t).rows() == t.rows()
    with duckdb.connect() as other:
        assert other.sql("SELECT SUM(k) FROM t").fetchall() == [(3,)]
    assert pa.RecordBatchReader.from_stream(db.view("v")).read_all().num_rows == 2
    made = t.to_numpy()
    assert made["k"].tolist() == [1, 2]
    assert made["g"].tolist() == ["a", None]
    assert np.isnan(made["x"][1])
