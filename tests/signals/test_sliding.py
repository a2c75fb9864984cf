"""Sliding spectra, filters that are updated, intervals that overlap, and resampling of finished signals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import dense, online, regular, same_bits
from tests.signals.interpolators import Histogram, MovingSum
from viewlet.signals import SignalError, source


@pytest.mark.parametrize(("size", "hop", "missing"), [(8, 1, 0.0), (16, 3, 0.05), (8, 8, 0.0)])
def test_a_sliding_spectrum_is_that_of_every_window(size: int, hop: int, missing: float) -> None:
    history = regular(1, groups=3, samples=400, missing=missing)
    found, query = online(history, lambda s: s.sample(10).window(size, hop).sliding_rfft())
    assert same_bits(found, query.run(history.table()))
    expected = over_windows(history.table(), size, hop)
    assert found.num_rows == expected.num_rows > 30
    for part in ("x_re", "x_im"):
        np.testing.assert_allclose(stacked(found, part), stacked(expected, part), atol=1e-10)


def over_windows(table: Any, size: int, hop: int) -> Any:
    """The same by `rfft` of every window."""
    signal = source(key="g", time="t", value="x", is_timestamp=False, ticks=1000).sample(10)
    return signal.window(size, hop).rfft().run(table)


def stacked(table: Any, name: str) -> np.ndarray:
    return np.array(table.sort_by([("g", "ascending"), ("t", "ascending")])[name].to_pylist())


def test_where_spectra_do_not_slide() -> None:
    signal = source(time="t", value="x", is_timestamp=False).sample(1)
    with pytest.raises(SignalError, match="windows that overlap"):
        signal.window(4, 5).sliding_rfft()
    with pytest.raises(SignalError, match="comes first"):
        signal.window(4, 1, "hann").sliding_rfft()
    with pytest.raises(SignalError, match="comes first"):
        signal.window(4, 1).detrend().sliding_rfft()


@pytest.mark.parametrize(("size", "hop", "missing"), [(8, 1, 0.02), (16, 3, 0.01), (8, 8, 0.0), (8, 9, 0.0)])
def test_an_array_operator_that_is_updated(size: int, hop: int, missing: float) -> None:
    history = regular(5, groups=2, samples=300, missing=missing)
    before = Histogram.updates
    found, query = online(history, lambda s: s.sample(10).window(size, hop).apply(Histogram))
    assert (Histogram.updates > before) == (hop <= size)
    assert same_bits(found, query.run(history.table()))
    windows = {tuple(row.values())[:2]: row["x"] for row in query_windows(history, size, hop)}
    assert len(windows) == found.num_rows > 20
    for row in found.to_pylist():
        assert row["x"] == Histogram().recompute(np.array(windows[row["g"], row["t"]])).tolist()


def query_windows(history: Any, size: int, hop: int) -> list[dict[str, Any]]:
    """The windows themselves."""
    signal = source(key="g", time="t", value="x", is_timestamp=False).sample(10)
    found: list[dict[str, Any]] = signal.window(size, hop).run(history.table()).to_pylist()
    return found


def test_a_filter_that_is_updated() -> None:
    history = regular(2, groups=2, samples=60, missing=0.1)
    found, query = online(history, lambda s: s.sample(10).filter(MovingSum))
    assert same_bits(found, query.run(history.table()))
    rows = {(row["g"], row["t"]): row["x"] for row in found.to_pylist()}
    for group in history.groups:
        first, x = dense(history, group)
        for n in range(3, len(x)):
            value = rows.get((group, (first + n) * 10))
            assert (value is None) == bool(np.isnan(x[n - 3 : n + 1]).any())
            assert value is None or value == pytest.approx(np.nansum(x[n - 3 : n + 1]))


@pytest.mark.parametrize("policy", ["mean", "sum", "min", "max"])
def test_intervals_that_overlap(policy: str) -> None:
    random = np.random.default_rng(3)
    starts = random.integers(0, 200, 40)
    rows = [(int(a), int(a + random.integers(1, 40)), float(random.normal())) for a in starts]
    db = viewlet.connect()
    db.execute("CREATE TABLE e (a BIGINT NOT NULL, b BIGINT NOT NULL, x DOUBLE)")
    query = db.signal("e", time="a", end="b", value="x", overlap=policy).sample(1)
    view = db.create_view("v", query)
    for begin in range(0, 40, 7):
        db.insert("e", rows[begin : begin + 7])
    combine = getattr(np, policy)
    for t in range(240):
        active = [x for a, b, x in rows if a <= t < b]
        expected = [pytest.approx(combine(active))] if active else []
        assert [x for at, x in view.rows() if at == t] == expected
    with pytest.raises(viewlet.DataError, match=r"overlap, at a = \[0, 5\) and \[3, 9\)"):
        db.signal("e", time="a", end="b", value="x").sample(1).run({"a": [0, 3], "b": [5, 9], "x": [1.0, 2.0]})


@pytest.mark.parametrize(("up", "down"), [(3, 2), (1, 4), (5, 1)])
def test_resampling_of_a_finished_signal(up: int, down: int) -> None:
    x = np.random.default_rng(4).normal(size=200)
    table = {"t": np.arange(8, 208) * 60, "x": x}
    query = source(time="t", value="x", is_timestamp=False).sample(60).resample_poly(up, down)
    found = query.run(table)
    np.testing.assert_allclose(found["x"].to_numpy(), ss.resample_poly(x, up, down))
    period = 60 * down // up
    assert found["t"].to_pylist() == [480 + k * period for k in range(found.num_rows)]
    db = viewlet.connect()
    db.execute("CREATE TABLE e (t BIGINT NOT NULL, x DOUBLE)")
    with pytest.raises(SignalError, match="need the end of the signal"):
        db.create_view("v", db.signal("e", time="t", value="x").sample(60).resample_poly(up, down))
