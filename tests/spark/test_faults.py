"""Processes are killed while batches are applied; afterwards the views are what they should be."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from bench.spark_soak import soak


def test_drivers_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run in the driver's process here, so that a life is short."""
    _find_sources(monkeypatch)
    done = soak(str(tmp_path / "state"), "inline", kills=6, count=40, seed=3, pause=(0.9, 2.5))
    assert done == {"driver": 6, "executor": 0, "worker": 0}


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_executors_and_workers_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("PySpark is not installed")
    _find_sources(monkeypatch)
    monkeypatch.setenv("SPARK_HOME", os.path.dirname(found.origin))
    done = soak(str(tmp_path / "state"), "local-cluster[2,1,512]", kills=3, count=25, seed=5, pause=(8.0, 20.0))
    assert sum(done.values()) == 3


def _find_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{root / 'src'}{os.pathsep}{root}")
    monkeypatch.chdir(root)
