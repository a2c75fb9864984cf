"""Results of other queries over several stored views of a unit: read by generated code, with what tasks are sent, and
told from the rows that a batch concerns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_shared_units import create, units
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.connection.stored_view import open_view

TABLES = "CREATE TABLE sales (shop BIGINT NOT NULL, price BIGINT NOT NULL, weight DOUBLE NOT NULL)"
SPANS = "FROM sales GROUP BY shop"
OWN = f"SELECT shop, MIN(price) AS low, SUM(weight) AS weight, COUNT(*) AS n {SPANS}"
OTHER = f"SELECT shop, MIN(price) AS low, SUM(weight) AS weight {SPANS} HAVING SUM(weight) > 1"
LARGE = f"{SPANS} HAVING SUM(price) > (SELECT SUM(price) FROM sales) * 0.3"
Open = Callable[[], SparkConnection]


@pytest.fixture(params=["interpreter", "compiled"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    return lambda: connect_inline(tmp_path / "state", 3, sync=False, engine=request.param)


def kept_changes(db: SparkConnection, name: str) -> Counter[Any]:
    found = Counter[Any]()
    for *row, weight, _ in zip(*(column.to_pylist() for column in db.changes(name).columns), strict=True):
        found[tuple(row)] += weight
    return found


def rows_for_other_jobs(path: Path, name: str) -> list[tuple[Any, ...]]:
    stored = open_view(str(path), name)
    tables = [stored.read(task, range(len(stored.columns))) for task in range(stored.tasks)]
    return sorted(row for table in tables for row in zip(*(c.to_pylist() for c in table.columns), strict=True))


def test_tasks_are_sent_what_another_result_is_compared_with(make: Open, tmp_path: Path) -> None:
    with make() as db:
        db.execute(f"{TABLES} PARTITION BY (shop)")
        db.partition_by("large_sales", "shop")
        create(db, large=f"SELECT shop, SUM(price) AS total {LARGE}", shops=f"SELECT shop {LARGE}")
        assert units(db) == {"large"}
        assert {db.view(name).stats()["reading"] for name in db.views} == {"sent"}
        for prices, expected in (((1, 2, 3, 4), [(3,)]), ((0, 9, 0, 0), [(1,)])):
            db.insert("sales", [(shop, price * 100, 0.1) for shop, price in enumerate(prices)])
            assert db.view("shops").rows() == expected
            assert [row[:1] for row in db.view("large").rows()] == expected
            assert db.view("shops").to_arrow()["shop"].to_pylist() == [shop for (shop,) in expected]
            assert len(db.view("shops")) == 1
            assert rows_for_other_jobs(tmp_path / "state", "shops") == expected


@pytest.mark.parametrize("watched", [("other",), ("own", "other")])
def test_sums_of_doubles_are_told_exactly_whoever_watches_them(make: Open, watched: tuple[str, ...]) -> None:
    """What a sum of doubles was is known from the rows before, which are kept for all results that are watched."""
    with make() as db:
        db.execute(TABLES)
        create(db, own=OWN, other=OTHER)
        assert units(db) == {"own"}
        for name in watched:
            db.changes(name)
        for batch in range(6):
            rows = [(shop, 5 - batch % 3, 0.1 * (batch + 1) + 1e-17 * shop) for shop in range(5)]
            db.insert("sales", rows)
            if batch % 2:
                db.delete("sales", rows[:3])
            for name in watched:
                assert +kept_changes(db, name) == Counter(db.view(name).rows())


def test_results_that_nobody_watches_any_more_leave_the_others_watched(make: Open) -> None:
    with make() as db:
        db.execute(TABLES)
        create(db, own=OWN, other=OTHER, third=f"{OTHER} AND COUNT(*) > 1")
        for name in ("other", "third"):
            db.changes(name)
        db.insert("sales", [(shop, 3, 0.7) for shop in (1, 1, 2, 2, 3)])
        db.execute("DROP VIEW other")
        db.insert("sales", [(shop, shop, 0.1) for shop in (1, 2, 3)])
        assert +kept_changes(db, "third") == Counter(db.view("third").rows())
        db.changes("own")
        before = Counter(db.view("own").rows())
        db.insert("sales", [(shop, shop, 0.2) for shop in (1, 2, 3)])
        assert +kept_changes(db, "third") == Counter(db.view("third").rows())
        total = Counter(before)
        total.update(kept_changes(db, "own"))
        assert +total == Counter(db.view("own").rows())
