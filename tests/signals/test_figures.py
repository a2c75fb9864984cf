"""Labelled arrays, responses of filters, and figures."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import scipy.signal as ss

import viewlet
from viewlet.signals import SignalError, source
from viewlet.signals.figures import _stacked, frequencies, response, spectrogram
from viewlet.signals.form import form_of


def handle(build: Any, groups: int = 2) -> Any:
    db = viewlet.connect()
    db.execute("CREATE TABLE r (g VARCHAR NOT NULL, t BIGINT NOT NULL, x DOUBLE)")
    signal = db.signal("r", key="g", time="t", value="x", unit="ms").sample("10ms")
    view = db.create_view("v", build(signal))
    db.insert("r", [(f"g{g}", 10 * k, float(g + k)) for g in range(groups) for k in range(8) if (g, k) != (1, 3)])
    return view


def test_spectra_have_frequencies_in_hertz() -> None:
    signal = source(key="g", time="t", value="x", is_timestamp=False, ticks=1000).sample(10)
    np.testing.assert_array_equal(frequencies(signal.window(8).rfft().node), np.fft.rfftfreq(8, 0.01))
    np.testing.assert_array_equal(frequencies(signal.window(8).fft().node), np.fft.fftfreq(8, 0.01))
    np.testing.assert_array_equal(frequencies(signal.window(8, 2).sliding_rfft().node), np.fft.rfftfreq(8, 0.01))
    np.testing.assert_array_equal(frequencies(signal.window(8).rfft().top_k(2).node), np.fft.rfftfreq(8, 0.01))
    assert frequencies(signal.window(8).fft().ifft().node) is None
    assert frequencies(signal.window(8).rfft().irfft().node) is None
    assert frequencies(signal.window(8).node) is None
    assert frequencies(signal.node) is None


def test_the_tone_of_a_two_sided_spectrum_is_drawn_at_its_frequency() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE r (t BIGINT NOT NULL, re DOUBLE, im DOUBLE)")
    signal = db.signal("r", time="t", value=["re", "im"], is_complex=True, unit="ms").sample(10)
    view = db.create_view("v", signal.window(50).fft())
    tone = np.exp(-2j * np.pi * 20 * np.arange(200) / 100)
    db.insert("r", [(10 * k, float(z.real), float(z.imag)) for k, z in enumerate(tone)])
    places, picture = spectrogram(view._query(), _stacked(form_of(view._query()), view.to_arrow())[2])
    assert (np.diff(places) > 0).all()
    assert places[picture.argmax(axis=0)].tolist() == [-20.0] * 4


def test_groups_are_stacked_with_nan_where_there_is_no_sample() -> None:
    view = handle(lambda s: s.ewm(1.0))
    groups, times, values = _stacked(form_of(view._query()), view.to_arrow())
    assert groups == [("g0",), ("g1",)]
    assert times.tolist() == [10 * k for k in range(8)]
    expected = np.array([[0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 3, np.nan, 5, 6, 7, 8]], float)
    np.testing.assert_array_equal(values[:, :, 0], expected)


def test_the_response_is_that_of_all_filters() -> None:
    sos, (b, a) = ss.butter(3, 0.3, output="sos"), ss.butter(2, 0.4)
    signal = source(time="t", value="x", is_timestamp=False, ticks=1000).sample(10)
    found, gain = response(signal.sosfilt(sos).lfilter(b, a).scale(1.0).node, 64)
    turns = np.linspace(0, np.pi, 64, endpoint=False)
    np.testing.assert_allclose(gain, ss.freqz_sos(sos, turns)[1] * ss.freqz(b, a, turns)[1])
    assert found[32] == pytest.approx(25.0)
    with pytest.raises(SignalError, match="no filters"):
        response(signal.node)


@pytest.mark.skipif(importlib.util.find_spec("xarray") is None, reason="xarray is not installed")
def test_labelled_arrays() -> None:
    view = handle(lambda s: s.window(4, 2).rfft())
    found = view.to_xarray(g="g0")
    assert found.dims == ("t", "frequency")
    np.testing.assert_allclose(found.sel(t=30).values, np.fft.rfft([0, 1, 2, 3]))
    assert view.to_xarray().dims == ("g", "t", "frequency")
    with pytest.raises(SignalError, match="not a key"):
        view.to_xarray(h=1)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_figures() -> None:
    lines = handle(lambda s: s.sosfilt(ss.butter(2, 0.3, output="sos"))).plot()
    assert [line.get_label() for line in lines.axes[0].lines] == ["g0", "g1"]
    assert handle(lambda s: s.fir([1.0, 1.0])).plot("response").axes[0].get_ylabel() == "gain (dB)"
    assert handle(lambda s: s.window(4).rfft()).plot(g="g1").axes[0].get_ylabel() == "frequency"


def test_what_is_not_installed_is_named() -> None:
    view = handle(lambda s: s)
    for make, library in ((view.to_xarray, "xarray"), (view.plot, "matplotlib")):
        if importlib.util.find_spec(library) is None:
            with pytest.raises(viewlet.MissingExtraError, match=f"pip install {library}"):
                make()
    with pytest.raises(viewlet.SchemaError, match="'samples' or 'response'"):
        view.plot("pie")
