"""The benchmark of signals runs on tiny data, and writes its page."""

from __future__ import annotations

import pytest

from bench.signals import MEASURES, Run, page, runs


def test_every_figure_is_shown() -> None:
    wanted = list(runs(1000))
    assert {run.what for run in wanted} == set(MEASURES)
    names = ("ours", "plain", "online", "per window", "pandas", "by hand", "MB")
    text = page({run: dict.fromkeys(names, 3.0) for run in wanted}, 1000)
    assert "| fft | 64 | 3 | 3 | 3 | 3 | 1.00 |" in text
    assert "| upsample and filter | 1,000,000 | 20,000,000 | 3 | 3 | – | 3 | 1.00 | – |" in text


@pytest.mark.parametrize("what", ["fft", "fir", "correlate", "upsample", "overlap", "latency"])
def test_a_figure_is_measured(what: str) -> None:
    size = {"fft": 16, "fir": 4, "correlate": 2, "upsample": 2, "overlap": 256, "latency": 3}[what]
    found = MEASURES[what](Run(what, size, 100 * 260 if what == "overlap" else 400))
    assert min(found.values()) > 0
