"""View trees on Spark: how long a load and batches of a COFACTOR view take, and reading a FACTORIZED one.

    python -m bench.rings_spark                      # into docs/benchmarks/rings.jsonl and rings.md
    python -m bench.rings_spark --rows 200000 --large 50000 --label before

Sales join items and shops. Frames are read from Parquet. `fresh workers` is a batch whose workers have nothing of the
state in their memory, as after a failure or a change of their number: they have to find it again.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from bench.rings_record import OUT, Recorder, recording

ITEMS, SHOPS = 20_000, 500
SCHEMA = """
CREATE STREAM sales (shop BIGINT NOT NULL, item BIGINT NOT NULL, units INTEGER NOT NULL, paid DOUBLE NOT NULL);
CREATE STREAM items (item BIGINT NOT NULL, price DOUBLE NOT NULL, weight DOUBLE NOT NULL);
CREATE STREAM shops (shop BIGINT NOT NULL, area DOUBLE NOT NULL);
"""
JOIN = "FROM sales NATURAL JOIN items NATURAL JOIN shops"
COFACTOR = f"CREATE MATERIALIZED VIEW v AS SELECT COFACTOR(units, paid, price, weight, area) {JOIN}"
FACTORISED = f"CREATE MATERIALIZED VIEW v AS SELECT FACTORIZED * {JOIN}"
SMALL = 10_000


def main(
    rows: Annotated[int, typer.Option(help="rows of sales that are loaded")] = 2_000_000,
    large: Annotated[int, typer.Option(help="rows of a large batch")] = 1_000_000,
    repeats: Annotated[int, typer.Option(help="batches of a measurement; the median counts")] = 5,
    partitions: Annotated[int, typer.Option(help="partitions of the state")] = 2,
    master: Annotated[str, typer.Option(help="where Spark runs")] = "local[2]",
    label: Annotated[str, typer.Option(help="what the records call this version")] = "now",
    out: Annotated[Path, typer.Option(help="where results go")] = OUT,
) -> None:
    """Measure, and write JSON lines and the page; what other versions were measured as stays."""
    import viewlet
    from bench.rings_record import read

    others = [known for known in read(out) if known["bench"] == "spark" and known.get("version") not in (None, label)]
    settings = {"rows": rows, "partitions": partitions, "items": ITEMS, "shops": SHOPS, "master": master}
    with recording("spark", out, calibrated=False, **settings) as recorder, tempfile.TemporaryDirectory() as scratch:
        recorder.found += others
        os.environ["VIEWLET_STATE"] = f"{scratch}/state"
        spark = viewlet.spark_session(master, **{"spark.driver.memory": "3g"})
        run = Run(recorder, spark, Path(scratch), label, partitions, repeats)
        run.cofactor(rows, large)
        run.factorised(rows // 10)
        spark.stop()


class Run:
    """Measurements of one version in one session."""

    def __init__(self, recorder: Recorder, spark: Any, folder: Path, label: str, partitions: int, repeats: int) -> None:
        self._recorder, self._spark, self._folder = recorder, spark, folder
        self._label, self._partitions, self._repeats = label, partitions, repeats
        self._files = 0

    def _note(self, what: str, rows: int, costs: Sequence[Cost]) -> None:
        clock, cpu = ([round(each, 3) for each in column] for column in zip(*costs, strict=True))
        facts = {"rows": rows, "seconds": median(clock), "cpu_seconds": median(cpu), "runs": clock, "cpu_runs": cpu}
        self._recorder.add(version=self._label, what=what, load_average=round(os.getloadavg()[0], 1), **facts)

    def frame(self, columns: dict[str, Any]) -> Any:
        self._files += 1
        path = self._folder / f"{self._files}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=250_000)
        return self._spark.read.parquet(str(path))

    def sales(self, count: int) -> Any:
        random = np.random.default_rng(self._files)
        shop, item = random.integers(0, SHOPS, count), random.integers(0, ITEMS, count)
        units = random.integers(1, 20, count).astype(np.int32)
        return self.frame({"shop": shop, "item": item, "units": units, "paid": random.random(count)})

    def others(self) -> dict[str, Any]:
        random = np.random.default_rng(7)
        return {
            "items": pa.table(
                {"item": np.arange(ITEMS), "price": random.random(ITEMS), "weight": random.random(ITEMS)}
            ),
            "shops": pa.table({"shop": np.arange(SHOPS), "area": random.random(SHOPS)}),
        }

    def _connected(self, name: str, view: str) -> Any:
        import viewlet

        db = viewlet.connect(spark=self._spark, checkpoint=self._folder / name, partitions=self._partitions)
        db.execute(SCHEMA)
        db.expect_rows({"sales": 1e7, "items": ITEMS, "shops": SHOPS})
        db.execute(view)
        return db

    def cofactor(self, rows: int, large: int) -> None:
        with self._connected("cofactor", COFACTOR) as db:
            db.apply(self.others())
            whole = self.sales(rows)
            self._note("load", rows, [clocked(lambda: db.apply({"sales": whole}))])
            for size in (SMALL, large):
                batches = [self.sales(size) for _ in range(self._repeats)]
                db.apply({"sales": batches[0]})
                found = [clocked(lambda batch=batch: db.apply({"sales": batch})) for batch in batches[1:]]  # type: ignore[misc]
                self._note("batch", size, found)
            count = db.view("v").cofactor().count
            assert count == rows + self._repeats * (SMALL + large), count
            fresh = []
            for _ in range(3):
                batch = self.sales(SMALL)
                self._spark.sparkContext.parallelize(range(4), 4).mapPartitions(_forgotten).collect()
                fresh.append(clocked(lambda batch=batch: db.apply({"sales": batch})))  # type: ignore[misc]
            self._note("fresh workers", SMALL, fresh)
            expected = count + 3 * SMALL
            assert db.view("v").cofactor().count == expected

    def factorised(self, rows: int) -> None:
        with self._connected("factorised", FACTORISED) as db:
            db.apply(self.others())
            whole = self.sales(rows)
            self._note("factorised load", rows, [clocked(lambda: db.apply({"sales": whole}))])
            scan = lambda: db.view("v").to_spark().write.format("noop").mode("overwrite").save()  # noqa: E731
            found = [clocked(scan) for _ in range(3)]
            self._note("factorised scan", rows, found)


Cost = tuple[float, float]
"""Seconds by the clock, and of CPU by all processes of the session."""


def clocked(work: Callable[[], object]) -> Cost:
    started, used = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - started, cpu_seconds() - used


def cpu_seconds() -> float:
    """What this process and all below it have used: driver, Java and Python workers."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {process for process, (parent, _) in found.items() if parent in below} - below:
        below |= more
    return sum(found[process][1] for process in below if process in found) / os.sysconf("SC_CLK_TCK")


def _forgotten(_: object) -> Iterator[None]:
    """What a worker has in its own memory is gone, as if it had just been started."""
    from viewlet.spark.run.state.partition import forget

    forget()
    time.sleep(0.5)  # so that each worker gets one of these tasks
    return iter(())


if __name__ == "__main__":
    typer.run(main)
