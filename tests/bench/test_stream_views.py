"""The benchmark of stream views on tiny data."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain

import pytest

from bench.stream_report import FIGURES, table
from bench.stream_views import pattern_figures, window_figures


def test_every_figure_has_points(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCOPE", "WIDTH", "BEFORE"):
        monkeypatch.setattr(f"bench.stream_views.{name}", 2)
    wanted = 1_000, [2], 1, list(FIGURES)
    found = list(chain(pattern_figures(*wanted), window_figures(*wanted)))
    assert {point.figure for point in found} == set(FIGURES)
    assert all(point.naive and point.hand > 0 and point.insert > 0 for point in found)
    assert all(point.worst >= point.generated for point in found)
    assert len(table([asdict(point) for point in found]).splitlines()) == len(found) + 2
