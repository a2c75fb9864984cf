"""Batches of views with user-defined aggregates, cut short at any line: states, rows and answers stay consistent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.aggregates.examples import ALL
from tests.interrupts.harness import Trial, check_all

VIEWS = """
    CREATE MATERIALIZED VIEW by_key AS SELECT g, bit_mix(x) AS m, squares(x) AS q, COUNT(*) AS n FROM t GROUP BY g;
    CREATE MATERIALIZED VIEW joined AS SELECT c, squares(x + 1) AS q FROM t JOIN u USING (g) GROUP BY c;
    CREATE MATERIALIZED VIEW whole AS SELECT bit_mix(x) AS m FROM t;
    CREATE MATERIALIZED VIEW above AS SELECT g, q FROM by_key WHERE q > 3
"""


def signed(sign: int, new: list[tuple[int, int]], old: list[tuple[int, int]]) -> list[dict[str, Any]]:
    rows = [(row, sign) for row in new] + [(row, -sign) for row in old]
    return [{"g": g, "x": x, "_multiplicity": weight} for (g, x), weight in rows]


def batch(sign: int) -> dict[str, Any]:
    return {"t": signed(sign, [(1, 7), (3, 2)], [(2, 4)]), "u": [{"g": 3, "c": 9, "_multiplicity": sign}]}


def good(sign: int) -> dict[str, Any]:
    return {"t": signed(sign, [(2, 5), (1, 1)], [])}


def trial(engine: str, kind: str, path: Path | None = None) -> Trial:
    def make() -> viewlet.Connection:
        db = viewlet.connect(path, engine=engine, fsync=False, aggregates=ALL)
        db.execute(f"CREATE {kind} t (g BIGINT, x BIGINT); CREATE {kind} u (g BIGINT, c BIGINT)")
        db.execute(VIEWS)
        return db

    first = {"t": [(1, 3), (2, 4), (2, 6)], "u": [(1, 8), (2, 9)]}
    return Trial(make, first, batch(1), batch(-1), good(1), good(-1))


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_interrupted_batches(engine: str, kind: str) -> None:
    check_all(trial(engine, kind))
