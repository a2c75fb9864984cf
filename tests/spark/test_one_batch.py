"""Changes that nearly cancel within one batch, on the two kernels of Spark: their summaries are small, not nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline
from viewlet.spark.run.partition import forget

TABLES = (
    "CREATE TABLE r (id INTEGER, g INTEGER, y {type})",
    "CREATE TABLE s (g INTEGER, z {type})",
)
VIEWS = {
    "sums": "SELECT g, SUM(y) AS total FROM r GROUP BY g",
    "sums_once": "SELECT g, SUM(DISTINCT y) AS total FROM r GROUP BY g",
    "spread": "SELECT g, VAR_SAMP(y) AS spread FROM r GROUP BY g",
    "self_joined": "SELECT a.g, SUM(a.y + 2 * b.y) AS total FROM r a LEFT JOIN r b ON a.g = b.g GROUP BY a.g",
    "united": "SELECT g, SUM(y) AS total FROM (SELECT g, y FROM r UNION ALL SELECT g, z FROM s) t GROUP BY g",
    "one_field_unchanged": "SELECT r.y, r.g, SUM(r.y * s.z) AS total "
    "FROM r RIGHT JOIN s ON r.g = s.g AND s.z > 1 GROUP BY r.y, r.g",
}


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget()


def batch(r: list[tuple[int, int, int, int]], s: list[tuple[int, int, int]]) -> dict[str, list[dict[str, int]]]:
    return {
        "r": [{"id": i, "g": g, "y": y, "_multiplicity": n} for i, g, y, n in r],
        "s": [{"g": g, "z": z, "_multiplicity": n} for g, z, n in s],
    }


BATCHES = (
    batch([(1, 1, 2, 1), (2, 1, 3, 1), (3, 2, 5, 1)], [(1, 2, 1), (2, 4, 1)]),
    batch([(1, 1, 2, -1), (4, 1, 9, 1)], []),
    batch([(2, 1, 3, -1)], [(1, 7, 1)]),
    batch([(4, 1, 9, -1), (5, 1, 8, 1)], [(1, 7, -1), (1, 3, 1)]),
    batch([(5, 1, 8, -1), (6, 1, 4, 1), (3, 2, 5, -1)], [(2, 4, -1), (2, 6, 1)]),
)


def follow(db: Any) -> dict[str, Any]:
    """What subscribers are told, kept up to date."""
    told: dict[str, Any] = {}
    for name in VIEWS:
        db.view(name).subscribe(lambda epoch, changes, name=name: told.update({name: changes.to_pylist()}))
    return told


@pytest.mark.parametrize(("engine", "partitions"), [("interpreter", 2), ("compiled", 1), ("compiled", 3)])
@pytest.mark.parametrize("type", ["DOUBLE", "BIGINT NOT NULL"])
def test_sums_of_a_summary_without_rows_are_added(engine: str, partitions: int, type: str, tmp_path: Path) -> None:
    with (
        viewlet.connect(engine="interpreter") as home,
        connect_inline(tmp_path, partitions, sync=False, engine=engine) as db,
    ):
        for each in (home, db):
            for table in TABLES:
                each.execute(table.format(type=type))
            for name, sql in VIEWS.items():
                each.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        heard, expected = follow(db), follow(home)
        for number, changes in enumerate(BATCHES):
            home.apply(changes)
            db.apply(changes)
            found = {name: db.view(name).rows() for name in VIEWS}
            assert found == {name: home.view(name).rows() for name in VIEWS}, f"batch {number}"
            assert heard == expected, f"batch {number}"
