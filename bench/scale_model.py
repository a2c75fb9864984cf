"""What a batch on Spark costs, as a model: fitted to the measurements of this machine, to be run on clusters we lack.

`bench.scale_simulate` plays batches, failures and re-scaling with these costs. Per query the fit takes what
`bench.spark_run` has measured (docs/benchmarks/spark.jsonl): the stages of a batch, seconds of a worker and bytes moved
per changed row, bytes of state per row of the tables. What cannot be measured on one machine, the network, the object
store and the driver's part of a task, is a parameter with the figure it has in public clouds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

MEASURED_CORES = 2
LARGE_BATCH = 100_000
"""From so many changes on, what a batch takes is more than what its stages take."""


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What one query costs, per changed row where nothing else is said."""

    query: str
    stages: int
    """Stages of a batch that change state, when changes are at the driver."""
    worker_seconds: float
    moved_bytes: float
    state_bytes: float
    """Bytes of state per row of the tables."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The parts of a cluster. Times in seconds, rates per second."""

    executors: int = 10
    cores: int = 4
    """Cores, and so partitions of the state, per executor."""
    job_seconds: float = 0.03
    """A job of one stage without work: planning, sending, Python workers (an empty job here)."""
    task_seconds: float = 0.004
    """A task without work on its core: Python worker, opening the state."""
    dispatch_seconds: float = 0.0003
    """What the driver does for one task, one after another."""
    network_bytes: float = 1.2e9
    """Of one executor, in each direction: 10 Gbit/s."""
    driver_bytes: float = 2e8
    """What passes through the driver's Python process: pickled, compressed, logged."""
    inline_bytes: float = 8 * 2**20
    """Up to so many bytes per stage pass through the driver; more are written to segment files."""
    put_seconds: float = 0.04
    """Writing one object, whatever its size, until it is durable."""
    get_seconds: float = 0.015
    """Reading one range of an object."""
    gets_at_once: int = 32
    """Ranges that one task reads at the same time."""
    straggle: float = 0.15
    """Standard deviation of the logarithm of a task's duration."""
    straggler_every: float = 500.0
    """One task of so many takes ten times as long."""
    lost_after: float = 10.0
    """Until the driver knows that an executor is gone."""
    piece_seconds: float = 2e-6
    """What the driver does for one piece, the rows that one task sends to one other, where these pass through it."""
    put_dollars: float = 5e-6
    get_dollars: float = 4e-7

    @property
    def partitions(self) -> int:
        return self.executors * self.cores


def fitted(records: Iterable[Mapping[str, Any]], query: str) -> QueryCost:
    """The costs of a query from its measurements."""
    mine = [r for r in records if r.get("query") == query and r.get("status") == "ok"]
    batches = [r for r in mine if r.get("what") == "refresh" and r.get("mode") == "arrow"]
    large = [r for r in batches if r["batch"] >= LARGE_BATCH]
    if not large:
        raise ValueError(f"there is no batch of {LARGE_BATCH} changes of {query} among the measurements")
    stages = max(r["stages"] for r in batches)
    per_row = [MEASURED_CORES * max(r["seconds"] - Machine().job_seconds * stages, 0.0) / r["batch"] for r in large]
    rows = {r["scale"]: sum(r["rows"].values()) for r in mine if r.get("what") == "load"}
    return QueryCost(
        query,
        stages,
        median(per_row),
        median(r["moved_bytes"] / r["batch"] for r in large),
        max(r["state_bytes"] / rows[r["scale"]] for r in batches),
    )


def measurements(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
