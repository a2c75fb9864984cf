"""The benchmark of stream views on tiny data."""

from __future__ import annotations

from itertools import chain

from bench.stream_views import pattern_figures, window_figures


def test_every_figure_has_points() -> None:
    found = list(chain(pattern_figures(2_000, [2, 6], 1), window_figures(2_000, [2, 6], 1, ["MAX", "SUM"])))
    assert len({figure for figure, *_ in found}) == 4
    assert all(naive > 0 and hand > 0 and made.insert > 0 for _, _, naive, hand, made in found)
    assert all(made.worst >= made.refresh for *_, made in found)
