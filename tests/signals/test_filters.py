"""Filters and recurrences equal SciPy, NumPy and pandas on the whole array, whatever the batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
import scipy.signal as ss

from tests.signals.events import dense, online, regular, same_bits, samples_of
from viewlet.signals import Signal

SOS = ss.butter(3, 0.3, output="sos")
B, A = ss.butter(2, 0.25)
TAPS = ss.firwin(9, 0.4)
SCALED = np.array([2.0, 0.5, -0.3])


def pieces(x: np.ndarray) -> list[slice]:
    """The stretches without a missing sample."""
    present = np.flatnonzero(~np.isnan(x))
    cuts = np.split(present, np.flatnonzero(np.diff(present) > 1) + 1)
    return [slice(each[0], each[-1] + 1) for each in cuts]


def by_piece(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    def run(x: np.ndarray) -> np.ndarray:
        y = np.full(len(x), np.nan)
        for piece in pieces(x):
            found = function(x[piece])
            y[piece.stop - len(found) : piece.stop] = found
        return y

    return run


def full_lfilter(x: np.ndarray) -> np.ndarray:
    """The recurrence of the chapter: no output before the window of inputs is full, then feedback from zeros."""
    y = np.zeros(len(x))
    for n in range(len(B) - 1, len(x)):
        y[n] = sum(B[i] * x[n - i] for i in range(len(B))) - sum(
            A[i] * y[n - i] for i in range(1, len(A)) if n - i >= len(B) - 1
        )
    return y[len(B) - 1 :]


def full_fir(x: np.ndarray) -> np.ndarray:
    return np.concatenate((np.full(len(TAPS) - 1, np.nan), np.convolve(np.nan_to_num(x), TAPS, "valid")))


OPERATORS: dict[str, tuple[Callable[[Signal], Signal], Callable[[np.ndarray], np.ndarray]]] = {
    "sosfilt": (lambda s: s.sosfilt(SOS), lambda x: ss.sosfilt(SOS, np.nan_to_num(x))),
    "sosfilt, reset": (lambda s: s.sosfilt(SOS, missing="reset"), by_piece(lambda x: ss.sosfilt(SOS, x))),
    "sosfilt, steady": (
        lambda s: s.sosfilt(SOS, start="steady"),
        lambda x: ss.sosfilt(SOS, np.nan_to_num(x), zi=ss.sosfilt_zi(SOS) * x[0])[0],
    ),
    "lfilter": (lambda s: s.lfilter(B, A), lambda x: ss.lfilter(B, A, np.nan_to_num(x))),
    "lfilter, a0": (lambda s: s.lfilter(B, SCALED), lambda x: ss.lfilter(B, SCALED, np.nan_to_num(x))),
    "lfilter, full": (lambda s: s.lfilter(B, A, start="full", missing="reset"), by_piece(full_lfilter)),
    "lfilter, steady": (
        lambda s: s.lfilter(B, A, start="steady"),
        lambda x: ss.lfilter(B, A, np.nan_to_num(x), zi=ss.lfilter_zi(B, A) * x[0])[0],
    ),
    "fir": (lambda s: s.fir(TAPS), lambda x: ss.lfilter(TAPS, 1, np.nan_to_num(x))),
    "fir, full": (lambda s: s.fir(TAPS, start="full"), full_fir),
    "convolve": (lambda s: s.convolve([1.0, -2.0]), lambda x: np.convolve(np.nan_to_num(x), [1.0, -2.0])[: len(x)]),
    "correlate": (
        lambda s: s.correlate(TAPS, missing="reset"),
        by_piece(lambda x: np.correlate(x, TAPS, "valid") if len(x) >= len(TAPS) else x[:0]),
    ),
    "ewm": (lambda s: s.ewm(0.3), lambda x: pd.Series(x).ewm(alpha=0.3).mean().to_numpy()),
    "ewm, not adjusted": (
        lambda s: s.ewm(0.3, adjust=False),
        lambda x: pd.Series(x).ewm(alpha=0.3, adjust=False).mean().to_numpy(),
    ),
    "difference": (lambda s: s.difference(), lambda x: np.concatenate(([np.nan], np.diff(x)))),
    "difference of 3": (lambda s: s.difference(3), lambda x: pd.Series(x).diff(3).to_numpy()),
    "derivative": (lambda s: s.derivative(), lambda x: np.concatenate(([np.nan], np.diff(x) / 0.01))),
    "integral": (
        lambda s: s.integral(),
        lambda x: np.nancumsum(np.concatenate(([0.0], (x[1:] + x[:-1]) / 2 * 0.01))),
    ),
    "integral by sums": (lambda s: s.integral(method="sum"), lambda x: np.nancumsum(x) * 0.01),
    "scale": (lambda s: -(2 * s) / 4 + 1, lambda x: 1 - x / 2),
    "decimate": (
        lambda s: s.decimate(1).scale(1),
        lambda x: ss.sosfilt(ss.cheby1(8, 0.05, 0.8, output="sos"), np.nan_to_num(x)),
    ),
}


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_equals_scipy_online_and_offline(name: str, missing: float) -> None:
    build, oracle = OPERATORS[name]
    history = regular(len(name), missing=missing)
    found, query = online(history, lambda s: build(s.sample(10)), seed=len(name))
    assert same_bits(found, query.run(history.table()))
    for group in history.groups:
        first, x = dense(history, group)
        expected = np.where(np.isnan(x), np.nan, oracle(x))
        index, y = samples_of(found, group)
        np.testing.assert_array_equal(index - first, np.flatnonzero(~np.isnan(expected)))
        np.testing.assert_allclose(y, expected[index - first], rtol=1e-9, atol=1e-12)


def test_the_whole_integral_is_that_of_scipy() -> None:
    history = regular(4, groups=1)
    found = online(history, lambda s: s.sample(10).integral())[0]
    expected = scipy.integrate.cumulative_trapezoid(dense(history, "g0")[1], dx=0.01, initial=0)
    np.testing.assert_allclose(samples_of(found, "g0")[1], expected)


def test_decimate_keeps_the_beats_of_the_coarser_grid() -> None:
    history = regular(3, groups=1)
    found = online(history, lambda s: s.sample(10).decimate(4))[0]
    first, x = dense(history, "g0")
    index, y = samples_of(found, "g0")
    assert (index % 4 == 0).all()
    expected = ss.sosfilt(ss.cheby1(8, 0.05, 0.2, output="sos"), x)
    np.testing.assert_allclose(y, expected[index - first])
    np.testing.assert_allclose(expected[::4], ss.decimate(x, 4, zero_phase=False))


def test_a_very_long_gap_restarts_a_filter() -> None:
    from tests.signals.events import History
    from viewlet.signals.operators.filters import LONGEST_GAP

    rows = [("a", 10 * k, 1.0, 0.0) for k in (0, 1, LONGEST_GAP + 3, LONGEST_GAP + 4)]
    _, y = samples_of(online(History(rows), lambda s: s.sample(10).sosfilt(SOS))[0], "a")
    assert y[2:].tolist() == y[:2].tolist()


def test_a_thousand_groups_interleaved() -> None:
    history = regular(11, groups=1000, samples=6, missing=0.1)
    found, query = online(history, lambda s: s.sample(10).sosfilt(SOS).correlate([1.0, 2.0]))
    assert same_bits(found, query.run(history.table()))
    first, x = dense(history, "g77")
    y = ss.sosfilt(SOS, np.nan_to_num(x))
    index, values = samples_of(found, "g77")
    present = ~np.isnan(x)
    for k, value in zip(index - first, values, strict=True):
        assert present[k]
        assert value == pytest.approx((y[k - 1] if k and present[k - 1] else 0.0) + 2 * y[k])


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_complex_values_and_vectors(factor: float) -> None:
    history = regular(5, groups=2, missing=0.1)
    taps = np.array([1.0, 2.0, -1.0]) + 1j * factor
    found, query = online(
        history, lambda s: s.sample(10).fir(taps).sosfilt(SOS) * 2j, value=("x", "y"), is_complex=True
    )
    assert same_bits(found, query.run(history.table()))
    rows = [(t, x + 1j * y) for g, t, x, y in history.rows if g == "g0" and x is not None]
    k = np.array([t for t, _ in rows]) // 10
    z = np.zeros(k[-1] - k[0] + 1, complex)
    z[k - k[0]] = [value for _, value in rows]
    expected = 2j * ss.sosfilt(SOS, ss.lfilter(taps, 1, z) * np.isin(np.arange(len(z)), k - k[0]))
    chosen = found.filter(np.array(found["g"].to_pylist()) == "g0")
    got = chosen["x_re"].to_numpy() + 1j * chosen["x_im"].to_numpy()
    np.testing.assert_allclose(got, expected[k - k[0]], atol=1e-12)
    vectors, query = online(history, lambda s: s.sample(10).sosfilt(SOS), value=("x", "y"))
    assert vectors.column_names == ["g", "t", "x", "y"]
    single, _ = online(history, lambda s: s.sample(10).sosfilt(SOS))
    assert vectors["x"].to_pylist() == single["x"].to_pylist()
