"""The benchmark of kept tables runs on tiny data, and writes its page."""

from __future__ import annotations

from bench.tables import KINDS, MEASURES, Run, page, runs


def test_every_figure_is_measured_and_shown() -> None:
    wanted = list(runs([3], [4]))
    assert {run.what for run in wanted} == set(MEASURES)
    assert {run.kind for run in wanted} == set(KINDS)
    text = page({(run, "now"): 0.5 for run in wanted} | {(run, "before"): None for run in wanted}, ["before", "now"])
    assert "| table with key | 3 | – |  | 166,666,667 | 1.0 |" in text
    assert "| SELECT | 4 | – | 500 |" in text
    assert "| interpreter | stream | – | 500,000 |" in text


def test_a_batch_and_a_statement() -> None:
    assert MEASURES["batches"](Run("batches", "table with key", 20, "interpreter")) > 0
