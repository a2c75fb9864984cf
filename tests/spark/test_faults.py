"""Processes are killed while batches are applied; afterwards the views are what they should be."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.spark_soak import Soak
from tests.spark.cluster_faults import SCENARIOS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "every", "more"), [("interpreter", 101, []), ("compiled", 131, []), ("interpreter", 113, ["--in-files"])]
)
def test_drivers_die_at_steps_of_a_commit(engine: str, every: int, more: list[str]) -> None:
    """`python -m tests.spark.driver_deaths` takes all steps, these are some of them."""
    command = [sys.executable, "-m", "tests.spark.driver_deaths", "--engine", engine, "--every", str(every), *more]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "VIEWLET_JIT": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "nothing lost, nothing twice" in done.stdout


@pytest.mark.slow
def test_processes_of_a_cluster_die_at_chosen_moments(tmp_path: Path) -> None:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("PySpark is not installed")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "SPARK_HOME": os.path.dirname(found.origin),
        "VIEWLET_JIT": "0",
        "VIEWLET_STATE": str(tmp_path / "mapped"),
    }
    command = [sys.executable, "-m", "tests.spark.cluster_faults", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    expected = [f"{engine}: {who} {when}" for engine in SCENARIOS for who, when in SCENARIOS[engine]]
    assert [line for line in done.stdout.splitlines() if "nobody" not in line] == expected


@pytest.mark.slow
def test_executors_and_workers_are_killed_at_random(tmp_path: Path) -> None:
    """`python -m bench.spark_soak` does it for longer."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed")
    figures = Soak(tmp_path, "local-cluster[2,1,1024]", "compiled", seed=10).run(2)
    assert figures.killed.total() == 2
    assert figures.batches > 0
