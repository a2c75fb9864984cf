"""Batches of views over partitioned streams, cut short at any line: parts, catalogue and views stay consistent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import viewlet
from tests.interrupts.harness import Trial, check_all, same_when_reopened
from tests.streams.model import at

STATEMENTS = (
    "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts",
    "CREATE VIEW runs AS INITIALIZE runs[i] AS SELECT g, 1 AS n FROM m[i] WHERE x > 10 UPDATE runs[j] AS "
    "SELECT m.g, COALESCE(n, 0) + 1 FROM m[j] LEFT JOIN runs[j-1] USING (g) WHERE x > 10",
    "CREATE VIEW recent AS SELECT g, SUM(x) AS x FROM m [WINDOW 2 MINUTES] GROUP BY g",
)
FIRST = [(at(60 * minute + second), g, 12 + minute) for minute in range(3) for second, g in enumerate("ab")]


def signed(sign: int, *rows: tuple[Any, ...]) -> dict[str, Any]:
    return {"m": [{"ts": ts, "g": g, "x": x, "_multiplicity": sign} for ts, g, x in rows]}


def trial(path: Path | None = None) -> Trial:
    def make() -> viewlet.Connection:
        db = viewlet.connect(path, fsync=False)
        for statement in STATEMENTS:
            db.execute(statement)
        return db

    batch, good = [(at(70), "c", 40), (at(5), "a", 3)], [(at(65), "b", 20)]
    return Trial(make, {"m": FIRST}, signed(1, *batch), signed(-1, *batch), signed(1, *good), signed(-1, *good))


def test_interrupted_batches() -> None:
    assert check_all(trial(), 15) > 0


def test_in_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "db"
    opened = trial(path)
    check_all(opened, 3, look=lambda each: same_when_reopened(each, path, "auto"))
