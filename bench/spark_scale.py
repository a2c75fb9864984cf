"""What grows with the data on Spark: rebuilding partitions, moves between stages, partitions that change executors.

    python -m bench.spark_scale                       # everything, into docs/benchmarks/spark.jsonl and spark.md
    python -m bench.spark_scale --parts rebuild       # without a JVM

`rebuild` counts the bytes that are read when all partitions are rebuilt from a log. `moves` sends incompressible bytes
from every task of a stage to every task of the next one, through the driver or through files, on a cluster of two
executors; peaks are those of the driver's processes above what they had before. `locality` counts the partitions that
run on another executor than in the stage before. `share` measures the mapped state of a view on each of one, two and
four executors, and what one has that takes over from another one that is killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import records
from bench.records import Record
from bench.run import ROOT
from bench.spark_report import FILE, write
from viewlet.spark.run.exchange.moves import INLINE_BYTES

PARTS = ("rebuild", "moves", "locality", "share")
MASTER = "local-cluster[2,1,2048]"
REBUILT = (25, 100)
ROWS, PARTITIONS = 2_000, 8
MEGABYTES = (1, 10, 50, 200)
TASKS = 4
ROUNDS = 20
EXECUTORS = (1, 2, 4)
GROUPS = 400_000
STREAM = "CREATE STREAM s (k BIGINT NOT NULL, x BIGINT NOT NULL)"
VIEW = "CREATE MATERIALIZED VIEW v PARTITION BY (k) AS SELECT k, COUNT(*) AS n, SUM(x) AS t FROM s GROUP BY k"


# -- rebuilding -------------------------------------------------------------------------------------------------------


class CountedFiles:
    """Files that count how often and how much is read from them."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self.reads = self.read_bytes = 0

    def read(self, name: str) -> bytes:
        return self._count(self._files.read(name))

    def read_part(self, name: str, start: int, size: int) -> bytes:
        return self._count(self._files.read_part(name, start, size))

    def _count(self, data: bytes) -> bytes:
        self.reads += 1
        self.read_bytes += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def rebuild(batches: int) -> Record:
    """The state of all partitions is lost after some batches, and read from the log."""
    import numpy as np
    import pyarrow as pa

    from viewlet.connection.spark_facade import connect_inline
    from viewlet.spark.run.execution.tasks import ReadViews
    from viewlet.spark.run.state import partition

    generator = np.random.default_rng(batches)
    with tempfile.TemporaryDirectory() as folder, connect_inline(folder, PARTITIONS, sync=False) as db:
        db.execute(f"{STREAM}; {VIEW}")
        for _ in range(batches):
            keys, numbers = generator.integers(0, 1 << 40, ROWS), generator.integers(0, 99, ROWS)
            db.apply({"s": pa.table({"k": keys, "x": numbers})})
        partition.forget()
        engine: Any = db._host.cluster
        files_of, counted = partition.files_of, CountedFiles(engine.checkpoint.files)
        partition.files_of = lambda checkpoint: counted
        started = time.process_time()
        try:
            engine.cluster.run(ReadViews(engine.context(), "v", ()), [None] * PARTITIONS, "rebuild")
        finally:
            partition.files_of = files_of
        seconds = time.process_time() - started
        known = engine.checkpoint.stats()
        partition.forget()
    logged, steps = known["log_bytes"], known["stages_since_snapshot"]
    read = {"reads": counted.reads, "read_bytes": counted.read_bytes, "cpu_seconds": round(seconds, 2)}
    return {"what": "rebuild", "batches": batches, "steps": steps, "partitions": PARTITIONS, "log_bytes": logged} | read


# -- moves ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """A task that sends so many bytes to each of the next ones."""

    directory: str
    size: int
    limit: int

    def __call__(self, number: int, _: object) -> list[Any]:
        from viewlet.runtime.durable.files import LocalFiles
        from viewlet.spark.run.exchange.moves import Outbox

        with Outbox(LocalFiles(Path(self.directory)), "moves-1", self.limit) as outbox:
            outbox.put(("unit", "target", target, os.urandom(self.size)) for target in range(TASKS))
        return outbox.pieces


@dataclass(frozen=True, slots=True)
class Receive:
    """A task that reads what it was sent; returns how much it was."""

    directory: str

    def __call__(self, number: int, sent: Sequence[Any]) -> int:
        from viewlet.runtime.durable.files import LocalFiles
        from viewlet.spark.run.exchange.moves import fetch

        return sum(map(len, fetch(LocalFiles(Path(self.directory)), sent)))


def move(cluster: Any, jvm: int, megabytes: int, mode: str, repeats: int) -> Record:
    """The quickest of some moves."""
    size = (megabytes << 20) // TASKS**2
    limit = 0 if mode == "files" else 1 << 40
    found: list[tuple[float, int, int]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder, Peak(os.getpid()) as python, Peak(jvm) as java:
            started = time.perf_counter()
            sent = [piece for part in cluster.run(Send(folder, size, limit), [None] * TASKS, "send") for piece in part]
            given = [[piece[3] for piece in sent if piece[2] == target] for target in range(TASKS)]
            received = cluster.run(Receive(folder), given, "receive")
            seconds = time.perf_counter() - started
        assert received == [TASKS * size] * TASKS
        found.append((seconds, python.megabytes, java.megabytes))
    seconds, python_peak, jvm_peak = min(found)
    peaks = {"python_megabytes": python_peak, "jvm_megabytes": jvm_peak}
    return {"what": "moves", "megabytes": megabytes, "mode": mode, "seconds": round(seconds, 2)} | peaks


class Peak:
    """How much more memory a process took for a while than before."""

    def __init__(self, process: int) -> None:
        self._process = Path(f"/proc/{process}")
        self._before = 0
        self.megabytes = 0

    def __enter__(self) -> Peak:
        (self._process / "clear_refs").write_text("5")
        self._before = self._status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.megabytes = max(0, self._status("VmHWM") - self._before) >> 10

    def _status(self, name: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])


# -- locality ---------------------------------------------------------------------------------------------------------


def executor(number: int, _: object) -> str:
    """Executors of a local cluster have their own working folders."""
    time.sleep(0.02)
    return os.getcwd()


def locality(cluster: Any, preferred: bool) -> Record:
    cluster._locality._is_on = preferred
    cluster.run(executor, [None] * PARTITIONS, "warm")
    started = time.perf_counter()
    places: list[list[str]] = [cluster.run(executor, [None] * PARTITIONS, "where") for _ in range(ROUNDS)]
    seconds = (time.perf_counter() - started) / ROUNDS
    moved = sum(old != new for one, other in pairwise(places) for old, new in zip(one, other, strict=True))
    chances = (ROUNDS - 1) * PARTITIONS
    facts = {"preferred": preferred, "moved": moved, "of": chances, "seconds_a_stage": round(seconds, 3)}
    return {"what": "locality", "executors": 2, "partitions": PARTITIONS} | facts


# -- shares -----------------------------------------------------------------------------------------------------------


def share(executors: int, groups: int, kill: bool) -> Record:
    """The mapped state of a view on each executor, after a load and some batches, in megabytes; the largest first."""
    import signal

    import viewlet

    with tempfile.TemporaryDirectory() as folder:
        spark = session(f"local-cluster[{executors},1,1024]", **{"spark.executorEnv.VIEWLET_STATE": "mapped"})
        work = Path(os.environ["SPARK_HOME"], "work", spark.sparkContext.applicationId)
        with viewlet.connect(spark=spark, checkpoint=f"{folder}/db", partitions=PARTITIONS, engine="compiled") as db:
            db.execute(f"{STREAM}; {VIEW}")
            db.insert("s", spark.range(groups).selectExpr("id AS k", "id % 97 AS x"))
            for number in range(3):
                db.insert("s", [(k, number) for k in range(0, groups, groups // 1000)])
            before = sorted(_mapped(work), reverse=True)
            if kill:
                found = next(path for path in Path("/proc").glob("[0-9]*") if _is_executor(path, str(work)))
                os.kill(int(found.name), signal.SIGKILL)
                db.insert("s", [(k, 5) for k in range(0, groups, groups // 1000)])
            after = sorted(_mapped(work), reverse=True)
            right = db.view("v").to_spark().selectExpr("SUM(n)").first()[0] == groups + (4 if kill else 3) * 1000
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    facts = {"executors": executors, "groups": groups, "killed": kill, "right": right}
    return {"what": "share", **facts, "megabytes": before, "megabytes_after": after}


def _mapped(work: Path) -> Iterator[float]:
    """What each executor has; executors have their own working folders."""
    for mapped in work.glob("*/mapped"):
        yield round(sum(path.stat().st_blocks * 512 for path in mapped.rglob("*") if path.is_file()) / 2**20, 1)


def _is_executor(process: Path, folder: str) -> bool:
    """A process of an executor that this program has started."""
    try:
        command = (process / "cmdline").read_bytes()
        return b"CoarseGrainedExecutorBackend" in command and os.readlink(process / "cwd").startswith(folder)
    except OSError:
        return False


def session(master: str, **settings: str) -> Any:
    import pyspark

    import viewlet

    os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__))
    passed = {"spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    memory = {"spark.executor.memory": "1g", "spark.driver.memory": "3g"}
    return viewlet.spark_session(master, **passed, **memory, **settings)


# -- all of it --------------------------------------------------------------------------------------------------------


def measured(parts: Sequence[str]) -> Iterator[Record]:
    if "rebuild" in parts:
        for batches in REBUILT:
            yield rebuild(batches)
    if "moves" in parts or "locality" in parts:
        yield from on_cluster(parts)
    if "share" in parts:
        yield from (share(executors, GROUPS, kill=False) for executors in EXECUTORS)
        yield share(2, GROUPS, kill=True)


def on_cluster(parts: Sequence[str]) -> Iterator[Record]:
    from viewlet.spark.run.execution.cluster import SparkCluster

    spark = session(MASTER)
    cluster, jvm = SparkCluster(spark), spark.sparkContext._gateway.proc.pid
    cluster.run(executor, [None] * PARTITIONS, "start")
    if "locality" in parts:
        yield from (locality(cluster, preferred) for preferred in (False, True))
    if "moves" in parts:
        for megabytes in MEGABYTES:
            for mode in ("driver", "files"):
                yield move(cluster, jvm, megabytes, mode, 3 if megabytes < 50 else 1)
    spark.stop()


def main(tell: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--file", type=Path, default=ROOT / "docs" / "benchmarks" / FILE)
    asked = parser.parse_args()
    run = time.strftime("%Y%m%dT%H%M%S")
    for record in measured(asked.parts.split(",")):
        load = round(os.getloadavg()[0], 1)
        facts = {"kind": "scale", "run": run, "inline_bytes": INLINE_BYTES, "load": load, **record}
        tell(str(record))
        records.append(asked.file, facts)
    write(asked.file)


if __name__ == "__main__":
    main()
