"""Batches of signal views, cut short at any line: state of filters, groups and samples stay consistent."""

from __future__ import annotations

from typing import Any

import viewlet
from tests.interrupts.harness import Trial, check_all


def signed(sign: int, new: list[tuple[str, int, float]], old: list[tuple[str, int, float]]) -> dict[str, Any]:
    rows = [(row, sign) for row in new] + [(row, -sign) for row in old]
    return {"t": [{"g": g, "at": at, "x": x, "_multiplicity": weight} for (g, at, x), weight in rows]}


def make() -> viewlet.Connection:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (g VARCHAR NOT NULL, at BIGINT NOT NULL, x DOUBLE)")
    even = db.signal("t", key="g", time="at", value="x").sample(10, "linear")
    db.create_view("smooth", even.lfilter([0.5], [1.0, -0.5]))
    db.create_view("sums", (even + even.shift(10)).sum(3))
    db.create_view("spectra", even.window(4, 2).rfft())
    return db


def test_interrupted_batches() -> None:
    first = {"t": [("a", 10 * k, float(k)) for k in range(9)] + [("b", 5, 1.0), ("b", 25, 2.0)]}
    new = [("a", 93, 1.0), ("c", 0, 4.0), ("b", 15, 3.0)]
    gone = [("a", 70, 7.0)]
    more = [("a", 120, 2.0), ("b", 40, 1.0)]
    parts = (signed(1, new, gone), signed(-1, new, gone), signed(1, more, []), signed(-1, more, []))
    assert check_all(Trial(make, first, *parts)) > 0
