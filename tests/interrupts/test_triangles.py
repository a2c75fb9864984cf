"""Batches of adaptive views, cut short at any line: parts, views, groups and answers stay consistent."""

from __future__ import annotations

from typing import Any

import pytest

import viewlet
from tests.interrupts.harness import Trial, check_all

JOIN = "FROM e x JOIN e y ON x.b = y.a JOIN e z ON y.b = z.a AND z.b = x.a"
VIEWS = f"""
    CREATE MATERIALIZED VIEW cycles WITH (strategy = 'adaptive') AS SELECT COUNT(*) AS n {JOIN};
    CREATE MATERIALIZED VIEW by_vertex WITH (strategy = 'adaptive', epsilon = 0.25) AS
        SELECT x.a, COUNT(*) AS n, SUM(y.w) AS s {JOIN} GROUP BY x.a;
    CREATE MATERIALIZED VIEW listed WITH (strategy = 'adaptive') AS SELECT x.a, y.a AS b, z.a AS c {JOIN};
    CREATE MATERIALIZED VIEW busy AS SELECT a FROM by_vertex WHERE n > 1
"""


def signed(sign: int, new: list[tuple[int, int]], old: list[tuple[int, int]]) -> dict[str, Any]:
    rows = [(row, sign) for row in new] + [(row, -sign) for row in old]
    return {"e": [{"a": a, "b": b, "w": a + b, "_multiplicity": times} for (a, b), times in rows]}


def trial(engine: str, kind: str) -> Trial:
    def make() -> viewlet.Connection:
        db = viewlet.connect(engine=engine)
        db.execute(f"CREATE {kind} e (a BIGINT NOT NULL, b BIGINT NOT NULL, w BIGINT)")
        db.execute(VIEWS)
        return db

    first = signed(1, [(0, i) for i in range(1, 6)] + [(i, 0) for i in range(1, 5)] + [(1, 2), (2, 3)], [])
    batch = ([(0, 0), (3, 1), (0, 7), (0, 8), (0, 9)], [(1, 2), (2, 0)])
    good = ([(4, 4), (5, 0)], [])
    return Trial(make, first, signed(1, *batch), signed(-1, *batch), signed(1, *good), signed(-1, *good))


@pytest.mark.parametrize(("engine", "kind"), [("interpreter", "STREAM"), ("compiled", "TABLE")])
def test_interrupted_batches(engine: str, kind: str) -> None:
    check_all(trial(engine, kind))
