"""Partitions stay with the executors that have their state."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark.partition_moves import PARTITIONS
from viewlet.spark.run.execution.locality import Locality, assign

ROOT = Path(__file__).parents[2]


def loads(homes: dict[int, str]) -> list[int]:
    names = list(homes.values())
    return sorted(names.count(name) for name in set(names))


def test_partitions_are_spread_evenly() -> None:
    assert loads(assign({}, range(8), ["a", "b", "c"])) == [2, 3, 3]
    assert loads(assign({}, range(2), ["a", "b", "c"])) == [1, 1]


def test_partitions_stay_while_executors_live() -> None:
    homes = assign({}, range(7), ["a", "b", "c"])
    assert assign(homes, range(7), ["c", "b", "a"]) == homes


def test_only_the_partitions_of_an_executor_that_is_gone_move() -> None:
    homes = assign({}, range(8), ["a", "b"])
    now = assign(homes, range(8), ["a", "c"])
    assert {p: home for p, home in now.items() if homes[p] == "a"} == {p: "a" for p in homes if homes[p] == "a"}
    assert loads(now) == [4, 4]


def test_a_new_executor_takes_its_fair_share_and_no_more() -> None:
    homes = assign({}, range(9), ["a", "b"])
    now = assign(homes, range(9), ["a", "b", "c"])
    assert loads(now) == [3, 3, 3]
    assert sum(homes[p] != now[p] for p in homes) == 3
    homes = assign({}, range(4), ["a", "b"])
    assert loads(assign(homes, range(4), ["a", "b", "c"])) == [1, 1, 2]


class Broken:
    """A JVM without the classes."""

    def isLocal(self) -> bool:  # noqa: N802 - as Spark has it
        return False

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} does not exist in the JVM")


def test_without_these_classes_of_spark_tasks_run_where_it_likes() -> None:
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=Broken))
    locality = Locality(context)
    assert locality.preferences(range(4)) is None
    assert locality.preferences(range(4)) is None


@pytest.mark.slow
def test_no_partition_moves_on_a_cluster_while_its_executors_live() -> None:
    """Pins the classes of Spark that preferred executors rely on."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("PySpark is not installed")
    paths = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    environment = {**os.environ, "PYTHONPATH": paths, "SPARK_HOME": os.path.dirname(found.origin)}
    command = [sys.executable, "-m", "tests.spark.partition_moves"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("moved without preferences") >= 0
    assert 0 < told.pop("stayed") <= PARTITIONS // 2
    assert told == {"both": True, "moved": 0, "one at its place": True, "without it": True, "replaced": True}
