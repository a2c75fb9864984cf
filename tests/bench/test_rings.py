"""The ring benchmarks run from end to end at toy size, as plain Python, and compare what they should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.records import anchors
from bench.rings_data import housing_data, retailer_data, skewed
from bench.rings_record import read, recording
from bench.rings_report import CHAPTERS, crossing
from workloads import housing, retailer

ROOT = Path(__file__).parents[2]


def run(bench: str, out: Path) -> list[dict]:
    subprocess.run(
        [sys.executable, "-m", f"bench.rings_{bench}", "--quick", "--out", str(out)],
        env=os.environ | {"VIEWLET_JIT": "0", "PYTHONPATH": str(ROOT / "src")},
        cwd=ROOT, check=True, timeout=120, capture_output=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in (out / "rings.jsonl").read_text().splitlines()]
    assert f"## {CHAPTERS[bench][0]}" in (out / "rings.md").read_text()
    return [line for line in lines if line["kind"] == "measurement"]


@pytest.mark.slow
def test_cofactors_are_kept_by_every_strategy(tmp_path: Path) -> None:
    found = run("cofactor", tmp_path)
    views = {(row["workload"], row["line"]): row.get("views") for row in found}
    assert views["Retailer", "view tree"] == 9
    assert views["Retailer", "higher-order, ring payloads"] == 13
    assert views["Housing", "view tree"] == views["Housing", "higher-order, ring payloads"] == 7
    assert views["Retailer", "view tree, ONE"] == 4
    assert all(row["finished"] and row["tuples_per_second"] > 0 for row in found)
    assert {row["scaled"] for row in found if "scaled" in row} == {406, 990}


def test_indicators_bound_the_view_of_pairs(tmp_path: Path) -> None:
    without, with_indicator, check = run("triangle", tmp_path)
    assert check["same"]
    assert check["count"] > 0
    assert with_indicator["largest_view"] <= 300 < without["largest_view"]


@pytest.mark.slow
@pytest.mark.parametrize("bench", ["growth", "factorised", "matrix"])
def test_the_others_write_their_chapters(bench: str, tmp_path: Path) -> None:
    assert run(bench, tmp_path)


def test_a_run_replaces_only_its_own_records(tmp_path: Path) -> None:
    row = {"workload": "Housing", "relation": "Shop", "batch": 10, "tuples": 100}
    for nanoseconds in (5.0, 7.0):
        with recording("growth", tmp_path, calibrated=False) as recorder:
            recorder.add(**row, nanoseconds_per_tuple=nanoseconds)
        with recording("matrix", tmp_path, calibrated=False) as recorder:
            for line in ("factorised", "first-order"):
                recorder.add(place="arrays", line=line, n=8, rank=1, vary="n", seconds=0.5)
    found = [record for record in read(tmp_path) if record["kind"] == "measurement"]
    assert [record["bench"] for record in found] == ["growth", "matrix", "matrix"]
    assert found[0]["nanoseconds_per_tuple"] == 7.0
    page = (tmp_path / "rings.md").read_text()
    assert all(CHAPTERS[bench][0] in page for bench in ("growth", "matrix"))


def test_the_crossing_of_two_lines_lies_where_they_meet() -> None:
    recompute = ([1, 10, 20], [4.0, 4.0, 4.0])
    assert "up to about rank 15" in crossing(([1, 10, 20], [1.0, 3.0, 5.0]), recompute)
    assert "at every rank" in crossing(([1, 10, 20], [1.0, 1.0, 1.0]), recompute)
    assert "at none" in crossing(([1, 10, 20], [5.0, 6.0, 7.0]), recompute)


def test_data_has_the_schemas_and_sizes_of_the_workloads() -> None:
    homes, stock = housing_data(3, 20), retailer_data(0.01)
    assert homes.attributes == housing.ATTRIBUTES
    assert set(stock.attributes) == set(retailer.ATTRIBUTES)
    assert homes.sizes == {name: 60 if name in housing.GROWING else 20 for name in housing.RELATIONS}
    assert stock.sizes["Inventory"] == 1000
    for workload in (homes, stock):
        assert all(len(columns) == len(workload.relations[name]) for name, columns in workload.columns.items())
        assert sum(end - begin for _, begin, end in workload.batches(7)) == workload.tuples


def test_skew_makes_some_values_common() -> None:
    random = np.random.default_rng(1)
    even, uneven = (np.bincount(skewed(random, 100, 10_000, skew), minlength=100) for skew in (0.0, 1.0))
    assert even.max() < 200 < uneven[0]


def test_there_are_anchors_for_what_is_compared_with_the_original() -> None:
    assert sorted(anchors("rings")) == ["housing-cofactor", "housing-sum"]
