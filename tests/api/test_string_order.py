"""Strings that a query chooses among constants are in their order with those of the tables, on generated code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline

ROWS = [("b", "q"), ("x", "a"), (None, "m"), ("", None), ("y", "zz")]
CONDITIONS = (
    "CASE WHEN v > 'c' THEN 'n' ELSE 'aa' END < w",
    "w BETWEEN v AND CASE WHEN v IS NULL THEN 'zy' ELSE 'ab' END",
    "GREATEST(v, 'o') > w",
    "COALESCE(NULLIF(v, 'b'), 'p') < w",
)


@pytest.mark.parametrize("host", ["process", "partitions"])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("strategy", ["auto", "recompute"])
def test_they_agree_with_duckdb(
    condition: str, strategy: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    query = f"SELECT v, w, COUNT(*) AS n FROM t WHERE {condition} GROUP BY v, w"
    opened: Any = (
        viewlet.connect(engine="compiled")
        if host == "process"
        else connect_inline(tmp_path, 2, sync=False, engine="compiled")
    )
    with opened as db, duckdb.connect() as oracle:
        for each in (db, oracle):
            each.execute("CREATE TABLE t (v VARCHAR, w VARCHAR)")
        db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {query}")
        db.insert("t", ROWS)
        oracle.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
        assert Counter(db.view("q").rows()) == Counter(oracle.execute(query).fetchall())
