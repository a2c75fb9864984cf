"""The sketches stay within their bounds under inserts and deletes, and forget what was deleted."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any

import numpy as np
import pytest

import viewlet
from viewlet.sketches import ApproxDistinct, ApproxQuantile


def opened(columns: str, name: str, sketch: object) -> viewlet.Connection:
    db = viewlet.connect(engine="interpreter")
    db.register_aggregate(name, sketch)
    db.execute(f"CREATE STREAM t (g BIGINT, {columns})")
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT g, {name}(x) AS a FROM t GROUP BY g")
    return db


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "VARCHAR", "DATE", "DECIMAL(9,2)"])
def test_distinct_counts(kind: str) -> None:
    make: Any = {
        "BIGINT": int,
        "DOUBLE": lambda i: i / 7,
        "VARCHAR": lambda i: f"name {i}",
        "DATE": lambda i: date(2000, 1, 1) + timedelta(i),
        "DECIMAL(9,2)": lambda i: f"{i}.25",
    }[kind]
    db = opened(f"x {kind}", "approx_distinct", ApproxDistinct)
    db.insert("t", [(1, make(i)) for i in range(2000) for _ in range(1 + i % 2)])
    assert db.view("v").rows()[0][1] == pytest.approx(2000, rel=0.06)
    db.delete("t", [(1, make(i)) for i in range(500, 2000) for _ in range(1 + i % 2)])
    assert db.view("v").rows()[0][1] == pytest.approx(500, rel=0.06)
    db.delete("t", [(1, make(i)) for i in range(500) for _ in range(1 + i % 2)])
    assert db.view("v").rows() == []


def test_single_rows_and_batches_count_alike() -> None:
    sketch = ApproxDistinct(64)
    for values in (np.arange(40), np.arange(40) / 3, np.array(["a", "b", "ü"], object)):
        one = sketch.zero()
        for value in values.tolist():
            one = sketch.add(one, value)
        many = sketch.update(sketch.zero(), values, np.ones(len(values), np.int64))
        assert (one == many).all()
        for value in values.tolist():
            one = sketch.remove(one, value)
        assert not one.any()


@pytest.mark.parametrize("quantile", [0.0, 0.25, 0.5, 0.99, 1.0])
def test_quantiles_are_within_the_accuracy(quantile: float) -> None:
    random = Random(4)
    db = opened("x DOUBLE", "q", ApproxQuantile(quantile, accuracy=0.02))
    held = [random.choice([-1, 1, 1]) * random.lognormvariate(0, 3) for _ in range(400)] + [0.0]
    db.insert("t", [(1, x) for x in held])
    for _ in range(3):
        ranked = sorted(held)
        exact = ranked[int(quantile * (len(ranked) - 1))]
        assert db.view("v").rows()[0][1] == pytest.approx(exact, rel=0.0201, abs=1e-6)
        gone, held = held[:120], held[120:]
        db.delete("t", [(1, x) for x in gone])


def test_values_beyond_the_buckets() -> None:
    db = opened("x DOUBLE", "q", ApproxQuantile(1.0, largest=100.0))
    db.insert("t", [(1, 1e12), (2, 1e-12), (3, None)])
    assert db.view("v").rows() == [(1, pytest.approx(100, rel=0.02)), (2, 0.0), (3, None)]


@pytest.mark.parametrize("make", [lambda: ApproxDistinct(3), lambda: ApproxQuantile(2), lambda: ApproxQuantile(0.5, 0)])
def test_wrong_parameters_are_refused(make: Any) -> None:
    with pytest.raises(viewlet.SchemaError):
        make()
