"""Batches of matrix programs, cut short at any line: matrices, their dimensions and the rows shown stay consistent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import viewlet
from tests.interrupts.harness import Trial, check_all, same_when_reopened
from viewlet import linalg

n = linalg.dim("n")
A = linalg.matrix("A", n, n, dynamic=True)


def signed(sign: int, new: list[tuple[str, str, float]], old: list[tuple[str, str, float]]) -> dict[str, Any]:
    rows = [(row, sign) for row in new] + [(row, -sign) for row in old]
    return {"links": [{"a": a, "b": b, "w": w, "_multiplicity": times} for (a, b, w), times in rows]}


def trial(path: Path | None = None) -> Trial:
    def make() -> viewlet.Connection:
        db = viewlet.connect(path, fsync=False)
        db.execute("CREATE TABLE links (a VARCHAR, b VARCHAR, w DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW heavy AS SELECT a, b, SUM(w) AS w FROM links WHERE w > 1 GROUP BY a, b")
        db.program("reach", linalg.program(paths=linalg.power_sum(A, 3)), A="links")
        if path is None:  # one in a directory is opened again and again
            db.program("squares", linalg.program(C=A @ A), A="heavy")
            db.execute('CREATE MATERIALIZED VIEW sources AS SELECT "row", COUNT(*) AS n FROM reach GROUP BY "row"')
        return db

    first = {"links": [("a", "b", 1.0), ("b", "c", 2.0), ("c", "a", 4.0), ("c", "d", 1.0)]}
    batch = ([("d", "e", 2.0), ("e", "a", 1.0), ("a", "a", 2.0)], [("c", "d", 1.0), ("b", "c", 2.0)])
    good = ([("b", "d", 2.0), ("f", "a", 1.0)], [])
    return Trial(make, first, signed(1, *batch), signed(-1, *batch), signed(1, *good), signed(-1, *good))


def test_interrupted_batches() -> None:
    assert check_all(trial()) > 0


def test_in_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "db"
    check_all(trial(path), 3, look=lambda each: same_when_reopened(each, path, "auto"))
