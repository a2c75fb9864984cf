"""Arithmetic and joins between signals: alignment of grids, keys, gaps, functional payloads."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from tests.signals.events import PERIOD, History, irregular, regular, same_bits
from tests.signals.interpolators import sine
from viewlet.signals import Query, SignalError, source

TABLES = """
CREATE {kind} l (g VARCHAR NOT NULL, t BIGINT NOT NULL, x DOUBLE);
CREATE {kind} r (g VARCHAR NOT NULL, t BIGINT NOT NULL, x DOUBLE)
"""
OPERATIONS: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def rows(history: History) -> list[tuple[str, int, float | None]]:
    return [row[:3] for row in history.rows]


def both(left: History, right: History, build: Any, seed: int, kind: str = "STREAM") -> tuple[Any, Query]:
    """The view of two tables whose rows come interleaved."""
    random = np.random.default_rng(seed)
    db = viewlet.connect()
    db.execute(TABLES.format(kind=kind))
    query = build(*(db.signal(name, key="g", time="t", value="x", unit="ms") for name in "lr"))
    view = db.create_view("v", query)
    waiting = {"l": rows(left), "r": rows(right)}
    while any(waiting.values()):
        batch = {}
        for name in waiting:
            size = int(random.integers(0, 60))
            batch[name], waiting[name] = waiting[name][:size], waiting[name][size:]
        db.apply({name: part for name, part in batch.items() if part})
    return view.to_arrow(), query


def run(query: Query, left: History, right: History) -> Any:
    return query.run({"l": left.table(), "r": right.table()})


def samples(history: History, group: str) -> dict[int, float]:
    return {t // PERIOD: x for g, t, x, _ in history.rows if g == group and x is not None}


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize("operation", ["+", "-", "*", "/", "join"])
def test_signals_meet_by_key_and_beat(operation: str, kind: str) -> None:
    left, right = regular(1, missing=0.2), regular(2, groups=3, missing=0.2)

    def build(a: Any, b: Any) -> Any:
        a, b = a.sample(10), b.sample(10)
        return a.join(b) if operation == "join" else OPERATIONS[operation](a, b)

    found, query = both(left, right, build, 3, kind)
    assert same_bits(found, run(query, left, right))
    expected = []
    for group in sorted({*left.groups} & {*right.groups}):
        a, b = samples(left, group), samples(right, group)
        for k in sorted(a.keys() & b.keys()):
            values = (a[k], b[k]) if operation == "join" else (OPERATIONS[operation](a[k], b[k]),)
            expected.append((group, k * PERIOD, *values))
    assert [tuple(row.values()) for row in found.to_pylist()] == expected


def test_other_offsets_are_shifted_and_other_periods_resampled_to_the_finer() -> None:
    left, right = regular(4, missing=0.1), irregular(5, groups=4)
    found, query = both(left, right, lambda a, b: a.sample(10) + b.sample(10, "linear", offset=3, max_gap=100), 1)
    assert same_bits(found, run(query, left, right))
    explicit = both(left, right, lambda a, b: a.sample(10) + b.sample(10, "linear", offset=3, max_gap=100).shift(-3), 2)
    assert same_bits(found, explicit[0])
    found, query = both(left, right, lambda a, b: a.sample(20, "linear") * b.sample(5, "linear"), 1)
    assert query.form.grid == source(time="t", value="x").sample(5).form.grid
    explicit = both(
        left, right, lambda a, b: a.sample(20, "linear").resample(5, "linear", max_gap=200) * b.sample(5, "linear"), 2
    )
    assert same_bits(found, explicit[0])
    found, _ = both(left, right, lambda a, b: a.sample(10) - b, 1)
    explicit = both(left, right, lambda a, b: a.sample(10) - b.sample(10), 2)
    assert same_bits(found, explicit[0])
    with pytest.raises(SignalError, match="no interpolation"):
        both(left, right, lambda a, b: a.sample(20) + b.sample(10), 1)


def test_as_of_takes_the_last_value_before() -> None:
    left, right = regular(6, groups=2), irregular(7, groups=2)
    found, query = both(left, right, lambda a, b: a.sample(10).as_of(b, max_gap=300), 1)
    assert same_bits(found, run(query, left, right))
    assert found.column_names == ["g", "t", "x", "x_2"]
    for row in found.to_pylist():
        t, x = right.group(row["g"])
        before = np.flatnonzero(t <= row["t"])
        assert row["x_2"] == x[before[-1]]
        assert row["t"] - t[before[-1]] <= 300


@pytest.mark.parametrize("names", ["lr", "rl"])
def test_events_and_intervals_of_two_streams_wait_each_in_their_own_shape(names: str) -> None:
    db = viewlet.connect()
    db.execute(TABLES.format(kind="STREAM").replace("x DOUBLE", "e BIGINT NOT NULL, x DOUBLE"))
    signals = {
        "l": db.signal("l", key="g", time="t", value=["x", "e"], lateness=5).sample(10, "last"),
        "r": db.signal("r", key="g", time="t", end="e", value="x", overlap="mean", lateness=5).sample(10, "linear"),
    }
    query = signals[names[0]].join(signals[names[1]])
    view = db.create_view("v", query)
    events = [("g", t, t + 12, t / 3) for t in range(0, 100, 8)]
    for name, begin in [("l", 0), ("r", 0), ("r", 7), ("l", 7)]:
        assert not len(view.to_arrow()) or begin
        db.insert(name, events[begin : begin + 7])
    # The newest event is at 96: points up to 91 have run, and intervals up to their last edge before that.
    ran = {
        "l": [row for row in events if row[1] <= 91],
        "r": [(g, t, min(e, 88), x) for g, t, e, x in events if t < 88],
    }
    tables = {name: pa.table(dict(zip("gtex", zip(*each, strict=True), strict=True))) for name, each in ran.items()}
    assert len(view.to_arrow()) == 9
    assert same_bits(view.to_arrow(), query.run(tables))


def test_one_signal_with_itself() -> None:
    history = regular(8, missing=0.1)
    query = source(key="g", time="t", value="x", is_timestamp=False).sample(10)
    twice = query + query.shift(10)
    found = {(row["g"], row["t"]): row["x"] for row in twice.run(history.table()).to_pylist()}
    for group in history.groups:
        x = samples(history, group)
        for k in x:
            if k - 1 in x:
                assert found[group, 10 * k] == x[k] + x[k - 1]


def test_functional_payloads_stay_functions_until_they_are_sampled() -> None:
    """Amplitude modulation: a measured signal times a carrier, whose events have the arguments of a sine."""
    db = viewlet.connect()
    db.execute("CREATE TABLE signal (g BIGINT NOT NULL, t BIGINT NOT NULL, x DOUBLE NOT NULL)")
    db.execute("CREATE TABLE carrier (g BIGINT, a BIGINT NOT NULL, b BIGINT NOT NULL, period DOUBLE, phase DOUBLE)")
    x = db.signal("signal", key="g", time="t", value="x")
    carrier = db.signal("carrier", key="g", time="a", end="b", value=("period", "phase"), function=sine)
    modulated = (x.sample(5, "linear", max_gap=20) * (carrier * 2.0 + 1.0)).scale(3.0)
    view = db.create_view("v", modulated)
    shifted = db.create_view("w", (carrier - carrier.shift(10)).sample(5))
    db.insert("carrier", [(1, 0, 40, 40.0, 0.0), (1, 40, 100, 20.0, 0.5)])
    db.insert("signal", [(1, t, float(t)) for t in range(0, 130, 10)])
    assert [row[1] for row in view.rows()] == list(range(0, 100, 5))
    for _, t, value in view.rows():
        args = (40.0, 0.0) if t < 40 else (20.0, 0.5)
        assert value == pytest.approx(3 * t * (2 * sine(t, *args) + 1))

    def at(t: int) -> float:
        return float(sine(t, *((40.0, 0.0) if t < 40 else (20.0, 0.5))))

    assert [row[1] for row in shifted.rows()] == list(range(10, 100, 5))
    for _, t, value in shifted.rows():
        assert value == pytest.approx(at(t) - at(t - 10))
    with pytest.raises(SignalError, match="functions of time"):
        carrier.select("tests.signals.interpolators:square")
    with pytest.raises(SignalError, match="functions of time: sample\\(\\) the signal"):
        db.create_view("z", carrier + carrier.shift(1))


def test_every_event_may_have_a_function_of_its_own() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE f (a BIGINT NOT NULL, b BIGINT NOT NULL, which BIGINT, period DOUBLE, phase DOUBLE)")
    functions = {1: sine, 2: "tests.signals.interpolators:ramp"}
    waves = db.signal("f", time="a", end="b", value=("which", "period", "phase"), function=functions)
    view = db.create_view("v", (waves * 2.0).sample(5))
    db.insert("f", [(0, 40, 1, 40.0, 0.0), (40, 60, 2, 3.0, 1.0), (60, 80, 9, 0.0, 0.0)])
    expected = [2 * sine(t, 40.0, 0.0) for t in range(0, 40, 5)] + [2 * (3.0 * t + 1.0) for t in range(40, 60, 5)]
    assert [row[0] for row in view.rows()] == list(range(0, 60, 5))
    assert [row[1] for row in view.rows()] == pytest.approx(expected)
    with pytest.raises(SignalError, match="functions by whole numbers"):
        db.signal("f", time="a", value="period", function={"sine": sine})


def test_two_signals_are_correlated_window_by_window() -> None:
    left, right = regular(9, groups=3), regular(10, groups=3)
    found, query = both(left, right, lambda a, b: a.sample(10).join(b.sample(10)).window(8, 3).cross_correlate(), 1)
    assert same_bits(found, run(query, left, right))
    assert found.column_names == ["g", "t", "x", "x_2"]
    assert found.num_rows > 50
    for row in found.to_pylist():
        a, b = (samples(each, row["g"]) for each in (left, right))
        x, y = ([each[k] for k in range(row["t"] // PERIOD - 7, row["t"] // PERIOD + 1)] for each in (a, b))
        np.testing.assert_allclose(row["x"], np.correlate(x, x, "full"))
        np.testing.assert_allclose(row["x_2"], np.correlate(y, x, "full"))
