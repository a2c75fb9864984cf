"""Views on Spark against Spark SQL that recomputes the same queries, in one session.

    python -m bench.spark_run --quick
    python -m bench.spark_run --scales 1 --batches 1000,10000
    python -m bench.spark_run --scales 5 --queries q01,q03,q05,q10,q18
    python -m bench.spark_run --scales 0.1,1,5 --queries q01,q03,q05,q18 --batches 1000,10000,100000,1000000

Measurements are added to a file as they are made. One that is there already is not made again, unless it is asked for
with --again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import records
from bench.records import Record
from bench.run import ROOT, WORKLOADS, caches, machine_facts, names
from bench.sources import find_query
from bench.spark_changes import possible, sizes_of
from bench.spark_report import FILE, identity, read, write
from bench.spark_views import Plan, measured_view, recomputed
from workloads.query import NamedQuery
from workloads.tpch import load_tpch

QUICK = "0.01", "q01,q03,q06", "1000", 3


def main(
    scales: Annotated[str, typer.Option(help="TPC-H scale factors")] = "1",
    queries: Annotated[str, typer.Option(help="q01,q03,... in this order; all when empty")] = "",
    batches: Annotated[str, typer.Option(help="changes per batch")] = "1000,10000",
    modes: Annotated[str, typer.Option(help="arrow: handed in at the driver; frames: as data frames")] = "arrow,frames",
    repeats: Annotated[int, typer.Option(help="batches per measurement")] = 7,
    recomputations: Annotated[int, typer.Option(help="runs of Spark SQL, after a first one; 0 for none")] = 3,
    partitions: Annotated[int, typer.Option(help="partitions of the state")] = 2,
    master: Annotated[str, typer.Option(help="where Spark runs")] = "local[2]",
    memory: Annotated[str, typer.Option(help="memory of the Java process")] = "6g",
    minutes: Annotated[float, typer.Option(help="after so many, no further query is begun")] = 1e9,
    data: Annotated[Path, typer.Option(help="where generated tables are kept")] = ROOT / "bench" / "results" / "data",
    out: Annotated[Path, typer.Option(help="where results go")] = ROOT / "docs" / "benchmarks",
    again: Annotated[bool, typer.Option(help="measure what has been measured, too")] = False,
    quick: Annotated[bool, typer.Option(help="three queries at scale 0.01, without plots")] = False,
) -> None:
    """Measure, and write tables, plots and JSON lines."""
    if quick:
        scales, queries, batches, repeats = QUICK
    chosen = [find_query("tpch", name) for name in names(queries) or WORKLOADS["tpch"]]
    plan = Plan(tuple(sorted(map(int, names(batches)))), tuple(names(modes)), repeats, partitions)
    until = time.monotonic() + 60 * minutes
    with Runs(out / FILE, master, memory, data, again) as runs:
        for scale in map(float, names(scales)):
            for query in chosen:
                if time.monotonic() < until:
                    runs.measure(scale, query, plan, recomputations)
    print(f"wrote {write(out / FILE, plots=not quick)}")


class Runs:
    """A session, started when something is to be measured, and the file that measurements go to."""

    def __init__(self, file: Path, master: str, memory: str, data: Path, again: bool) -> None:
        self._file, self._master, self._memory, self._data = file, master, memory, data
        self._known = set() if again else {identity(record) for record in read(file) if record["status"] == "ok"}
        self._run = time.strftime("%Y%m%dT%H%M%S")
        self._scratch = Path(tempfile.mkdtemp(prefix="viewlet-bench-"))
        self._spark: Any = None

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._spark is not None:
            self._spark.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def measure(self, scale: float, query: NamedQuery, plan: Plan, recomputations: int) -> None:
        """What is not known yet of a query."""
        subject: Record = {"kind": "measurement", "scale": scale, "query": query.name}
        files = load_tpch(scale, self._data)
        rows = sizes_of(query, files)
        sizes = tuple(s for s in plan.sizes if possible(rows, s) and self._is_missing(subject, s, plan.modes))
        if recomputations and identity(subject | {"what": "recompute"}) not in self._known:
            self._note(subject, self._recomputed(files, query, recomputations))
        if sizes:
            some = Plan(sizes, plan.modes, plan.repeats, plan.partitions)
            state = self._state / query.name
            os.environ["VIEWLET_STATE"] = str(state)
            work = self._scratch / query.name
            work.mkdir()
            self._note(subject | {"partitions": plan.partitions},
                       measured_view(self.session, files, query, some, work, state))  # fmt: skip
            shutil.rmtree(work, ignore_errors=True)

    def _is_missing(self, subject: Record, size: int, modes: tuple[str, ...]) -> bool:
        wanted = [subject | {"what": "refresh", "batch": size, "mode": mode} for mode in modes]
        return any(identity(record) not in self._known for record in wanted)

    def _recomputed(self, files: dict[str, Path], query: NamedQuery, times: int) -> Iterator[Record]:
        yield {"what": "recompute"} | recomputed(self.session, files, query, times)

    def _note(self, subject: Record, found: Iterator[Record]) -> None:
        """Appends measurements as they come; an error is one too, and ends them."""
        subject = subject | {"run": self._run}
        try:
            for record in found:
                self._append(subject | {"status": "ok"} | record)
        except Exception as error:
            traceback.print_exc()
            self._append(
                subject | {"what": "error", "status": "error", "note": f"{type(error).__name__}: {error}"[:500]}
            )

    def _append(self, record: Record) -> None:
        records.append(self._file, record)
        print(line(record), flush=True)

    @property
    def _state(self) -> Path:
        return self._scratch / "state"

    @property
    def session(self) -> Any:
        """Python workers inherit the environment of the time when it is started."""
        if self._spark is None:
            os.environ.update(caches())
            import viewlet

            self._spark = viewlet.spark_session(self._master, **{"spark.driver.memory": self._memory})
            facts = {"kind": "machine", "run": self._run, "master": self._master, "memory": self._memory}
            records.append(self._file, facts | machine_facts() | {"spark": version("pyspark")})
        return self._spark


def line(record: Record) -> str:
    """A measurement for the eyes of whoever waits."""
    head = f"SF {record['scale']:g} {record['query']} {record['what']}"
    match record["what"]:
        case "recompute":
            return f"{head}: {record['seconds']} s"
        case "load":
            return f"{head}: {record['load_seconds']} s, {record['state_rows']:,} rows of state"
        case "refresh":
            batch = f"{head} {record['batch']:,} as {record['mode']}: {record['seconds']} s"
            other = f"first {record['first_batch_seconds']} s, read {record['read_seconds']} s"
            return f"{batch}, {record['stages']} stages, {other}, empty job {record['empty_seconds']} s"
        case "check":
            return f"{head}: {'right' if record['correct'] else 'WRONG ANSWER'}"
        case _:
            return f"{head}: {record.get('note', '')}"


if __name__ == "__main__":
    typer.run(main)
