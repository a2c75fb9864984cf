"""Windows, pipelines of array operators, overlap and add, sums that slide: compared with NumPy, SciPy and pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import SCHEMA, History, dense, online, over, regular, same_bits, samples_of
from tests.signals.interpolators import Halves, Leaky, Median3, drop_small
from viewlet.signals import Signal, SignalError, source

HANN = ss.get_window("hann", 16)
VALUES = np.array([1.0, -2.0, 0.5])


def windows_of(x: np.ndarray, size: int, hop: int, fills: bool) -> list[tuple[int, np.ndarray]]:
    """The windows of samples with NaN where one is missing: the place of the last sample, and the values."""
    found, start, place = [], 0, 0
    gap = 0
    for place in range(len(x)):
        if np.isnan(x[place]):
            gap += 1
            continue
        if gap and (not fills or gap > size):
            start = place
        gap = 0
        seen = place + 1 - start
        first = next((n for n in range(found[-1][0] + 1 if found else 0, place + 1) if n >= start), place)
        for end in range(first, place + 1):
            past = end + 1 - start - size
            if past >= 0 and past % hop == 0 and seen >= size:
                found.append((end, np.nan_to_num(x[end + 1 - size : end + 1])))
    return found


def largest(x: np.ndarray) -> np.ndarray:
    """Zeros but for the three largest magnitudes."""
    return np.where(np.abs(x) >= np.sort(np.abs(x))[-3], x, 0)


PIPELINES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "rfft": (lambda w: w.rfft(), np.fft.rfft),
    "fft": (lambda w: w.fft(), np.fft.fft),
    "there and back": (lambda w: w.rfft().irfft(), lambda x: x),
    "complex there and back": (lambda w: w.fft().ifft(), lambda x: x.astype(complex)),
    "select": (lambda w: w.rfft().select(drop_small).irfft(), lambda x: np.fft.irfft(drop_small(np.fft.rfft(x)), 16)),
    "magnitude": (lambda w: w.rfft().magnitude(), lambda x: np.abs(np.fft.rfft(x))),
    "power spectrum": (lambda w: w.rfft().power_spectrum(), lambda x: np.abs(np.fft.rfft(x)) ** 2),
    "detrend": (lambda w: w.detrend(), ss.detrend),
    "detrend, constant": (lambda w: w.detrend("constant"), lambda x: x - x.mean()),
    "top_k": (lambda w: w.rfft().top_k(3).irfft(), lambda x: np.fft.irfft(largest(np.fft.rfft(x)), 16)),
    "product": (lambda w: w.product(HANN), lambda x: x * HANN),
    "autocorrelate": (lambda w: w.autocorrelate(), lambda x: np.correlate(x, x, "full")),
    "correlate": (lambda w: w.correlate(VALUES), lambda x: np.correlate(x, VALUES, "full")),
    "user": (lambda w: w.apply(Halves), lambda x: x.reshape(-1, 2).sum(axis=1)),
    "last": (lambda w: w.last(), lambda x: x[-1:]),
    "sum": (lambda w: w.sum(), lambda x: [x.sum()]),
    "mean": (lambda w: w.mean(), lambda x: [x.mean()]),
    "power": (lambda w: w.power(), lambda x: [(x * x).mean()]),
    "energy": (lambda w: w.rfft().energy(), lambda x: [(np.abs(np.fft.rfft(x)) ** 2).sum()]),
    "min": (lambda w: w.min(), lambda x: [x.min()]),
    "max": (lambda w: w.max(), lambda x: [x.max()]),
}


def arrays_of(table: Any, group: str) -> tuple[list[int], np.ndarray]:
    rows = [row for row in table.to_pylist() if row["g"] == group]
    values = [row["x"] if "x" in row else np.array(row["x_re"]) + 1j * np.array(row["x_im"]) for row in rows]
    return [row["t"] // 10 for row in rows], np.array(values)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_equals_numpy_online_and_offline(name: str) -> None:
    build, oracle = PIPELINES[name]
    hop, fills = (5, False) if len(name) % 2 else (16, True)
    history = regular(len(name), groups=3, missing=0.02)
    found, query = online(
        history, lambda s: build(s.sample(10).window(16, hop, missing="zero" if fills else "invalid")), seed=len(name)
    )
    assert same_bits(found, query.run(history.table()))
    for group in history.groups:
        first, x = dense(history, group)
        expected = windows_of(x, 16, hop, fills)
        index, values = arrays_of(found, group)
        assert index == [first + place for place, _ in expected]
        for value, (_, window) in zip(values, expected, strict=True):
            np.testing.assert_allclose(np.atleast_1d(value), oracle(window), atol=1e-9)


@pytest.mark.parametrize(("size", "hop"), [(16, 4), (16, 16), (9, 1), (4, 7)])
@pytest.mark.parametrize("window", ["hann", None])
def test_overlap_and_add_gives_back_the_signal(size: int, hop: int, window: str | None) -> None:
    history = regular(size + hop, groups=3)
    found, query = online(history, lambda s: s.sample(10).window(size, hop, window).fft().ifft().overlap_add("dual"))
    assert same_bits(found, query.run(history.table()))
    first, x = dense(history, "g0")
    rows = [row for row in found.to_pylist() if row["g"] == "g0"]
    weights = np.ones(size) if window is None else ss.get_window(window, size)
    for row in rows:
        place = row["t"] // 10 - first
        covered = any(weights[place - start] > 1e-5 for start in range(0, place + 1, hop) if 0 <= place - start < size)
        if covered:
            assert row["x_re"] == pytest.approx(x[place], abs=1e-9)
        assert row["x_im"] == pytest.approx(0, abs=1e-9)
    plain = query.run(history.table(), flush=True)
    assert plain.num_rows > found.num_rows


def test_arrays_add_up_as_the_chapter_says() -> None:
    """Window(8, 4) with Sum: each sample, but for those at the ends, is in two windows."""
    history = regular(1, groups=2)
    found, query = online(history, lambda s: s.sample(10).window(8, 4).rfft().irfft().overlap_add())
    first, x = dense(history, "g0")
    index, y = samples_of(found, "g0")
    times = np.where(np.arange(len(x)) < 4, 1, 2)
    np.testing.assert_allclose(y, (x * times)[index - first], atol=1e-12)
    whole = samples_of(query.run(history.table(), flush=True), "g0")[0]
    assert len(whole) == len(x) // 4 * 4


@pytest.mark.parametrize("name", ["sum", "mean", "power", "energy", "count"])
@pytest.mark.parametrize(("size", "hop"), [(7, 1), (8, 3), (4, 9)])
def test_sums_slide_along_the_grid(name: str, size: int, hop: int) -> None:
    history = regular(size + hop, missing=0.3)
    found, query = online(history, lambda s: getattr(s.sample(10), name)(size, hop), seed=size)
    assert same_bits(found, query.run(history.table()))
    for group in history.groups:
        first, x = dense(history, group)
        series = pd.Series(x if name in ("sum", "mean", "count") else x * x, np.arange(first, first + len(x)))
        rolled = series.rolling(size, min_periods=1)
        expected = {"sum": rolled.sum, "mean": rolled.mean, "power": rolled.mean, "energy": rolled.sum}.get(
            name, rolled.count
        )()
        expected = expected[(expected.index % hop == 0) & (rolled.count() > 0)]
        index, y = samples_of(found, group)
        np.testing.assert_array_equal(index, expected.index)
        np.testing.assert_allclose(y, expected, atol=1e-12)


def test_a_long_gap_empties_a_sliding_sum() -> None:
    rows = [("a", 10 * k, 1.0, 0.0) for k in (0, 1, 10**9, 10**9 + 1)]
    found = online(History(rows), lambda s: s.sample(10).sum(3))[0]
    index, y = samples_of(found, "a")
    assert index.tolist() == [0, 1, 2, 3, 10**9, 10**9 + 1]
    assert y.tolist() == [1, 2, 2, 1, 1, 2]


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_long_convolution_by_blocks(missing: float) -> None:
    taps = np.random.default_rng(1).normal(size=20)
    history = regular(9, groups=3, samples=300, missing=missing)
    found, query = online(history, lambda s: s.sample(10).fir(taps, method="fft"))
    assert same_bits(found, query.run(history.table()))
    whole = query.run(history.table(), flush=True)
    for group in history.groups:
        first, x = dense(history, group)
        index, y = samples_of(whole, group)
        np.testing.assert_array_equal(index - first, np.flatnonzero(~np.isnan(x)))
        np.testing.assert_allclose(y, ss.lfilter(taps, 1, np.nan_to_num(x))[index - first], atol=1e-9)
        early, _ = samples_of(found, group)
        block = query.node.block  # type: ignore[union-attr]
        assert (index[len(early) :] // block == index[-1] // block).all()


def test_filters_of_users() -> None:
    history = regular(6, missing=0.1)
    found, query = online(history, lambda s: s.sample(10).filter(Median3))
    assert same_bits(found, query.run(history.table()))
    first, x = dense(history, "g0")
    expected = pd.Series(x).rolling(3).median()
    index, y = samples_of(found, "g0")
    np.testing.assert_array_equal(index - first, np.flatnonzero(expected.notna()))
    np.testing.assert_allclose(y, expected.dropna())
    leaky, _ = online(history, lambda s: s.sample(10).filter(Leaky))
    index, y = samples_of(leaky, "g0")
    np.testing.assert_allclose(y, ss.lfilter([1.0], [1.0, -0.5], np.nan_to_num(x))[index - first])


def test_spectra_are_lists_in_arrow_and_sql_reads_but_does_not_maintain_them() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    view = db.create_view("spectra", over(db).sample(10).window(4).rfft())
    told: list[int] = []
    view.subscribe(lambda epoch, changes: told.append(changes.num_rows))
    db.insert("events", [("a", 10 * k, float(k), 0.0) for k in range(8)])
    table = view.to_arrow()
    assert [str(field.type) for field in table.schema] == [
        "string",
        "int64",
        "fixed_size_list<item: double>[3]",
        "fixed_size_list<item: double>[3]",
    ]
    assert view.rows()[0][2] == [6.0, -2.0, -2.0]
    assert [str(column.type) for column in view.schema[2:]] == ["DOUBLE[3]", "DOUBLE[3]"]
    assert told == [2]
    assert db.execute("SELECT x_re[1] AS dc FROM spectra ORDER BY t").to_pylist() == [{"dc": 6.0}, {"dc": 22.0}]
    with pytest.raises(viewlet.UnsupportedError, match="a view over 'spectra', a signal query with arrays"):
        db.execute("CREATE MATERIALIZED VIEW s AS SELECT x_re FROM spectra")


def test_filters_in_both_directions_are_for_finished_tables() -> None:
    b, a = ss.butter(2, 0.3)
    history = regular(2, groups=2)
    query = source("events", key="g", time="t", value="x", is_timestamp=False).sample(10).filtfilt(b, a)
    first, x = dense(history, "g1")
    index, y = samples_of(query.run(history.table()), "g1")
    np.testing.assert_allclose(y, ss.filtfilt(b, a, x)[index - first])
    with pytest.raises(SignalError, match="over a finished table"):
        online(history, lambda s: s.sample(10).filtfilt(b, a))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.window(8).rfft().rfft(), "real values"),
        (lambda s: s.window(8).irfft(8), "needs 5 of them"),
        (lambda s: s.window(8).rfft().overlap_add("dual"), "norm=None"),
        (lambda s: s.window(8, window="hamster"), "window"),
        (lambda s: s.window(8, window=[1.0]), "8 finite weights"),
        (lambda s: s.window(0), "at least 1"),
        (lambda s: s.window(8).fft().max(), "real values"),
        (lambda s: s.window(8).product([1.0]), "with 1"),
        (lambda s: s.fir([1.0, 2.0], method="fft", start="full"), "starts from zeros"),
    ],
)
def test_wrong_windows_are_refused(build: Callable[[Signal], object], message: str) -> None:
    with pytest.raises(SignalError, match=message):
        build(source(time="t", value="x", is_timestamp=False).sample(10))
