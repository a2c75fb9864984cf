"""The queries of the chapter: spectral analysis (7.1.1), Figure 7.4, and the five of the evaluation (7.5).

Errata: the chapter's coefficients a and b are SciPy's b and -a; its `Freq` is a period; an autocorrelation of n values
has 2n - 1 of them, not 2n + 1; `Resample(30, ...)` of a signal with period 30 does not halve its period.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal as ss

from tests.signals.events import dense, irregular, online, regular, same_bits, samples_of
from tests.signals.interpolators import same
from viewlet.signals import source


def strongest(spectrum: Any) -> Any:
    """f of the example: keeps the values with large magnitudes."""
    size = np.abs(spectrum)
    return np.where(size > 2.0 * size.mean(axis=-1, keepdims=True), spectrum, 0)


def is_extreme(x: Any) -> Any:
    return (x < 0.1) | (x > 1.9)


def test_spectral_analysis_of_section_7_1_1() -> None:
    """Sample(100, 0, FirstOrder) . Window(512, 256, true, FFT . Select(f) . InverseFFT, Sum)."""
    history = irregular(1, groups=2, rows=3000)
    found, query = online(
        history,
        lambda s: (
            s.sample(10, "linear", max_gap=1000)
            .window(512, 256, missing="zero")
            .fft()
            .select(strongest)
            .ifft()
            .overlap_add()
        ),
    )
    assert same_bits(found, query.run(history.table()))
    assert same_bits(found, query.run(history.table(), workers=2))
    for group in history.groups:
        t, x = history.group(group)
        probes = np.arange(-(-t[0] // 10), t[-1] // 10 + 1)
        y = np.interp(probes * 10, t, x)
        total = np.zeros(len(y), complex)
        starts = range(0, len(y) - 511, 256)
        for start in starts:
            total[start : start + 512] += np.fft.ifft(strongest(np.fft.fft(y[start : start + 512])))
        rows = [row for row in found.to_pylist() if row["g"] == group]
        assert len(rows) == 256 * (len(starts) - 1)
        got = np.array([row["x_re"] + 1j * row["x_im"] for row in rows])
        np.testing.assert_allclose(got, total[: len(got)], atol=1e-9)


def test_query_1_fft_over_tumbling_windows() -> None:
    x = np.random.default_rng(1).normal(size=5000)
    signal = source(time="t", value="x", is_timestamp=False).sample(1)
    for size in (64, 100, 1024):
        spectra = signal.window(size, size).rfft().run(x)
        np.testing.assert_array_equal(spectra, np.fft.rfft(x[: len(x) // size * size].reshape(-1, size)))
        summed = signal.window(size, size, missing="zero").fft().overlap_add().run(x, flush=True)
        np.testing.assert_allclose(summed, np.fft.fft(x[: len(x) // size * size].reshape(-1, size)).reshape(-1))


@pytest.mark.parametrize("taps", [64, 512])
def test_query_2_fir_filtering(taps: int) -> None:
    random = np.random.default_rng(2)
    x, coefficients = random.normal(size=4000), random.normal(size=taps)
    found = source(time="t", value="x", is_timestamp=False).sample(1).fir(coefficients).run(x, flush=True)
    np.testing.assert_allclose(found, ss.oaconvolve(x, coefficients)[: len(x)], atol=1e-9)


def test_query_3_grouped_correlation() -> None:
    vector = np.random.default_rng(3).normal(size=32)
    history = regular(3, groups=3)
    found, query = online(history, lambda s: s.sample(10).correlate(vector))
    assert same_bits(found, query.run(history.table()))
    assert same_bits(found, query.run(history.table(), workers=2))
    first, x = dense(history, "g2")
    index, y = samples_of(found, "g2")
    assert index[0] == first + 31
    np.testing.assert_allclose(y, np.correlate(x, vector, "valid"))


def test_query_4_interpolation_and_filtering_of_two_signals() -> None:
    random = np.random.default_rng(4)
    groups = 5
    first = [(g, t, random.random()) for t in range(0, 2000, 20) for g in range(groups)]
    second = [(g, t, random.random()) for t in range(0, 2000, 5) for g in range(groups)]
    s1, s2 = (source(name, key="g", time="t", value="x", is_timestamp=False) for name in ("s1", "s2"))
    query = (s1.sample(20).resample(5, "linear", max_gap=20) + s2.sample(5)).where(is_extreme)
    columns = (
        {"g": [r[0] for r in rows], "t": [r[1] for r in rows], "x": [r[2] for r in rows]} for rows in (first, second)
    )
    tables = dict(zip(("s1", "s2"), columns, strict=True))
    found = query.run(tables)
    expected = []
    for g in range(groups):
        t1, x1 = np.arange(0, 2000, 20), np.array([x for h, _, x in first if h == g])
        x2 = np.array([x for h, _, x in second if h == g])
        t = np.arange(0, 1981, 5)
        y = np.interp(t, t1, x1) + x2[: len(t)]
        expected += [(g, int(at), pytest.approx(value)) for at, value in zip(t, y, strict=True) if is_extreme(value)]
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    assert expected
    assert query.run(tables, workers=2).equals(found)


@pytest.mark.parametrize("hop", [1, 16, 64])
def test_query_5_grouped_overlap_and_add(hop: int) -> None:
    history = regular(5, groups=2, samples=200)
    found, query = online(
        history,
        lambda s: s.sample(10).window(64, hop, missing="zero").fft().select(same).ifft().overlap_add(),
    )
    assert same_bits(found, query.run(history.table()))
    assert same_bits(found, query.run(history.table(), workers=2))
    _, x = dense(history, "g1")
    starts = np.arange(0, len(x) - 63, hop)
    total = np.zeros(len(x))
    for start in starts:
        total[start : start + 64] += x[start : start + 64]
    rows = [row for row in found.to_pylist() if row["g"] == "g1"]
    got = np.array([row["x_re"] for row in rows])
    np.testing.assert_allclose(got, total[: len(got)], atol=1e-9)
    assert len(got) == starts[-1]


@pytest.mark.parametrize(("size", "hop"), [(16, 16), (16, 5), (8, 11), (16, 1)])
def test_a_long_array_is_computed_as_short_batches_are(size: int, hop: int) -> None:
    """Arrays of one group are cut into windows and blocks without copies: to the same bits."""
    x = np.random.default_rng(6).normal(size=3001)
    signal = source(time="t", value="x", is_timestamp=False).sample(1)
    table = {"t": np.arange(len(x)), "x": x}
    for query in (signal.window(size, hop).rfft(), signal.window(size, hop, "hann").rfft().irfft().overlap_add("dual")):
        rows = query.run(table)
        names = rows.column_names[1:]
        columns = [np.array(rows[name].to_pylist()) for name in names]
        expected = columns[0] if len(columns) == 1 else columns[0] + 1j * columns[1]
        np.testing.assert_array_equal(query.run(x), expected)
        np.testing.assert_array_equal(query.run(x, workers=2), expected)
    taps = np.random.default_rng(7).normal(size=20)
    for query in (signal.fir(taps, method="fft"), signal.fir(taps)):
        np.testing.assert_array_equal(query.run(x), query.run(table)["x"].to_numpy())
        online = query.start()
        pushed = [online.push(part) for part in np.split(x, [1, 2, 700, 701, 2900])]
        np.testing.assert_array_equal(np.concatenate(pushed), query.run(x))
    x[[5, 6, 1000]] = np.nan
    np.testing.assert_allclose(signal.fir(taps).run(x), ss.lfilter(taps, 1, np.nan_to_num(x))[~np.isnan(x)])
