"""Views on Spark, measured: batches, reading and bytes, and Spark SQL recomputing the same query beside them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench.records import Record
from bench.spark_changes import Batch, ChangeStream, change_stream, sizes_of
from bench.spark_check import same_answer
from viewlet.runtime.durable.compression import unpacked
from viewlet.spark.run.units import batch_file
from workloads import tpch
from workloads.query import NamedQuery

VIEW = "answer"
WORD = 8
ARROW, FRAMES = "arrow", "frames"
COUNTED = ("stages", "moved_bytes", "log_bytes", "undo_bytes", "changed_rows", "packed_bytes", "state_rows",
           "state_bytes")  # fmt: skip
READS = 3
"""Batches of a measurement after which the view is read, too."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure of a query."""

    sizes: tuple[int, ...]
    modes: tuple[str, ...]
    repeats: int
    partitions: int

    def batches(self) -> dict[int, int]:
        """How many batches of each size that takes, the first of a mode included."""
        return {size: len(self.modes) * (1 + self.repeats) for size in self.sizes}


def clocked(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def rounded(seconds: Iterable[float]) -> list[float]:
    return [round(each, 4) for each in seconds]


# Spark SQL alone


def recomputed(spark: Any, files: Mapping[str, Path], query: NamedQuery, repeats: int) -> Record:
    """A query over the whole files again and again, its answer brought to the driver; nothing is cached."""
    for name in sizes_of(query, files):
        spark.read.parquet(str(files[name])).createOrReplaceTempView(name)
    first = clocked(lambda: spark.sql(query.sql).toArrow())
    runs = [clocked(lambda: spark.sql(query.sql).toArrow()) for _ in range(repeats)]
    return {"first_seconds": round(first, 4), "seconds": round(median(runs), 4), "runs": rounded(runs)}


def empty_job(spark: Any) -> float:
    """A stage of one task per core that does nothing, in Python workers."""
    context = spark.sparkContext
    count = context.defaultParallelism
    return clocked(context.parallelize(range(count), count).mapPartitions(_nothing).collect)


def _nothing(rows: Iterable[int]) -> Iterator[int]:
    return iter(())


# Views


class MeasuredView:
    """A query as a view over streams, in directories of its own, loaded with all but the rows that were held back."""

    def __init__(
        self, spark: Any, files: Mapping[str, Path], query: NamedQuery, plan: Plan, scratch: Path, state: Path
    ) -> None:
        import viewlet

        self.spark, self.files, self.query, self.plan = spark, files, query, plan
        self.checkpoint, self.scratch, self.state = scratch / "checkpoint", scratch, state
        self.sizes = sizes_of(query, files)
        self.stream: ChangeStream = change_stream(files, self.sizes, plan.batches())
        self.db: Any = viewlet.connect(
            spark=spark, checkpoint=self.checkpoint, engine="compiled", partitions=plan.partitions
        )
        self._number = 0

    def __enter__(self) -> MeasuredView:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)

    def load(self) -> Record:
        """Declares the view and fills it by Spark SQL."""
        for name in self.sizes:
            self.db.execute(tpch.TABLES[name].replace("CREATE TABLE", "CREATE STREAM"))
        self.db.expect_rows(self.sizes)
        declaring = clocked(lambda: self.db.execute(f"CREATE MATERIALIZED VIEW {VIEW} AS {self.query.sql}"))
        cuts = self.stream.cuts
        frames = {name: self._file(name, cuts[name].loaded if name in cuts else None) for name in self.sizes}
        loading = clocked(lambda: self.db.apply(frames))
        last = self._last()
        return {
            "declare_seconds": round(declaring, 3),
            "load_seconds": round(loading, 3),
            "rows": self.sizes,
            "state_rows": last["state_rows"],
            "state_bytes": last["state_bytes"],
            "loaded_by_sql": "load" in last["seconds"],
        }

    def _file(self, name: str, condition: str | None) -> Any:
        frame = self.spark.read.parquet(str(self.files[name]))
        return frame if condition is None else frame.where(condition)

    def _last(self) -> dict[str, Any]:
        known: dict[str, Any] = self.db.stats()["batches"][-1]
        return known

    def measure(self, size: int, mode: str) -> Record:
        """Batches of one size handed in one way, each after an empty job; the first one, which compiles, is apart."""
        first = clocked(self._prepared(size, mode))
        runs, empty, reading, growth, facts = [], [], [], [], []
        for number in range(self.plan.repeats):
            empty.append(empty_job(self.spark))
            apply = self._prepared(size, mode)
            before = bytes_in(self.checkpoint)
            runs.append(clocked(apply))
            growth.append(bytes_in(self.checkpoint) - before)
            facts.append(self._last() | self._changed())
            if number >= self.plan.repeats - READS:
                reading.append(clocked(self.db.view(VIEW).to_arrow))
        counts = {name: int(median(fact[name] for fact in facts)) for name in COUNTED}
        return counts | {
            "seconds": round(median(runs), 4),
            "runs": rounded(runs),
            "first_batch_seconds": round(first, 3),
            "read_seconds": round(median(reading), 4),
            "empty_seconds": round(median(empty), 4),
            "changes": self.stream.shares[size],
            "checkpoint_growth": int(median(growth)),
            "phases": _phases([fact["seconds"] for fact in facts]),
        }

    def _prepared(self, size: int, mode: str) -> Callable[[], object]:
        """The next batch, ready to be applied."""
        batch: Batch = self.stream.next(size)
        if mode == ARROW:
            return lambda: self.db.apply(batch)
        frames = {name: self._written(name, rows) for name, rows in batch.items()}
        return lambda: self.db.apply(frames)

    def _written(self, name: str, rows: Any) -> Any:
        """Rows as a data frame that reads them from a file."""
        self._number += 1
        path = self.scratch / f"{name}-{self._number}.parquet"
        pq.write_table(rows, path)
        return self.spark.read.parquet(str(path))

    def _changed(self) -> Record:
        """Rows of views that the last batch changed, their packed size, and what was written to take it back.

        Each partition leaves what it did to every view in a file; the driver remembers what it did to its own.
        """
        files = list(self.state.glob("*/*/*/done"))
        places = [batch_file.from_bytes(unpacked(path.read_bytes()))[1] for path in files]
        own = self.db._host.cluster._units[VIEW].node
        places += [own.done[0]] if hasattr(own, "done") else []
        rows = packed = 0
        for done in places:
            for keys, words in _touched(done):
                rows += keys
                packed += WORD * words * keys
        written = sum(path.stat().st_size for path in files)
        return {"changed_rows": rows, "packed_bytes": packed, "undo_bytes": written}

    def check(self) -> bool:
        """Whether the view is what Spark SQL makes of what was loaded and what has changed."""
        cuts = self.stream.cuts
        present = {name: self._written(name, rows) for name, rows in self.stream.present()}
        for name in self.sizes:
            frame = self._file(name, cuts[name].left_alone if name in cuts else None)
            (frame.unionByName(present[name]) if name in present else frame).createOrReplaceTempView(name)
        return same_answer(self.query, self.db.view(VIEW).to_arrow(), self.spark.sql(self.query.body).toArrow())


def _phases(batches: list[dict[str, float]]) -> dict[str, float]:
    names = sorted({name for batch in batches for name in batch})
    return {name: round(median(batch.get(name, 0.0) for batch in batches), 4) for name in names}


def _touched(done: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """For each view, how many rows some statement changed, and how many words such a row has."""
    keys: dict[str, list[Any]] = {}
    words: dict[str, int] = {}
    for name, contents, _ in done:
        if len(contents):
            columns = [np.asarray(column).view(np.int64) for column in contents.keys]
            keys.setdefault(name, []).append(np.column_stack(columns) if columns else np.zeros((1, 1), np.int64))
            words[name] = len(columns) + sum(len(number) for number in contents.numbers)
    for name, found in keys.items():
        yield len(np.unique(np.concatenate(found), axis=0)), words[name]


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured_view(
    spark: Any, files: Mapping[str, Path], query: NamedQuery, plan: Plan, scratch: Path, state: Path
) -> Iterator[Record]:
    """The load, every size in every mode, and whether the answer is right in the end, as soon as each is known."""
    with MeasuredView(spark, files, query, plan, scratch, state) as view:
        yield {"what": "load"} | view.load()
        for size in plan.sizes:
            for mode in plan.modes:
                yield {"what": "refresh", "batch": size, "mode": mode} | view.measure(size, mode)
        yield {"what": "check", "correct": view.check()}
