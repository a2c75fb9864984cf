"""Exact cofactors are exact in what is fitted from them too, however far from zero the columns are."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import viewlet
from viewlet.ml import PCA, LinearRegression
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.cofactor_table import cofactor_table

OFFSETS = (7e12, 1.7e9, -1e15)


def covariances(rows: list[tuple[float, ...]]) -> list[list[float]]:
    columns = [[Fraction(x) for x in column] for column in zip(*rows, strict=True)]
    means = [sum(column) / len(rows) for column in columns]
    return [
        [
            float(sum((x - a) * (y - b) for x, y in zip(left, right, strict=True)) / (len(rows) - 1))
            for right, b in zip(columns, means, strict=True)
        ]
        for left, a in zip(columns, means, strict=True)
    ]


@pytest.mark.parametrize("seed", range(2))
def test_models_far_from_zero(seed: int) -> None:
    chance = random.Random(seed)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (c VARCHAR, x DOUBLE NOT NULL, z DOUBLE NOT NULL, w DOUBLE NOT NULL, y DOUBLE NOT NULL)")
    db.execute("CREATE MATERIALIZED VIEW e AS SELECT COFACTOR(x, z, w, y, CATEGORICAL(c), exact => true) FROM t")
    rows = []
    for i in range(40):
        x, z, w = (offset + chance.choice((-1, 1)) * (0.5 + chance.random()) for offset in OFFSETS)
        x0, z0, w0 = (value - offset for value, offset in zip((x, z, w), OFFSETS, strict=True))
        rows.append(("ab"[i % 2], x, z, w, 3 * x0 - 2 * z0 + 0.5 * w0 + 10 * (i % 2)))
    outlier = ("b", 1e150, -1e140, 3.0, 1e100)
    db.insert("t", [*rows, outlier])
    db.delete("t", [outlier])
    model = LinearRegression("y").fit(db.view("e"))
    weights = dict(zip(model.columns_, model.coef_, strict=True))
    assert [weights[name] for name in "xzw"] == pytest.approx([3.0, -2.0, 0.5], rel=1e-6)
    assert weights["c", "b"] - weights["c", "a"] == pytest.approx(10.0, rel=1e-6)
    assert model.score(db.view("e")) == pytest.approx(1.0)
    parts = PCA(features=["x", "z", "w"]).fit(db.view("e")).explained_variance_
    expected = np.linalg.eigvalsh(covariances([row[1:4] for row in rows]))[::-1]
    assert parts.tolist() == pytest.approx(expected.tolist(), rel=1e-12)


def test_exact_numbers_of_several_types() -> None:
    """Doubles, decimals and integers meet in one product without rounding."""
    ring = CofactorRing(("x", "d", "n"), exact=True)
    lift = ring.lift(("x", "d", "n"))
    total = ring.zero
    for row in ((0.1, Decimal("0.1"), 3), (7e12 + 0.5, Decimal("1e-20"), 10**20)):
        total = ring.add(total, lift(row))
    values = ((Fraction(0.1), Fraction(1, 10), 3), (Fraction(7e12 + 0.5), Fraction(1, 10**20), 10**20))
    for i, left in enumerate("xdn"):
        for j, right in enumerate("xdn"):
            moment = ring.moment(total, (left, right))
            assert getattr(moment, "fraction", moment) == sum(row[i] * row[j] for row in values)
    table = cofactor_table(ring, total)
    assert table.centred[0, 1] == float(
        sum(row[0] * row[1] for row in values) - sum(r[0] for r in values) * sum(r[1] for r in values) / 2
    )
