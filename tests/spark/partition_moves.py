"""How many partitions change executors between stages on a cluster of two, and what a killed executor does to it."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from typing import Any

from bench.spark_soak import EXECUTOR, descendants
from viewlet.spark.run.execution.cluster import SparkCluster

PARTITIONS = 6
ROUNDS = 8


def executor(number: int, _: object) -> str:
    """Executors of a local cluster have their own working folders."""
    time.sleep(0.01)
    return os.getcwd()


def places(cluster: SparkCluster) -> list[str]:
    return cluster.run(executor, [None] * PARTITIONS, "where")


def moves(cluster: SparkCluster) -> int:
    found = [places(cluster) for _ in range(ROUNDS)]
    return sum(old != new for one, other in pairwise(found) for old, new in zip(one, other, strict=True))


def settled(cluster: SparkCluster, executors: int) -> bool:
    """Waits until the tasks run on so many executors, and stay there."""
    for _ in range(60):
        found = places(cluster)
        if len(set(found)) == executors and places(cluster) == found:
            return True
        time.sleep(0.5)
    return False


def observed(spark: Any) -> dict[str, object]:
    """Moves of partitions while both executors live, as placed by Viewlet and as placed by Spark; whether the tasks of
    a killed executor run elsewhere; and whether the executor that replaces it gets some."""
    cluster = SparkCluster(spark)
    told: dict[str, object] = {"both": settled(cluster, 2), "moved": moves(cluster)}
    last = places(cluster)
    one = cluster.run(executor, [None], "one of them", [PARTITIONS - 1])
    told["one at its place"] = one[0] == last[-1]
    os.kill(descendants(os.getpid(), EXECUTOR)[0], signal.SIGKILL)
    told["without it"] = len(places(cluster)) == PARTITIONS
    told["replaced"] = settled(cluster, 2)
    now = places(cluster)
    told["stayed"] = sum(old == new for old, new in zip(last, now, strict=True))
    cluster._locality._is_on = False
    told["moved without preferences"] = moves(cluster)
    return told
