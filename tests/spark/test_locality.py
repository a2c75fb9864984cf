"""Partitions stay with the executors that have their state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from viewlet.errors import StateError
from viewlet.spark.run.execution.cluster import SparkCluster
from viewlet.spark.run.execution.locality import Locality, assign


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


def test_executors_without_the_package_are_told_of_once() -> None:
    """Whatever of Viewlet a worker imports first, the daemon of the workers or a task."""

    class Context:
        def getLocalProperty(self, name: str) -> None: ...  # noqa: N802 - as in PySpark

        def setLocalProperty(self, name: str, value: str | None) -> None: ...  # noqa: N802

    cluster = SparkCluster.__new__(SparkCluster)
    cluster._context = Context()
    tried: list[int] = []
    for text in (
        "ModuleNotFoundError: No module named 'viewlet'",
        "Error while finding module specification for 'viewlet.spark.run.worker_daemon' "
        "(ModuleNotFoundError: No module named 'viewlet')",
    ):

        def job(text: str = text) -> None:
            tried.append(1)
            raise RuntimeError(text)

        with pytest.raises(
            StateError, match=r"fill v failed: the executors cannot import viewlet; install it .*addPyFile"
        ):
            cluster._tried(job, "fill v")
    assert len(tried) == 2
