"""The benchmark runs from end to end: one tiny measurement, as plain Python, with its table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.records import anchors, geometric_mean
from bench.streams import churn_events, interleaved, net_changes, round_robin

ROOT = Path(__file__).parents[2]


def test_one_measurement_is_checked_and_written_down(tmp_path: Path) -> None:
    options = ["--scale", "0.001", "--queries", "q06", "--modes", "batch,check", "--repeats", "1", "--no-plots"]
    options += ["--no-calibration", "--rivals", "duckdb"]
    places = ["--data", str(tmp_path), "--out", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", "bench.run", *options, *places],
        env=os.environ | {"VIEWLET_JIT": "0", "PYTHONPATH": str(ROOT / "src")},
        cwd=ROOT, check=True, timeout=300, capture_output=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "tpch-sf0.001.jsonl").read_text().splitlines()]
    own, rival = (line for line in lines if line["kind"] == "measurement")
    assert (own["status"], own["correct"], own["finished"], own["tuples"]) == ("ok", True, True, 6005)
    assert (rival["engine"], rival["status"]) == ("duckdb", "ok")
    assert "| q06 |" in (tmp_path / "tpch-sf0.001.md").read_text()


def test_round_robin_takes_every_row_once_in_turn() -> None:
    steps = [tuple(piece) for (piece,) in round_robin({"a": 5, "b": 2}, 2)]
    assert steps == [("a", 0, 2), ("b", 0, 2), ("a", 2, 4), ("a", 4, 5)]


def test_churn_keeps_the_newest_rows() -> None:
    events = churn_events(1000, 300)
    present, gone = net_changes(events, 0, len(events))
    assert present.tolist() == list(range(700, 1000))
    assert not gone.size
    assert np.cumsum(events.signs).max() == 300


def test_interleaved_events_keep_the_order_of_each_table() -> None:
    steps = [[tuple(piece) for piece in step] for step in interleaved(["a", "b"], np.array([0, 1, 1, 0, 0]), 2)]
    assert steps == [[("a", 0, 1), ("b", 0, 1)], [("a", 1, 2), ("b", 1, 2)], [("a", 2, 3)]]


def test_there_is_an_anchor_for_every_query() -> None:
    from bench.run import WORKLOADS

    for workload, queries in WORKLOADS.items():
        assert sorted(anchors(workload)) == sorted(queries)


def test_geometric_mean_leaves_out_what_was_not_measured() -> None:
    assert geometric_mean([1.0, 4.0, float("nan")]) == pytest.approx(2.0)
