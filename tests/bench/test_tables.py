"""The benchmark of kept tables runs on tiny data, and writes its page."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from bench.tables import KINDS, MEASURES, Run, page, query_batches, runs


def test_every_figure_is_measured_and_shown() -> None:
    wanted = list(runs([3], [4], [5], ["q01"]))
    assert {run.what for run in wanted} == set(MEASURES)
    assert {run.kind for run in wanted} == set(KINDS)
    text = page({(run, "now"): 0.5 for run in wanted} | {(run, "before"): None for run in wanted}, ["before", "now"])
    assert "| table with key | 3 | – |  | 166,666,667 | 1.0 |" in text
    assert "| q01 | 500,000,000 | – | 1.0 |" in text
    assert "| SELECT | 4 | – | 500 |" in text
    assert "| interpreter | stream | – | 500,000 |" in text


def test_a_batch_and_a_statement() -> None:
    assert MEASURES["batches"](Run("batches", "table with key", 20, "interpreter")) > 0


def test_batches_of_a_query_keep_the_working_set() -> None:
    rows = {"t": pa.table({"k": range(6_000)}), "u": pa.table({"k": range(10)})}
    for churn in (False, True):
        first, small, *later = query_batches(rows, 1_000, churn)
        assert (first["t"].num_rows, small["u"].num_rows) == (1_500 if churn else 1_000, 10)
        kept = Counter(first["t"]["k"].to_pylist())
        for batch in later:
            signs = batch["t"]["_multiplicity"].to_pylist() if churn else [1] * len(batch["t"])
            kept.update(dict(zip(batch["t"]["k"].to_pylist(), signs, strict=True)))
            assert set(kept.values()) <= {0, 1}
        assert sum(kept.values()) == (1_500 if churn else 6_000)
