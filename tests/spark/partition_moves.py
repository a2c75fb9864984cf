"""How many partitions change executors from stage to stage on a cluster of two, and what a killed executor does to it.

    python -m tests.spark.partition_moves

Prints a line of JSON: moves of partitions while both executors live, as placed by Viewlet and as placed by Spark;
whether the tasks of a killed executor run elsewhere; and whether the executor that replaces it gets some.
"""

from __future__ import annotations

import json
import os
import signal
import time
from itertools import pairwise

import viewlet
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


def main() -> None:
    passed = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    settings = {f"spark.executorEnv.{name}": value for name, value in passed.items()}
    spark = viewlet.spark_session("local-cluster[2,1,1024]", **settings, **{"spark.executor.memory": "512m"})
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
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
