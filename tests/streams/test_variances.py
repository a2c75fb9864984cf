"""Variances and standard deviations of windows, merged from parts, against `statistics` over their rows."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import pytest

import viewlet
from tests.streams.model import Model, at, random_batches, signed

SHOWN = "VAR_SAMP({0}) AS vs, VAR_POP({0}) AS vp, STDDEV({0}) AS s, STDDEV_POP({0}) AS sp, AVG({0}) AS m, COUNT(*) AS n"
FUNCTIONS = (statistics.variance, statistics.pvariance, statistics.stdev, statistics.pstdev)
VALUES: dict[str, Callable[[random.Random], object]] = {
    "BIGINT": lambda chance: chance.choice((2**62, 2**62, -3, None)),
    "DOUBLE": lambda chance: chance.choice(
        (1e7 + chance.random(), 1e7, None)
    ),  # sums of squares would have no digit left
    "DECIMAL(9,2)": lambda chance: Decimal(chance.randrange(-500, 500)) / 100,
}


def figures(values: Sequence[object]) -> list[float | None]:
    """What SHOWN says of some values."""
    known = [float(str(value)) for value in values if value is not None]
    needed = (2, 1, 2, 1)
    found = [f(known) if len(known) >= least else None for f, least in zip(FUNCTIONS, needed, strict=True)]
    return [*found, statistics.fmean(known) if known else None, len(values)]


@pytest.mark.parametrize("type", VALUES)
def test_variances_equal_a_recomputation(type: str) -> None:
    db = viewlet.connect()
    db.execute(f"CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x {type}) PARTITION LENGTH 60 BY ts")
    shown = SHOWN.format("x")
    db.execute(f"CREATE VIEW grouped AS SELECT g, {shown} FROM m [WINDOW 5 MINUTES] GROUP BY g HAVING COUNT(*) > 1")
    some = SHOWN.format("x) FILTER (WHERE g = 'a'").replace("AVG(x) FILTER (WHERE g = 'a')", "AVG(x)")
    db.execute(f"CREATE VIEW total AS SELECT {some.replace('COUNT(*) FILTER', 'COUNT(*)')} FROM m [WINDOW 3 MINUTES]")
    db.execute(f"CREATE VIEW hopped AS SELECT g, {shown} FROM HOP(m, INTERVAL 1 MINUTE, INTERVAL 2 MINUTE) GROUP BY g")
    assert all(db.explain(name, "class").startswith("distributive") for name in ("grouped", "total", "hopped"))
    model = Model()
    for batch in random_batches(5, lambda chance: (chance.choice("ab"), VALUES[type](chance)), batches=5):
        for row, times in batch:
            model.change(row, times)
        db.apply({"m": signed(batch, ("ts", "g", "x"))})
        for name, length in (("grouped", 5), ("total", 3), ("hopped", 2)):
            for part in db.view(name).parts():
                number = round((part.start - at(0)).total_seconds() / 60)
                rows = [row for each in range(number - length + 1, number + 1) for row in model.part(each)]
                if number >= model.closed:
                    continue
                found = {
                    row.pop("g", None): list(row.values())[:-1] for row in db.view(name).part(part.start).to_pylist()
                }
                if name == "total":
                    first = figures([row[2] for row in rows if row[1] == "a"])[:4]
                    expected = {None: [*first, *figures([row[2] for row in rows])[4:]]}
                else:
                    groups = {g: [row[2] for row in rows if row[1] == g] for g in {str(row[1]) for row in rows}}
                    least = 2 if name == "grouped" else 1
                    expected = {g: figures(values) for g, values in groups.items() if len(values) >= least}
                assert found.keys() == expected.keys()
                for key, values in expected.items():
                    near = [None if each is None else pytest.approx(each, rel=1e-6, abs=1e-9) for each in values]
                    assert found[key] == near


@pytest.mark.parametrize("seed", range(3))
def test_values_far_from_zero(seed: int) -> None:
    """A merged variance is off by no more than the mean is a multiple of the deviation, in units of the last digit."""
    chance = random.Random(seed)
    db = viewlet.connect()
    db.execute("CREATE STREAM m (ts TIMESTAMP, g BIGINT, x DOUBLE) PARTITION LENGTH 60 BY ts")
    db.execute("CREATE VIEW w AS SELECT g, VAR_POP(x) AS v, STDDEV(x) AS s FROM m [WINDOW 3 MINUTES] GROUP BY g")
    offsets = dict(enumerate((7e12, -1.7e9, 12345.678901234567, 1e-6)))
    parts = [
        [(g, chance.gauss(offset, min(abs(offset), 2.0))) for g, offset in offsets.items() for _ in range(number + 1)]
        for number in range(6)
    ]
    for number, part in enumerate(parts):
        db.insert("m", [(at(60 * number), g, x) for g, x in part])
    db.insert("m", [(at(3600), 9, 0.0)])
    for part in db.view("w").parts():
        number = round((part.start - at(0)).total_seconds() / 60)
        rows = [row for each in parts[max(number - 2, 0) : number + 1] for row in each]
        for row in db.view("w").part(part.start).to_pylist():
            values = [Fraction(x) for g, x in rows if g == row["g"]]
            if len(values) < 2:
                continue
            mean = sum(values) / len(values)
            spread = sum((x - mean) ** 2 for x in values)
            bound = 1e-15 * (1 + abs(mean) / math.sqrt(spread / len(values)))
            assert row["v"] == pytest.approx(float(spread / len(values)), rel=bound)
            assert row["s"] == pytest.approx(math.sqrt(spread / (len(values) - 1)), rel=bound)
