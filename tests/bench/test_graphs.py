"""The benchmark of triangles runs from end to end at toy size, as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_costs_and_throughput_are_reported(tmp_path: Path) -> None:
    page = tmp_path / "graphs.md"
    subprocess.run(
        [sys.executable, "-m", "bench.graphs", "--quick", "--out", str(page)],
        env=os.environ | {"VIEWLET_JIT": "0", "PYTHONPATH": str(ROOT / "src")},
        cwd=ROOT, check=True, timeout=120, capture_output=True,
    )  # fmt: skip
    lines = page.read_text().splitlines()
    grown: dict[str, float] = {}
    for line in lines[: lines.index("## Space")]:
        if "epsilon" in line and "|" in line:
            grown.setdefault(line.split("|")[1].strip(), float(line.split("|")[-2]))
    assert grown["adaptive, epsilon 1/2, linear space"] < 0.6
    assert min(grown["classical (epsilon 0)"], grown["classical (epsilon 1)"]) > 0.8
    assert {"## Space", "## The trade-off over epsilon", "## Throughput", "## Pauses"} <= set(lines)
