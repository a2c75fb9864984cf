"""Matrix programs on local clusters: an executor is killed in the middle of an update, and answers are equal.

    python -m tests.spark.matrix_faults DIRECTORY

A power is updated on two executors, one of which is killed while an update is under way; then the same updates run on
one executor, and by NumPy. All three results are compared.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("VIEWLET_JIT", "0")

import numpy as np

import viewlet
from bench.spark_soak import EXECUTOR, descendants
from viewlet import linalg
from viewlet.spark.matrices import SparkMatrices
from viewlet.spark.matrices.tasks import Pass

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
                print("killed", flush=True)
        return self.cluster.run(task, payloads, what, partitions)


def session(executors: int) -> Any:
    passed = {name: os.environ[name] for name in ("VIEWLET_JIT", "PYTHONPATH", "VIEWLET_STATE") if name in os.environ}
    settings = {f"spark.executorEnv.{name}": value for name, value in passed.items()}
    memory = {"spark.executor.memory": "512m"}
    return viewlet.spark_session(f"local-cluster[{executors},1,1024]", **settings, **memory)


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


def main(directory: str) -> None:
    found = {}
    for executors in (2, 1):
        spark = session(executors)
        matrices = SparkMatrices(spark, Path(directory, str(executors)), partitions=2, sync=False)
        if executors == 2:
            matrices._cluster = Deadly(matrices._cluster, at=6)  # type: ignore[assignment]
        found[executors] = updated(matrices)
        spark.stop()
    wanted = updated("numpy")
    error = np.linalg.norm(found[2] - wanted) / np.linalg.norm(wanted)
    if not np.array_equal(found[1], found[2]) or not error < 1e-13:
        raise SystemExit(f"one executor and two differ by {np.abs(found[1] - found[2]).max()}, NumPy by {error}")
    print("equal", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
