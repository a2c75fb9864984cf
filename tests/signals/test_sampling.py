"""Sampling and interpolation compared with SciPy and pandas, with gaps, intervals, rational grids and other grids."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import interp1d

import viewlet
from tests.signals.events import History, irregular, online, same_bits, samples_of
from tests.signals.interpolators import Nearest, is_large, norm, square
from viewlet.signals import Grid, Signal, SignalError, source

GAP = 100


def between(t: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For beats: the event before or at each, and whether there is one after or at it within the gap."""
    left = np.searchsorted(t, k * 10, "right") - 1
    right = np.searchsorted(t, k * 10, "left")
    inside = (left >= 0) & (right < len(t))
    near = inside & (t[np.minimum(right, len(t) - 1)] - t[np.maximum(left, 0)] <= GAP)
    return left, near


def linear(t: np.ndarray, x: np.ndarray, k: np.ndarray) -> np.ndarray:
    return np.where(between(t, k)[1], np.interp(k * 10, t, x), np.nan)


def zero(t: np.ndarray, x: np.ndarray, k: np.ndarray) -> np.ndarray:
    step = interp1d(t, x, kind="zero", bounds_error=False)(k * 10)
    return np.where(between(t, k)[1], step, np.nan)


def last(t: np.ndarray, x: np.ndarray, k: np.ndarray) -> np.ndarray:
    k = k[k * 10 <= t[-1]]
    return pd.Series(x, t).reindex(k * 10, method="ffill", tolerance=GAP).to_numpy()


def constant(t: np.ndarray, x: np.ndarray, k: np.ndarray) -> np.ndarray:
    on = pd.Series(x, t).reindex(k * 10).to_numpy()
    return np.where(np.isnan(on) & between(t, k)[1], 7.0, on)


def quadratic(t: np.ndarray, x: np.ndarray, k: np.ndarray) -> np.ndarray:
    on = pd.Series(x, t).reindex(k * 10).to_numpy()
    left, _ = between(t, k)
    for place, (beat, before) in enumerate(zip(k * 10, left, strict=True)):
        if np.isnan(on[place]) and 1 <= before < len(t) - 1 and t[before + 1] - t[before - 1] <= GAP:
            near = slice(before - 1, before + 2)
            on[place] = np.polyval(np.polyfit(t[near] - beat, x[near], 2), 0.0)
    return on


def none(t: np.ndarray, x: np.ndarray, k: np.ndarray) -> np.ndarray:
    return pd.Series(x, t).reindex(k * 10).to_numpy()


def nearest(t: np.ndarray, x: np.ndarray, k: np.ndarray) -> np.ndarray:
    left, near = between(t, k)
    right = np.minimum(np.searchsorted(t, k * 10, "left"), len(t) - 1)
    is_left = k * 10 - t[left] < t[right] - k * 10
    return np.where(near, np.where(is_left, x[left], x[right]), np.nan)


POLICIES: dict[object, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    None: none,
    "linear": linear,
    "zero": zero,
    "last": last,
    "constant": constant,
    "quadratic": quadratic,
    Nearest: nearest,
}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_policy_equals_its_oracle_online_and_offline(policy: object, seed: int) -> None:
    history = irregular(seed)
    gap = None if policy is None else GAP
    found, query = online(history, lambda s: s.sample(10, policy, max_gap=gap, fill=7.0), seed)
    assert same_bits(found, query.run(history.table()))
    for group in history.groups:
        t, x = history.group(group)
        k = np.arange(-(-t[0] // 10), t[-1] // 10 + 1)
        expected = POLICIES[policy](t, x, k)
        k = k[: len(expected)]
        index, y = samples_of(found, group)
        np.testing.assert_array_equal(index, k[~np.isnan(expected)])
        np.testing.assert_allclose(y, expected[~np.isnan(expected)], rtol=1e-8, atol=1e-9)


def test_a_sample_on_a_beat_appears_at_once_and_one_between_when_the_next_event_comes() -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM events (t BIGINT NOT NULL, x DOUBLE)")
    view = db.create_view("v", db.signal("events", time="t", value="x").sample(30, "linear", max_gap=60))
    for t in (30, 45, 80):
        db.insert("events", [(t, float(t))])
    assert view.rows() == [(30, 30.0), (60, 60.0)]
    db.insert("events", [(140, 140.0)])
    assert view.rows() == [(30, 30.0), (60, 60.0), (90, 90.0), (120, 120.0)]
    db.insert("events", [(210, 0.0)])  # further away than the window: another sequence (Figure 7.4)
    assert [t for t, _ in view.rows()] == [30, 60, 90, 120, 210]


def test_a_rate_is_a_rational_grid_without_accumulated_rounding() -> None:
    grid = Grid.of_rate(Fraction(44_100), 1_000_000)
    index = np.arange(0, 10**13, 10**9 + 7)
    exact = [int(k * Fraction(1_000_000, 44_100)) for k in index.tolist()]
    assert grid.times(index).tolist() == exact
    found, part = grid.positions(np.array(exact))
    assert found.tolist() == index.tolist()
    assert not part.any()


def test_samples_at_a_rate_come_from_the_ticks_that_their_beats_fall_into() -> None:
    grid = Grid.of_rate(Fraction(44_100), 1_000_000)
    t = grid.times(np.arange(1000))
    tone = source(time="t", value="x", ticks=1_000_000).sample(rate=44_100)
    found = tone.run({"t": t.astype("datetime64[us]"), "x": np.arange(1000.0)})
    assert found["x"].to_pylist() == list(range(1000))
    assert found["t"].to_numpy().astype(np.int64).tolist() == t.tolist()


@pytest.mark.parametrize("policy", [None, "linear", "quadratic"])
def test_intervals_have_their_value_at_all_beats_inside(policy: str | None) -> None:
    signal = source(key="g", time="a", end="b", value="x", is_timestamp=False)
    rows = {"g": [1, 1, 2, 1], "a": [5, 40, 12, 93], "b": [27, 41, 13, 125], "x": [1.0, 2.0, 9.0, 4.0]}
    found = signal.sample(10, policy, max_gap=None if policy is None else 45).run(rows)
    values = {(row["g"], row["a"]): row["x"] for row in found.to_pylist()}
    inside = {(1, 10): 1.0, (1, 20): 1.0, (1, 40): 2.0, (1, 100): 4.0, (1, 110): 4.0, (1, 120): 4.0}
    if policy == "linear":  # between the end point 26 and the start point 40; 40 and 93 are too far apart
        inside[1, 30] = pytest.approx(1 + 4 / 14)  # type: ignore[assignment]
    if policy == "quadratic":
        inside[1, 30] = pytest.approx(np.polyval(np.polyfit([5, 26, 40], [1.0, 1.0, 2.0], 2), 30))  # type: ignore[assignment]
    assert values == inside


def over_rows() -> Signal:
    return source(key="g", time="t", value="x", is_timestamp=False)


def test_resampling_uses_the_policy_of_the_signal_and_exact_positions() -> None:
    history = irregular(3)
    found, query = online(history, lambda s: s.sample(10, "linear", max_gap=GAP).upsample(2))
    assert same_bits(found, query.run(history.table()))
    coarse = online(history, lambda s: s.sample(10, "linear", max_gap=GAP))[0]
    index, x = samples_of(coarse, "g0")
    fine = {row["t"]: row["x"] for row in found.to_pylist() if row["g"] == "g0"}
    for k, value in zip(index.tolist(), x.tolist(), strict=True):
        assert fine[10 * k] == value
    pairs = np.flatnonzero(np.diff(index) == 1)
    for place in pairs.tolist():
        assert fine[10 * int(index[place]) + 5] == pytest.approx((x[place] + x[place + 1]) / 2)
    by_period = online(history, lambda s: s.sample(10, "linear", max_gap=GAP).resample(5))[0]
    assert same_bits(by_period, found)
    explicit = online(
        history, lambda s: s.sample(10, "linear", max_gap=GAP).resample(5, "linear", offset=2, max_gap=30)
    )
    implicit = online(history, lambda s: s.sample(10, "linear", max_gap=GAP).resample(5, offset=2, max_gap=30))
    assert same_bits(implicit[0], explicit[0])
    moved = over_rows().sample(10, "linear", offset=3).resample(offset=4)
    assert moved.form.grid == Grid(Fraction(10), Fraction(4))
    assert moved.form.interpolation is not None
    with pytest.raises(SignalError, match="resample\\(\\) needs equal steps"):
        over_rows().resample(5)
    thinned = online(history, lambda s: s.sample(10, "linear", max_gap=GAP).downsample(3))[0]
    kept = index % 3 == 0
    assert samples_of(thinned, "g0")[0].tolist() == index[kept].tolist()


def test_select_where_and_shift() -> None:
    history = irregular(4)
    found, query = online(history, lambda s: s.where(is_large).select(square).shift(25).sample(5))
    assert same_bits(found, query.run(history.table()))
    t, x = history.group("g1")
    chosen = (np.abs(x) > 1) & ((t + 25) % 5 == 0)
    rows = [row for row in found.to_pylist() if row["g"] == "g1"]
    assert [row["t"] for row in rows] == (t[chosen] + 25).tolist()
    assert [row["x"] for row in rows] == (x[chosen] ** 2).tolist()
    lengths, _ = online(history, lambda s: s.select(norm, width=1), value=("x", "y"))
    assert lengths.column_names == ["g", "t", "x"]
    shifted = online(history, lambda s: s.sample(10, "linear").shift(13))[0]
    plain = online(history, lambda s: s.sample(10, "linear"))[0]
    assert shifted["x"].to_pylist() == plain["x"].to_pylist()
    assert (shifted["t"].to_numpy() - plain["t"].to_numpy() == 13).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.sosfilt([[1, 0, 0, 1, 0, 0]]), "sample\\(\\) the signal first"),
        (lambda s: s.sample(0), "less than the time column can tell apart"),
        (lambda s: s.sample("10 parsecs"), "not a number with one of the units"),
        (lambda s: s.sample(10, "cubic"), "one of 'constant'"),
        (lambda s: s.sample(10, max_gap=5), "interpolate="),
        (lambda s: s.sample(10).upsample(2), "needs an interpolation"),
        (lambda s: s.select(lambda x: x), "imported by its name"),
        (lambda s: s.sample(10).lfilter([1.0], [0.0]), "a\\[0\\] not 0"),
        (lambda s: s.sample(10).fir([]), "a list of finite numbers"),
        (lambda s: s + s.sample(10) * float("nan"), "finite"),
        (lambda s: s.sample(rate=0), "positive"),
    ],
)
def test_what_is_wrong_is_refused_when_it_is_declared(build: Callable[..., object], message: str) -> None:
    with pytest.raises(SignalError, match=message):
        build(source(key="g", time="t", value="x", is_timestamp=False, ticks=1000))


def test_history_without_samples() -> None:
    query = source(key="g", time="t", value="x", is_timestamp=False).sample(10, "linear").ewm(0.5)
    empty = History([("a", 1, None, 0.0)]).table()
    assert query.run(empty).num_rows == 0
