"""Sums of doubles of any size: they are right, or the batch is refused, and what was taken back has left nothing."""

from __future__ import annotations

import math
import random
import sys
from fractions import Fraction

import pytest

import viewlet
from viewlet.errors import DataError, ViewletError

MOST, LEAST = sys.float_info.max, 5e-324
ENGINES = ("interpreter", "compiled")
ROUNDED = 2.0**-104
"""How far a compiled sum may be from the exact one after a summand, relative to the largest it has been."""


def exact(values: list[float]) -> float:
    return float(sum(map(Fraction, values), Fraction(0)))


def opened(engine: str, kind: str = "TABLE", path: str | None = None) -> viewlet.Connection:
    db = viewlet.connect(path, engine=engine) if path else viewlet.connect(engine=engine)
    db.execute(f"CREATE {kind} t (g BIGINT NOT NULL, x DOUBLE NOT NULL)")
    return db


def change(db: viewlet.Connection, rows: list[tuple[int, float, int]]) -> None:
    db.apply({"t": [{"g": g, "x": x, "_multiplicity": n} for g, x, n in rows]})


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("large", [2e300, -MOST, 1.4e300, 1e290])
def test_a_large_double_comes_and_goes(engine: str, kind: str, large: float) -> None:
    db = opened(engine, kind)
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT SUM(x) AS s, AVG(x) AS a, COUNT(*) AS n FROM t")
    db.execute("CREATE MATERIALIZED VIEW sg AS SELECT g, SUM(x) AS s FROM t GROUP BY g")
    change(db, [(1, 0.1, 1), (2, 7.0, 1)])
    change(db, [(1, large, 1)])
    assert db.view("s").rows() == [(large, large / 3, 3)]
    assert db.view("sg").rows() == [(1, large), (2, 7.0)]
    change(db, [(1, large, -1)])
    assert db.view("s").rows() == [(7.1, 7.1 / 2, 2)]
    assert db.view("sg").rows() == [(1, 0.1), (2, 7.0)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_sum_beyond_all_doubles_is_refused_whole(engine: str, kind: str) -> None:
    db = opened(engine, kind)
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
    db.execute("CREATE MATERIALIZED VIEW h AS SELECT COUNT(*) AS n FROM t")
    db.view("s").subscribe(lambda batch: None)
    change(db, [(1, 0.1, 1), (1, 1e100, 1), (2, 1e308, 1), (3, -2.5, 1)])
    before = db.view("s").rows(), db.epoch
    for rows in ([(2, 1e308, 1), (1, 3.0, 1)], [(4, MOST, 1), (4, MOST, 1), (1, 1e300, 1)], [(1, MOST, 2)]):
        with pytest.raises(DataError, match="sum overflows"):
            change(db, rows)
        assert (db.view("s").rows(), db.epoch) == before
        assert db.view("h").rows() == [(4,)]
    change(db, [(1, 1e100, -1), (2, 5e307, 1)])
    assert db.view("s").rows() == [(1, 0.1, 1), (2, 1.5e308, 2), (3, -2.5, 1)]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_no_finite_number_is_refused(engine: str) -> None:
    db = opened(engine)
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT SUM(x) AS s, VAR_POP(x) AS v FROM t")
    change(db, [(1, 2.0, 1)])
    for value in (math.inf, -math.inf, math.nan):
        with pytest.raises(DataError, match="NaN and infinities cannot be stored"):
            change(db, [(1, value, 1)])
        assert db.view("s").rows() == [(2.0, 0.0)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_directory_with_large_doubles_opens_again(engine: str, tmp_path: object) -> None:
    path = str(tmp_path)
    with opened(engine, path=path) as db:
        db.execute("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(x) AS s FROM t GROUP BY g")
        change(db, [(1, 1.5, 1), (1, MOST, 1), (2, LEAST, 1)])
        change(db, [(1, MOST, -1), (3, 1.6e308, 1)])
        before = db.view("s").rows()
    with viewlet.connect(path, engine=engine) as db:
        assert db.view("s").rows() == before == [(1, 1.5), (2, LEAST), (3, 1.6e308)]


@pytest.mark.parametrize("engine", ENGINES)
def test_products_of_any_size(engine: str) -> None:
    """Products are not rounded; one beyond all doubles is refused, and one below all of them is zero."""
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE a (k BIGINT NOT NULL, x DOUBLE NOT NULL)")
    db.execute("CREATE TABLE b (k BIGINT NOT NULL, y DOUBLE NOT NULL)")
    db.execute("CREATE MATERIALIZED VIEW p AS SELECT SUM(a.x * b.y) AS p FROM a JOIN b ON a.k = b.k")
    db.apply({"a": [(1, 1e300), (2, 3.0), (3, 1e-200), (4, 1.0 + 2**-52)], "b": [(1, 1e-300), (2, 4.0), (4, 1.0)]})
    assert db.view("p").rows() == [(exact([13.0, 1.0, 2**-52]),)]
    with pytest.raises(DataError):
        db.insert("b", [(1, 1e10)])
    db.apply({"b": [(3, 1e-200)]})
    assert db.view("p").rows() == [(exact([13.0, 1.0, 2**-52]),)]
    db.insert("a", [(5, -1e250)])
    db.insert("b", [(5, 1e58), (1, 1e8)])
    assert abs(db.view("p").rows()[0][0]) < 1e293
    db.apply({"b": [{"k": k, "y": y, "_multiplicity": -1} for k, y in ((5, 1e58), (1, 1e8))]})
    assert math.isclose(db.view("p").rows()[0][0], 14.0, abs_tol=1e308 * ROUNDED if engine == "compiled" else 0.0)


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("seed", range(3))
def test_random_magnitudes(seed: int, kind: str) -> None:
    """The interpreted sum is the exact one, rounded; a compiled one is as near as pairs of doubles allow."""
    chance = random.Random(seed)
    dbs = [opened(engine, kind) for engine in ENGINES]
    for db in dbs:
        db.execute("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
    held: list[tuple[int, float]] = []
    error = dict.fromkeys(range(4), 0.0)
    for _ in range(25):
        outlier = chance.choice([1e12, 1e20, LEAST, 1e-300, 3.0] if seed else [1e290, 1.1e300, MOST / 16])
        news = [(g, chance.uniform(-1, 1) * outlier) for g in range(4) for _ in range(2)]
        fresh = [(chance.randrange(4), float(chance.randrange(-1000, 1000))) for _ in range(3)]
        for rows, n in ((news, 1), (fresh, 1), (news, -1)):
            for db in dbs:
                change(db, [(g, x, n) for g, x in rows])
            held = [*held, *rows] if n == 1 else [row for row in held if row not in news]
            wanted = {g: exact([x for h, x in held if h == g]) for g in {g for g, _ in held}}
            for g in error:
                error[g] += sum(abs(x) for h, x in [*held, *rows] if h == g) * ROUNDED
            interpreted, compiled = ({g: s for g, s, _ in db.view("s").rows()} for db in dbs)
            assert interpreted == wanted
            assert compiled.keys() == wanted.keys()
            for g, total in compiled.items():
                assert math.isclose(total, wanted[g], rel_tol=1e-15, abs_tol=error[g]), (g, total, wanted[g])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("options", ["", ", degree => 4"])
def test_cofactors_refuse_what_would_stay_infinite(engine: str, options: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE t (id BIGINT NOT NULL, x DOUBLE NOT NULL, y DOUBLE NOT NULL)")
    db.execute(f"CREATE MATERIALIZED VIEW c AS SELECT COFACTOR(x, y{options}) FROM t")
    db.insert("t", [(1, 2.0, 3.0)])
    before = db.view("c").rows()
    for value in (1e200, -MOST):
        with pytest.raises(ViewletError, match="too large"):
            db.insert("t", [(2, value, 1.0), (3, 1.0, 1.0)])
        assert str(db.view("c").rows()) == str(before)
    large = 1e60
    db.insert("t", [(2, large, 0.0)])
    db.delete("t", [(2, large, 0.0)])
    assert db.view("c").rows() is not None


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_that_another_view_refuses_leaves_sums_as_they_were(engine: str, kind: str) -> None:
    """Summands that are far larger than all before are not taken back from a sum: it is what it was."""
    db = opened(engine, kind)
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
    db.execute("CREATE MATERIALIZED VIEW l AS SELECT SUM(LN(g)) AS l FROM t")
    change(db, [(1, 0.1, 1), (1, 0.2, 1), (2, 1e10, 1), (2, 1 / 3, 1)])
    before = db.view("s").rows()
    for large in (1e17, 1e25, 1.3e60, 1e200, MOST):
        for _ in range(2):
            with pytest.raises(DataError):
                change(db, [(1, large, 1), (1, -large / 3, 1), (2, large / 7, 1), (0, 1.0, 1)])
            assert db.view("s").rows() == before
    change(db, [(1, 1e100, 1)])
    change(db, [(1, 1e100, -1), (2, 1e10, -1)])
    assert db.view("s").rows() == [(1, 0.1 + 0.2, 2), (2, 1 / 3, 1)]
