"""Processes are killed while batches are applied; afterwards the views are what they should be."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.spark_soak import Soak
from tests.spark.cluster_faults import SCENARIOS
from tests.spark.partition_moves import PARTITIONS

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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a driver on a real cluster prints, line by line."""
    folder = tmp_path_factory.mktemp("cluster")
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("PySpark is not installed")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "SPARK_HOME": os.path.dirname(found.origin),
        "VIEWLET_JIT": "0",
        "VIEWLET_STATE": str(folder / "mapped"),
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
    command = [sys.executable, "-m", "tests.spark.cluster_faults", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.mark.slow
def test_no_partition_moves_on_a_cluster_while_its_executors_live(cluster: list[str]) -> None:
    """Pins the classes of Spark that preferred executors rely on."""
    told = json.loads(cluster[0])
    assert told.pop("moved without preferences") >= 0
    assert 0 < told.pop("stayed") <= PARTITIONS // 2
    assert told == {"both": True, "moved": 0, "one at its place": True, "without it": True, "replaced": True}


@pytest.mark.slow
def test_processes_of_a_cluster_die_at_chosen_moments(cluster: list[str]) -> None:
    expected = [f"{engine}: {who} {when}" for engine in SCENARIOS for who, when in SCENARIOS[engine]]
    told = [line for line in cluster[1:] if "nobody" not in line and not line.startswith("matrices")]
    assert told == expected


@pytest.mark.slow
def test_an_executor_dies_while_a_matrix_program_is_updated(cluster: list[str]) -> None:
    """The cluster gives the same answers as one process; `tests.spark.matrix_faults` has the program."""
    assert [line for line in cluster if line.startswith("matrices")] == ["matrices: killed", "matrices: equal"]


@pytest.mark.slow
def test_drivers_are_killed_at_random(tmp_path: Path) -> None:
    """`python -m bench.spark_soak` does it for longer, and kills executors and workers of a cluster too."""
    figures = Soak(tmp_path, "inline", "compiled", seed=10, pause=(0.0, 1.0)).run(2)
    assert figures.killed.total() == 2
    assert figures.batches > 0
