"""Matrix programs on a local cluster: an executor is killed in the middle of an update, and answers are equal.

A power is updated on two executors, one of which is killed during an update; then the same updates run in tasks of
this process, and by NumPy. All three results are compared.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from bench.spark_soak import EXECUTOR, descendants
from viewlet import linalg
from viewlet.spark.matrices import SparkMatrices
from viewlet.spark.matrices.tasks import Pass
from viewlet.spark.run.execution.cluster import InlineCluster

SIZE = 600
UPDATES = 4


class Deadly:
    """A cluster that loses an executor before a chosen pass of an update."""

    def __init__(self, cluster: Any, at: int) -> None:
        self.cluster = cluster
        self.passes = 0
        self.at = at
        self.share = cluster.share

    def run(self, task: Any, payloads: Any, what: str, partitions: Any = None) -> Any:
        if isinstance(task, Pass):
            self.passes += 1
            if self.passes == self.at:
                os.kill(descendants(os.getpid(), EXECUTOR)[0], signal.SIGKILL)
                print("matrices: killed", flush=True)
        return self.cluster.run(task, payloads, what, partitions)


def updated(backend: Any) -> Any:
    """The program after the same updates on any back end."""
    n = linalg.dim("n")
    a = linalg.matrix("A", n, n, dynamic=True)
    program = linalg.program(C=linalg.matrix_power(a, 4, model="exponential"))
    rng = np.random.default_rng(0)
    start = rng.standard_normal((SIZE, SIZE)) / (1.1 * SIZE**0.5)
    run = program.start(A=start, backend=backend, strategy="incremental")
    for i in range(UPDATES):
        run.set_row("A", i, rng.standard_normal(SIZE) / (1.1 * SIZE**0.5))
    return np.array(run["C"])


def compare(spark: Any, directory: Path) -> None:
    """Prints what happened, or ends this process; BLAS has to have one thread here, as in the executors."""
    on_executors = SparkMatrices(spark, directory / "executors", partitions=2, sync=False)
    on_executors._cluster = Deadly(on_executors._cluster, at=6)  # type: ignore[assignment]
    here = SparkMatrices(cluster=InlineCluster(), checkpoint=directory / "here", partitions=2, sync=False)
    found, alone, wanted = updated(on_executors), updated(here), updated("numpy")
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    if not np.array_equal(alone, found) or not error < 1e-13:
        raise SystemExit(f"a cluster and one process differ by {np.abs(alone - found).max()}, NumPy by {error}")
    print("matrices: equal", flush=True)
