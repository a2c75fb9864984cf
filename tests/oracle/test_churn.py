"""Rows come and go for fifty batches; in the end the views are what they were over empty tables, to the last bit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import viewlet
from tests.oracle.play import STRATEGIES
from workloads.streams import Row

BATCHES = 50
GROUPS = 4
TABLE = "CREATE TABLE readings (sensor INTEGER NOT NULL, amount DOUBLE, price DECIMAL(12,4), note VARCHAR)"
VIEWS = {
    "total": "SELECT SUM(amount) AS s, COUNT(*) AS n, AVG(amount) AS m, VAR_POP(amount) AS v FROM readings",
    "per_sensor": "SELECT sensor, SUM(amount) AS s, MIN(price) AS p, STDDEV(amount) AS d FROM readings GROUP BY sensor",
    "pairs": """
        SELECT a.sensor, SUM(a.amount * b.amount) AS s
        FROM readings a, readings b WHERE a.sensor = b.sensor GROUP BY a.sensor""",
    "notes": "SELECT DISTINCT note, SUM(DISTINCT price) AS p FROM readings GROUP BY note",
    "larger": """
        SELECT a.note, b.amount
        FROM readings a LEFT JOIN readings b ON a.sensor = b.sensor AND a.amount < b.amount""",
    "above": "SELECT sensor, amount FROM readings WHERE price > (SELECT AVG(price) FROM readings)",
}


def random_reading(random: Random) -> Row:
    """Amounts of very different sizes, whose naive floating-point sums leave residues."""
    amount = None if random.random() < 0.1 else random.uniform(-1, 1) * 10.0 ** random.randint(-6, 6)
    price = None if random.random() < 0.1 else f"{random.randint(-(10**6), 10**6) / 10_000:.4f}"
    return (random.randrange(GROUPS), amount, price, random.choice("xyz"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_views_over_emptied_tables_are_as_new(strategy: str) -> None:
    db = connected(strategy)
    fresh = {name: db.view(name).rows() for name in VIEWS}
    random = Random(7)
    present: list[Row] = []
    for number in range(BATCHES):
        leaving = number >= BATCHES // 2
        size = len(present) // (BATCHES - number) if leaving else 4
        if leaving:
            random.shuffle(present)
            present, gone = present[size:], present[:size]
            db.delete("readings", gone)
        else:
            arriving = [random_reading(random) for _ in range(size)]
            db.insert("readings", arriving)
            present += arriving
    assert present == []
    assert {name: db.view(name).rows() for name in VIEWS} == fresh


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_batches_that_are_taken_back_at_once_leave_no_trace(strategy: str) -> None:
    db = connected(strategy)
    random = Random(8)
    # Amounts of one size: what stays must not depend on what came and went, however large that was.
    db.insert("readings", [(sensor, 0.5 * sensor, "1.2500", "x") for sensor in range(GROUPS)])
    before = {name: sorted(db.view(name).rows(), key=str) for name in VIEWS}
    for _ in range(BATCHES):
        rows = [random_reading(random) for _ in range(3)]
        db.insert("readings", rows)
        db.delete("readings", rows)
        assert {name: sorted(db.view(name).rows(), key=str) for name in VIEWS} == before


def connected(strategy: str) -> Any:
    db: Any = viewlet.connect()
    db.execute(TABLE)
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")
    return db
