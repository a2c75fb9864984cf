"""Cofactors and what is fitted from them are right however far from zero the columns are; exact ones are exact."""

from __future__ import annotations

import random
import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8, 1.7e9, -7e12])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_sums_and_models_of_a_stream_far_from_zero(engine: str, offset: float, tmp_path: Path) -> None:
    """Sums are those about zero, and covariances those of the rows, also where the directory was opened again."""
    chance, rows = random.Random(7), list[tuple[Any, ...]]()
    for part in range(3):
        with viewlet.connect(tmp_path / "db", engine=engine, fsync=False) as db:
            if not part:
                db.execute(STREAM)
            for _ in range(4):
                come = [made_row(chance, offset) for _ in range(10)]
                gone = [rows.pop(chance.randrange(len(rows))) for _ in range(4) if rows]
                weighted = [(row, 1) for row in come] + [(row, -1) for row in gone]
                names = ("k", "x", "n", "c", "y", "_multiplicity")
                db.apply({"s": [dict(zip(names, (*row, weight), strict=True)) for row, weight in weighted]})
                rows += come
            if part == 1:
                db.checkpoint()
            check_sums(db, [row for row in rows if None not in row])
    with viewlet.connect(tmp_path / "db", engine=engine, fsync=False) as db, warnings.catch_warnings():
        warnings.simplefilter("error")
        joined = [(x, n, y) for _, x, n, c, y in rows if None not in (x, n, c)]
        model = LinearRegression("y", ["x", "n"]).fit(db.view("m"))
        assert model.coef_.tolist() == pytest.approx([3.0, -2.0], abs=1e-3)
        assert model.score() == pytest.approx(1.0, abs=1e-6)
        predicted = model.predict([(x, n) for x, n, _ in joined])
        assert predicted.tolist() == pytest.approx([y for *_, y in joined], abs=1e-2)
        curve = PolynomialRegression("y", ["x", "n"]).fit(db.view("m"))
        assert curve.predict([(x, n) for x, n, _ in joined]).tolist() == pytest.approx(predicted.tolist(), abs=1e-2)
        parts = PCA(features=["x", "n", "y"]).fit(db.view("m")).explained_variance_
        expected = np.linalg.eigvalsh(covariances(joined))[::-1]
        assert parts.tolist() == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9)


STREAM = """
    CREATE STREAM s (k BIGINT, x DOUBLE, n BIGINT, c VARCHAR, y DOUBLE NOT NULL);
    CREATE TABLE d (k BIGINT);
    INSERT INTO d VALUES (0), (1), (2);
    CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x, n, y, CATEGORICAL(c), degree => 4) FROM s NATURAL JOIN d;
"""


def made_row(chance: random.Random, offset: float) -> tuple[Any, ...]:
    x, n = offset + chance.gauss(0, 2), int(offset) + chance.randrange(8)
    y = 3 * (x - offset) - 2 * (n - int(offset))
    return chance.randrange(3), None if chance.random() < 0.1 else x, n, chance.choice(["a", "b", None]), y


def check_sums(db: viewlet.Connection, rows: list[tuple[Any, ...]]) -> None:
    """Sums of products against fractions: no further off than rounding each summand a few times."""
    found = db.view("m").cofactor()
    assert found.count == len(rows)
    for kinds, chosen in (({}, rows), ({"c": "b"}, [row for row in rows if row[3] == "b"])):
        columns = {name: [Fraction(row[place]) for row in chosen] for name, place in (("x", 1), ("n", 2), ("y", 4))}
        for size in range(5 - len(kinds)):
            for names in combinations_with_replacement("xny", size):
                products = [prod((columns[name][i] for name in names), start=Fraction(1)) for i in range(len(chosen))]
                error = Fraction(found.moment(names, kinds)) - sum(products)
                assert abs(error) <= sum(map(abs, products)) * Fraction(1, 2**48)


def test_what_origins_cannot_mend_is_warned_of() -> None:
    """A value near zero moves all sums back to zero: as accurate as ever, and the variance of the others is lost."""
    rows = [(1, 7e12 + i % 5, 0.5 * (i % 5)) for i in range(40)]
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine)
        db.execute("CREATE TABLE t (g BIGINT, x DOUBLE NOT NULL, y DOUBLE NOT NULL)")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, COFACTOR(x, y) FROM t GROUP BY g")
        db.insert("t", rows)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert LinearRegression("y").fit(db.view("m").cofactor()[1]).coef_[0] == pytest.approx(0.5)
        with pytest.raises(viewlet.DataError):
            db.apply({"t": [(2, 1e-3, 0.0), (2, float("inf"), 0.0)]})
        db.insert("t", [(2, 1e-3, 1.0)] * 3)
        small = db.view("m").cofactor()[2]
        assert small.sums.tolist() == pytest.approx([3e-3, 3.0], rel=1e-15)
        assert small.matrix[0].tolist() == pytest.approx([3e-6, 3e-3], rel=1e-15)
        whole = db.view("m").cofactor()[1]
        assert whole.sums[0] == pytest.approx(float(sum(Fraction(x) for _, x, _ in rows)), rel=1e-15)
        assert whole.matrix[0, 0] == pytest.approx(float(sum(Fraction(x) ** 2 for _, x, _ in rows)), rel=1e-15)
        db.insert("t", [(1, 7e12, 0.0)])
        with pytest.warns(LinAlgWarning, match="'x'"):
            LinearRegression("y").fit(db.view("m").cofactor()[1])
        db.delete("t", db.table("t").rows())
        db.insert("t", rows)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert LinearRegression("y").fit(db.view("m").cofactor()[1]).score() == pytest.approx(1.0)


def test_a_batch_that_moves_origins_is_rolled_back() -> None:
    """Bit by bit, on either engine: the sums of the views that a failing batch has moved, and what they are about."""
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine)
        db.execute("CREATE TABLE t (k BIGINT, x DOUBLE NOT NULL); CREATE TABLE u (k BIGINT, z BIGINT NOT NULL)")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x, z, degree => 3) FROM t NATURAL JOIN u")
        db.apply({"t": [(k, 1e8 + k / 7) for k in range(9)], "u": [(k, 10**9 + k) for k in range(9)]})
        before = db.view("m").cofactor()
        with pytest.raises(viewlet.DataError):
            db.apply({"t": [(1, 0.25)], "u": [(1, 3), (2, 10**9), (3, None)]})
        with pytest.raises(viewlet.DataError):
            db.apply({"t": [(1, 0.25)], "u": [{"k": 99, "z": 1, "_multiplicity": -1}]})
        after = db.view("m").cofactor()
        assert after.matrix.tolist() == before.matrix.tolist()
        assert after.centred.tolist() == before.centred.tolist()


def test_small_values_one_by_one() -> None:
    """The sums of any first values are right, also about an origin of 1, which of integers serves no other."""
    for values in ((1, 1, 2, 0), (-1, -1, 1), (0, 7, 0), (2, 1, 3), (3, 3, 5, -3)):
        for kind in ("BIGINT", "DOUBLE"):
            db = viewlet.connect(engine="compiled")
            db.execute(f"CREATE STREAM s (x {kind}); CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x) FROM s")
            for count, value in enumerate(values, 1):
                db.insert("s", [(value,)])
                found, squares = db.view("m").cofactor(), sum(x * x for x in values[:count])
                assert (found.sums[0], found.matrix[0, 0]) == (sum(values[:count]), squares)


def test_products_have_origins_too() -> None:
    db = viewlet.connect(engine="compiled")
    db.execute(
        "CREATE STREAM s (k BIGINT, x BIGINT, y DOUBLE); CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x, y) FROM s"
    )
    factors = {"k": range(40)}, {"x": [7 * 10**12 + i for i in range(40)]}, {"y": [-1e8, -1e8 - 1]}
    for sign in (1, 1, -1):
        db.apply({"s": viewlet.product(*factors, multiplicity=sign)})
    found = db.view("m").cofactor()
    assert found.count == 40 * 40 * 2
    spread = 80 * (40**3 - 40) / 12
    assert found.centred.tolist() == pytest.approx(np.array([[spread, 0.0], [0.0, 40 * 40 * 2 / 4]]), abs=1e-6)
