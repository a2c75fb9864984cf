"""Matrix powers on local Spark clusters: `python -m bench.linalg_spark [--sizes 1000 2000 4000] [--executors 1 2]`.

A^16 by the exponential model after one-row changes of A, incrementally and re-evaluated, on clusters of one and two
executors with one core each. The bytes are those of factors and products that travel for one update; they are compared
with the rows times the factors times the executors. The answers are compared with NumPy's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

POWER = 16
FACTORS = 1 + 2 + 4 + 8 + 16
"""Of the changes of all matrices of a step."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    arguments.add_argument("--executors", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--steps", type=int, default=4)
    arguments.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    arguments.add_argument("--one", action="store_true", help="measure one cluster in this process")
    given = arguments.parse_args()
    if given.one:
        for size in given.sizes:
            print(json.dumps(measure(size, given.executors[0], given.steps)), flush=True)
        return
    records: list[dict[str, Any]] = []
    for executors in given.executors:
        records += apart(executors, given.sizes, given.steps)
    (given.out / "linalg-spark.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    (given.out / "linalg-spark.md").write_text(report(records), encoding="utf-8")


def apart(executors: int, sizes: list[int], steps: int) -> list[dict[str, Any]]:
    """A process has one session: every cluster is measured in a process of its own."""
    import pyspark

    folder = tempfile.mkdtemp(prefix="viewlet-linalg-spark-")
    environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), "VIEWLET_STATE": folder}
    command = [sys.executable, "-m", "bench.linalg_spark", "--one", "--executors", str(executors)]
    command += ["--sizes", *map(str, sizes), "--steps", str(steps)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    shutil.rmtree(folder, ignore_errors=True)
    print(done.stdout, flush=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(size: int, executors: int, steps: int) -> dict[str, Any]:
    import viewlet
    from viewlet import linalg
    from viewlet.spark.matrices import SparkMatrices

    passed = {name: os.environ[name] for name in ("VIEWLET_JIT", "PYTHONPATH", "VIEWLET_STATE") if name in os.environ}
    settings = {f"spark.executorEnv.{name}": value for name, value in passed.items()}
    spark = viewlet.spark_session(f"local-cluster[{executors},1,1024]", **settings)
    n = linalg.dim("n")
    a = linalg.matrix("A", n, n, dynamic=True)
    program = linalg.program(C=linalg.matrix_power(a, POWER, model="exponential"))
    rng = np.random.default_rng(0)
    start = rng.standard_normal((size, size)) / (1.02 * size**0.5)
    rows = rng.standard_normal((steps + 1, size)) / (1.02 * size**0.5)
    found: dict[str, Any] = {"n": size, "executors": executors}
    results = {}
    for strategy, count in (("incremental", steps + 1), ("reevaluate", 2)):
        folder = Path(tempfile.mkdtemp(prefix="viewlet-linalg-spark-"))
        matrices = SparkMatrices(spark, folder / "state", partitions=executors, sync=False)
        run = program.start(A=start, backend=matrices, strategy=strategy)
        taken = []
        for i in range(count):
            before = matrices.traffic.sent + matrices.traffic.received
            begin = time.perf_counter()
            run.set_row("A", i, rows[i])
            taken.append(time.perf_counter() - begin)
            found[f"{strategy}_bytes"] = matrices.traffic.sent + matrices.traffic.received - before
            if strategy == "incremental" and i == 1:
                results[strategy] = np.array(run["C"])
        if strategy == "reevaluate":
            results[strategy] = np.array(run["C"])
        found[strategy] = statistics.median(taken[1:])
        matrices.close()
        shutil.rmtree(folder)
    now = start.copy()
    now[:2] = rows[:2]
    wanted = now
    for _ in range(4):
        wanted = wanted @ wanted
    found["error"] = max(float(np.linalg.norm(each - wanted) / np.linalg.norm(wanted)) for each in results.values())
    return found


def report(records: list[dict[str, Any]]) -> str:
    text = """# Matrix powers on Spark

Written by `python -m bench.linalg_spark`: A^16 by the exponential model after one-row changes of A, on
`local-cluster[executors, 1, 1024]` on one machine of two cores. Seconds of the clock, medians. The bytes are those of
factors and products that travel for one update, and how many times 8 n × 31 factors × executors they are; the error is
that of the worse of both results, relative to NumPy's.

| executors | n | incremental, s | re-evaluated, s | speed-up | bytes for an update | times n × factors | error |
|---|---|---|---|---|---|---|---|
"""
    for one in records:
        unit = 8 * one["n"] * FACTORS * one["executors"]
        text += (
            f"| {one['executors']} | {one['n']:,} | {one['incremental']:.2f} | {one['reevaluate']:.2f} "
            f"| {one['reevaluate'] / one['incremental']:.1f}x | {one['incremental_bytes']:,} "
            f"| {one['incremental_bytes'] / unit:.2f} | {one['error']:.0e} |\n"
        )
    return text


if __name__ == "__main__":
    main()
