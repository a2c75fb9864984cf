"""The benchmark of stream views on tiny data."""

from __future__ import annotations

from bench.stream_views import figures


def test_every_figure_has_points() -> None:
    found = list(figures(2_000, [2, 6], 1))
    assert len({figure for figure, *_ in found}) == 4
    assert all(naive > 0 and hand > 0 and whole > 0 for _, _, naive, hand, _, whole in found)
