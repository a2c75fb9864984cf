"""A nested MIN or MAX over all groups: each worker sends its own extreme, however many groups it has."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import viewlet
from viewlet.connection.spark_facade import SparkConnection, connect_inline

TABLES = """
    CREATE TABLE shops (shop BIGINT NOT NULL PRIMARY KEY, name VARCHAR NOT NULL);
    CREATE TABLE sales (id BIGINT NOT NULL PRIMARY KEY, shop BIGINT NOT NULL, price BIGINT) PARTITION BY (shop)
"""
TOTALS = "(SELECT shop, SUM(price) AS total FROM sales GROUP BY shop)"
VIEWS = f"""
    CREATE MATERIALIZED VIEW best AS
    SELECT shop, name, total FROM shops JOIN {TOTALS} AS t USING (shop)
    WHERE total = (SELECT MAX(total) FROM {TOTALS} AS u);
    CREATE MATERIALIZED VIEW worst AS
    SELECT shop, name, total FROM shops JOIN {TOTALS} AS t USING (shop)
    WHERE total = (SELECT MIN(total) FROM {TOTALS} AS u)
"""


def opened(folder: Path, engine: str) -> SparkConnection:
    db = connect_inline(folder, 3, sync=False, engine=engine)
    db.execute(f"{TABLES}; {VIEWS}")
    return db


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_extremes_of_workers_make_the_extreme(tmp_path: Path, engine: str) -> None:
    choice = random.Random(3)
    kept: list[tuple[int, int, int | None]] = []
    with opened(tmp_path / "state", engine) as db, viewlet.connect(engine="interpreter") as expected:
        assert db.explain("best", stage="spark").count(" := max ") == 2
        expected.execute(f"{TABLES}; {VIEWS}")
        for each in (db, expected):
            each.insert("shops", [(i, f"shop {i}") for i in range(8)])
        for step in range(12):
            gone = choice.sample(kept, min(len(kept), choice.randrange(8)))
            if step == 8:
                gone = list(kept)  # nothing is left that could be the largest
            kept = [row for row in kept if row not in gone]
            new = [(100 * step + i, choice.randrange(9), choice.choice([None, -3, 2, 9])) for i in range(7)]
            kept += new if step != 8 else []
            for each in (db, expected):
                each.delete("sales", gone)
                if step != 8:
                    each.insert("sales", new)
            for name in ("best", "worst"):
                assert sorted(db.view(name).rows()) == sorted(expected.view(name).rows()), (name, step)


def test_what_is_sent_does_not_grow_with_the_groups(tmp_path: Path) -> None:
    moved = []
    for groups in (20, 400):
        with opened(tmp_path / str(groups), "interpreter") as db:
            db.insert("shops", [(i, str(i)) for i in range(groups)])
            db.insert("sales", [(i, i, i) for i in range(groups)])
            db.insert("sales", [(groups, 1, 7)])
            moved.append(db.stats()["batches"][-1]["moved_bytes"])
    assert moved[1] < 1.5 * moved[0]
