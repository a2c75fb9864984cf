"""Queries with hundreds of branches or aggregates on generated code: the rows of DuckDB."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline

BRANCHES = " ".join(f"WHEN x = {i} THEN y + {i}" for i in range(1000))
VALUES = ", ".join(f"NULLIF(x, {i})" for i in range(300))
SUMS = ", ".join(f"SUM(x + {i}) AS s{i}" for i in range(120))
LARGEST = ", ".join(f"MAX(x * {i}) AS m{i}" for i in range(120))
QUERIES = {
    "branches": f"SELECT k, SUM(CASE {BRANCHES} ELSE -1 END) AS s FROM t GROUP BY k",
    "first value": f"SELECT k, SUM(COALESCE({VALUES})) AS s FROM t GROUP BY k",
    "sums": f"SELECT k, {SUMS} FROM t GROUP BY k",
    "extremes": f"SELECT {LARGEST} FROM t",
    "largest": f"SELECT k, SUM(GREATEST({VALUES})) AS s, COUNT(LEAST({VALUES})) AS n FROM t GROUP BY k",
    "text": f"SELECT CONCAT({VALUES}) AS s FROM t",
}
ROWS = [(1, 4, 10), (1, 999, None), (2, 500, 7), (2, None, 1), (None, 0, 0)]


@pytest.mark.parametrize("host", ["process", "partitions"])
@pytest.mark.parametrize("name", QUERIES)
def test_they_agree_with_duckdb(name: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_JIT", "0")
    opened: dict[str, AbstractContextManager[Any]] = {
        "process": viewlet.connect(engine="compiled"),
        "partitions": connect_inline(tmp_path, 2, sync=False, engine="compiled"),
    }
    with opened[host] as db, duckdb.connect() as oracle:
        for each in (db, oracle):
            each.execute("CREATE TABLE t (k BIGINT, x BIGINT, y BIGINT)")
        db.execute(f"CREATE MATERIALIZED VIEW q AS {QUERIES[name]}")
        db.insert("t", ROWS)
        db.delete("t", ROWS[2:3])
        oracle.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS[:2] + ROWS[3:])
        assert Counter(db.view("q").rows()) == Counter(oracle.execute(QUERIES[name]).fetchall())
