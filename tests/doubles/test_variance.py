"""Variances of doubles lose no digits, however far from zero the values are; the oracle computes with fractions."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction

import pytest

import viewlet
from viewlet.errors import DataError
from viewlet.runtime.functions import variance

ENGINES = ("interpreter", "compiled")
FUNCTIONS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
VIEW = f"SELECT g, COUNT(x) AS n, {', '.join(f'{name}(x) AS {name.lower()}' for name in FUNCTIONS)} FROM t GROUP BY g"


def wanted(values: Sequence[float]) -> tuple[float | None, ...]:
    """What the view should have of the values of one group."""
    n, xs = len(values), [Fraction(x) for x in values]
    spread = n * sum(x * x for x in xs) - sum(xs) ** 2
    variances = [float(spread / (n * (n - freedom))) if n > freedom else None for freedom in (0, 1)]
    return n, *variances, *(None if v is None else math.sqrt(v) for v in variances)


def compare(db: viewlet.Connection, held: Sequence[tuple[int, float | None]]) -> None:
    rows = {g: row for g, *row in db.view("v").rows()}
    assert rows.keys() == {g for g, _ in held}
    for g, row in rows.items():
        expected = wanted([x for h, x in held if h == g and x is not None])
        for mine, exact in zip(row, expected, strict=True):
            if exact is None or mine is None:
                assert mine is exact
            else:
                assert math.isclose(mine, exact, rel_tol=1e-15, abs_tol=1e-323), (g, row, expected)


def opened(engine: str, kind: str = "TABLE", type: str = "DOUBLE") -> viewlet.Connection:
    db = viewlet.connect(engine=engine)
    db.execute(f"CREATE {kind} t (g BIGINT NOT NULL, x {type})")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
    return db


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "values",
    [
        [7000000000005.0, 7000000000007.0],
        [1731990000.25, 1731990001.5, 1731990003.75],
        [1e15, 1e15 + 0.125, 1e15 + 0.25],
        [12345.678901234567] * 7 + [math.nextafter(12345.678901234567, 1e9)],
        [0.1] * 1000,
        [9e153, -9e153, 1.0],
        [2e-160, 4e-160],
        [1e-170, 3e-170],
        [5e-324, 0.0, -5e-324],
        [-(2.0**53), 2.0**53 - 1, 0.5],
        [3.0],
        [],
    ],
)
def test_values_far_from_zero(engine: str, values: list[float]) -> None:
    db = opened(engine)
    rows: list[tuple[int, float | None]] = [(1, x) for x in values]
    db.insert("t", [*rows, (1, None), (2, 1.5)])
    compare(db, [*rows, (1, None), (2, 1.5)])


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_random_offsets(engine: str, kind: str, seed: int) -> None:
    """Values that are close together, at an offset, come and go; so does an outlier."""
    chance = random.Random(seed)
    db = opened(engine, kind)
    held: list[tuple[int, float | None]] = []
    offsets = [chance.choice([-1, 1]) * 10.0 ** chance.uniform(-120, 130) for _ in range(6)]
    spreads = [abs(offset) * 10.0 ** chance.uniform(-15, 1) for offset in offsets]
    for _ in range(30):
        rows: list[tuple[int, float | None]] = []
        for _ in range(chance.randrange(1, 8)):
            g = chance.randrange(6)
            rows.append((g, None if chance.random() < 0.1 else chance.gauss(offsets[g], spreads[g])))
        gone = chance.sample(held, min(len(held), chance.randrange(7)))
        changes = [(row, 1) for row in rows] + [(row, -1) for row in gone]
        db.apply({"t": [{"g": g, "x": x, "_multiplicity": n} for (g, x), n in changes]})
        held += rows
        for row in gone:
            held.remove(row)
        compare(db, held)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_square_beyond_all_doubles_is_refused(engine: str) -> None:
    db = opened(engine)
    db.insert("t", [(1, 2.0), (1, 4.0)])
    before = db.view("v").rows()
    for x in (1e200, -1.7e308):
        with pytest.raises(DataError, match=r"not finite|overflows"):
            db.insert("t", [(1, x), (2, 1.0)])
        assert db.view("v").rows() == before


@pytest.mark.parametrize("engine", ENGINES)
def test_variances_inside_other_queries(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE t (g BIGINT NOT NULL, x DOUBLE NOT NULL, y REAL)")
    db.execute("CREATE MATERIALIZED VIEW h AS SELECT g FROM t GROUP BY g HAVING VAR_POP(x) BETWEEN 0.9 AND 1.1")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT MAX(v) AS m FROM (SELECT g, VAR_POP(x) AS v FROM t GROUP BY g) q")
    db.execute(
        "CREATE MATERIALIZED VIEW c AS SELECT g, x FROM t a WHERE (SELECT VAR_POP(b.x) FROM t b WHERE b.g = a.g) > 0.5"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW f AS SELECT VAR_POP(x) FILTER (WHERE g = 1) AS f, VAR_POP(x - 7e12) AS o FROM t"
    )
    db.execute("CREATE MATERIALIZED VIEW y AS SELECT VAR_POP(y) AS y FROM t")
    rows = [(1, 7e12 + 5, 16777215.0), (1, 7e12 + 7, 16777213.0), (2, 7e12, None)]
    for _ in range(2):
        db.insert("t", rows)
        assert db.view("h").rows() == [(1,)]
        assert db.view("m").rows() == [(1.0,)]
        assert sorted(db.view("c").rows()) == [(1, 7e12 + 5), (1, 7e12 + 7)]
        assert db.view("f").rows() == [(1.0, float(Fraction(3 * 74 - 144, 9)))]
        assert db.view("y").rows() == [(1.0,)]
        db.delete("t", rows)
        assert db.view("m").rows() == [(None,)]


def test_generated_code_may_give_a_whole_number_for_sums_that_are_zero() -> None:
    """As it does of what rounding leaves of the squares of a constant."""
    assert variance(3, 1.5, 0.0, 0.75, 0.0, 0, 0.0, 1) == 0.0
    assert variance(2, 3.0, 0.0, 5.0, 0.0, 0, 0, 0) == 0.25


@pytest.mark.slow
def test_the_compiler_takes_that_whole_number() -> None:
    program = """
import numba
from viewlet.runtime.functions import variance
print(numba.njit(lambda s, q: variance(3, s, 0.0, q, 0.0, 0, 0, 0))(1.5, 0.75))
"""
    jit = {**os.environ, "VIEWLET_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=jit, capture_output=True, text=True, check=True)
    assert float(done.stdout) == 0.0
