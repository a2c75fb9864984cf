"""Exact cofactors are exact in what is fitted from them too, however far from zero the columns are."""

from __future__ import annotations

import random
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import viewlet
from viewlet.linalg import LinAlgWarning
from viewlet.ml import PCA, LinearRegression, PolynomialRegression
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


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e8, 1.7e9, 1e12, 7e12])
def test_models_of_rounded_sums_are_right_or_warned_of(offset: float) -> None:
    """Where doubles have lost a variance, fitting says so; where they have it, or nothing varies, it is silent."""
    chance = random.Random(3)
    db = viewlet.connect(engine="interpreter")
    db.execute("CREATE TABLE t (x DOUBLE NOT NULL, one DOUBLE NOT NULL, y DOUBLE NOT NULL)")
    for name, option in (("rounded", ""), ("degree4", ", degree => 4"), ("exact", ", exact => true")):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT COFACTOR(x, one, y{option}) FROM t")
    values = [(chance.uniform(0, 100), chance.gauss(0, 1)) for _ in range(100)]
    db.insert("t", [(offset + x, 1.0, 3 * x + noise) for x, noise in values])
    right = np.polyfit(*np.array([(x, 3 * x + noise) for x, noise in values]).T, 1)[0]
    spread = np.var([x for x, _ in values], ddof=1)

    def fitted(view: str) -> tuple[bool, float, float]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            weight = LinearRegression("y").fit(db.view(view)).coef_[0]
            explained = PCA(features=["x"]).fit(db.view(view)).explained_variance_[0]
        assert {each.category for each in caught} <= {LinAlgWarning}
        assert all("'x'" in str(each.message) and "'one'" not in str(each.message) for each in caught)
        return bool(caught), abs(weight - right), abs(explained / spread - 1)

    warned, *errors = fitted("exact")
    assert not warned
    assert max(errors) < 1e-3
    for view in ("rounded", "degree4"):
        warned, *errors = fitted(view)
        assert warned or max(errors) < 1e-3
        assert warned == (offset > 1e6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PolynomialRegression("y", features=["x"]).fit(db.view("degree4"))
    assert caught or abs(model.predict({"x": [offset + 50.0]})[0] - 150.0) < 2.0
