"""Kills a process at every step of the maintenance of stream views, on a host of parts, and opens the database again.

    python -m bench.stream_kills --host duckdb
    python -m bench.stream_kills --host postgres                     # on a cluster of its own, or --server "host=..."
    python -m bench.stream_kills --host spark --new 1                # the children share a JVM, which outlives them
    python -m bench.stream_kills --host spark --whole --every 40     # every child has a JVM, which dies with it

A child process applies a late batch, a delete and new parts, and kills itself (SIGKILL) at a step: before or after a
call of its host (`load`, `create`, `commit`, ...), before a statement that it sends to DuckDB or PostgreSQL, or before
it renames or removes a folder of parts on Spark. The database is opened again, has to be as before or after the batch,
continues, and has to agree with one in memory that was never killed; the host has to have the tables that the
catalogue names, and no others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import viewlet
from tests.streams.postgres import cluster
from viewlet.streams import DuckDBHost, PartHost, PostgresHost, SparkSqlHost

STATEMENTS = (
    """CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts
       LATENESS INTERVAL '1' HOUR ROLLUP INTERVAL '3' MINUTES AFTER INTERVAL '4' MINUTES""",
    """CREATE VIEW runs AS INITIALIZE runs[i] AS SELECT g, 1 AS n FROM m[i] WHERE x > 10 UPDATE runs[j] AS
       SELECT m.g, COALESCE(n, 0) + 1 FROM m[j] LEFT JOIN runs[j-1] ON m.g = runs.g WHERE x > 10""",
    "CREATE VIEW sums AS SELECT g, SUM(x) AS x FROM m [WINDOW 5 MINUTES] GROUP BY g",
    "CREATE VIEW most AS SELECT g, MAX(x) AS x FROM m [WINDOW 3 MINUTES] GROUP BY g",
    """CREATE VIEW visits AS SELECT g, window_start, COUNT(*) AS n FROM SESSION(m PARTITION BY g, INTERVAL '70' SECONDS)
       GROUP BY g, window_start""",
)
VIEWS = ("runs", "sums", "most", "visits")
STEPS = ("load", "create", "start", "settle", "create_all", "create_over", "commit")
STATEMENTS_OF = {"duckdb": ("_execute", "_run"), "postgres": ("_post",), "spark": ("_sql",)}
"""What a host calls for each statement."""


def at(second: int) -> datetime:
    return datetime(2015, 1, 1, 10) + timedelta(seconds=second)


def batches(new: int) -> list[list[dict[str, Any]]]:
    """Rows in order first; then a late batch with a delete, and so many new parts."""

    def row(second: int, g: str, x: int, times: int = 1) -> dict[str, Any]:
        return {"ts": at(second), "g": g, "x": x, "_multiplicity": times}

    before = [[row(60 * minute + 5, "a", 12), row(60 * minute + 7, "b", minute)] for minute in range(6)]
    late = [row(70, "b", 40), row(125, "a", 12, -1)]
    return [*before, late, [row(60 * minute, "a", 11) for minute in range(6, 6 + new)]]


KILLED = 2
"""The last batches, in which the child is killed."""


def statements(views: str) -> list[str]:
    """The stream, and the views that are named."""
    return [STATEMENTS[0], *(each for each in STATEMENTS[1:] if each.split()[2] in views.split(","))]


def make_host(kind: str, place: Path, server: str) -> PartHost:
    if kind == "duckdb":
        return DuckDBHost(str(place / "parts.duckdb"))
    if kind == "postgres":
        return PostgresHost(server)
    return SparkSqlHost(session().newSession(), place / "parts")


def session() -> Any:
    """The session of this process; on the JVM of its parent, if that lends it."""
    options = {
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    }
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return viewlet.spark_session("local[1]", **options)
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        gateway = launch_gateway()
        spark = gateway.jvm.org.apache.spark
        java = spark.api.java.JavaSparkContext.fromSparkContext(spark.SparkContext.getOrCreate())
        SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jvm=gateway.jvm, _jconf=java.getConf()))
    return SparkSession(SparkContext._active_spark_context)


def lent() -> dict[str, str]:
    """What a child has to know to share the JVM of this process."""
    parameters = session().sparkContext._gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}


def end_jobs() -> None:
    """Ends the jobs of a child that was killed: they would have died with its own JVM."""
    context = session().sparkContext
    while context.statusTracker().getActiveJobsIds():
        context.cancelAllJobs()
        time.sleep(0.1)


class Countdown:
    """A host that ends the process at one of its steps, each of which is counted before and after it."""

    def __init__(self, host: Any, step: int, statements: tuple[str, ...]) -> None:
        self._host, self._left = host, step
        self.steps = 0
        for name in statements:
            setattr(host, name, self._counted(getattr(host, name)))
        for place, name in ((Path, "rename"), (shutil, "rmtree")):
            if isinstance(host, SparkSqlHost):
                setattr(place, name, self._counted(getattr(place, name)))

    def _counted(self, call: Any) -> Any:
        """A call before which the process may end."""

        def run(*arguments: Any, **named: Any) -> Any:
            self._count()
            return call(*arguments, **named)

        return run

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._host, name)
        if name not in STEPS:
            return found

        def run(*arguments: Any) -> Any:
            self._count()
            answer = found(*arguments)
            self._count()
            return answer

        return run

    def _count(self) -> None:
        self.steps += 1
        if self.steps == self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def child(kind: str, place: Path, server: str, step: int, new: int) -> None:
    """Applies the last batches, and is killed at a step; prints how many there are if it was not."""
    db = viewlet.connect(place / "db", streams=make_host(kind, place, server))
    warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
    counted = Countdown(warehouse.host, step, STATEMENTS_OF[kind])
    warehouse.host = warehouse.maintainer.host = counted
    for batch in batches(new)[db.epoch :]:
        db.apply({"m": batch})
    print(f"steps {counted.steps}")
    db.close()


def contents(db: viewlet.Connection) -> dict[str, Any]:
    return {name: sorted(db.view(name).rows(), key=repr) for name in VIEWS if name in db.views}


def expected_contents(views: str, new: int) -> list[dict[str, Any]]:
    """The views after every batch, in memory."""
    db = viewlet.connect()
    for statement in statements(views):
        db.execute(statement)
    found = [contents(db)]
    for batch in batches(new):
        db.apply({"m": batch})
        found.append(contents(db))
    return found


def prepare(kind: str, place: Path, server: str, views: str, new: int) -> None:
    """A database with all batches but the last ones."""
    place.mkdir()
    with viewlet.connect(place / "db", streams=make_host(kind, place, server)) as db:
        for statement in statements(views):
            db.execute(statement)
        for batch in batches(new)[:-KILLED]:
            db.apply({"m": batch})


def check(kind: str, place: Path, server: str, expected: list[dict[str, Any]], new: int) -> int:
    """Opens what a kill has left; returns the number of batches that it had."""
    host = make_host(kind, place, server)
    with viewlet.connect(place / "db", streams=host) as db:
        epoch = db.epoch
        assert contents(db) == expected[epoch], f"the views after batch {epoch} differ"
        for batch in batches(new)[epoch:]:
            db.apply({"m": batch})
        assert contents(db) == expected[-1], "the views after the last batch differ"
        warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
        named = set(map(host.source, warehouse.catalogue.uses))
        assert named == {host.source(table) for table in host.tables()}, "tables that the catalogue does not name"
    return epoch


def copy_of(kind: str, base: Path, server: str, number: int) -> tuple[Path, str]:
    """What a child works on."""
    place = base.parent / f"copy{number}"
    shutil.copytree(base, place)
    if kind != "postgres":
        return place, server
    name = f"copy{number}"
    _run_sql(server, f"CREATE DATABASE {name} TEMPLATE base")
    return place, f"{server} dbname={name}"


def _run_sql(server: str, statement: str) -> None:
    subprocess.run(["psql", "-X", "-q", "-d", f"{server} dbname=postgres", "-c", statement], check=True)


def run_child(
    kind: str, place: Path, server: str, step: int, new: int, shared: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.stream_kills", "--host", kind, "--server", server, "--child", str(place)]
    command[5:5] = ["--new", str(new)]
    return subprocess.run(
        [*command, str(step)], capture_output=True, text=True, timeout=600, env={**os.environ, **shared}
    )


def kill_at_every_step(kind: str, server: str, first: int, every: int, views: str, new: int, is_whole: bool) -> str:
    started, outcomes = time.monotonic(), Counter[int]()
    folder = Path(tempfile.mkdtemp(prefix="viewlet-kills-"))
    base, shared = folder / "base", lent() if kind == "spark" and not is_whole else {}
    if kind == "postgres":
        _run_sql(server, "CREATE DATABASE base")
    try:
        prepare(kind, base, f"{server} dbname=base" if kind == "postgres" else server, views, new)
        expected = expected_contents(views, new)
        whole = run_child(kind, *copy_of(kind, base, server, 0), -1, new, shared)
        assert whole.returncode == 0, whole.stderr
        steps = int(whole.stdout.split()[-1])
        for step in range(first, steps + 1, every):
            place, named = copy_of(kind, base, server, step)
            done = run_child(kind, place, named, step, new, shared)
            assert done.returncode == -signal.SIGKILL, (step, done.returncode, done.stderr)
            if shared:
                end_jobs()
            try:
                outcomes[check(kind, place, named, expected, new)] += 1
            except BaseException:
                print(f"killed at step {step}", flush=True)
                raise
            print(f"step {step} of {steps} is right", file=sys.stderr, flush=True)
            shutil.rmtree(place)
            if kind == "postgres":
                _run_sql(server, f"DROP DATABASE copy{step}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    before = len(batches(new)) - KILLED
    shares = ", ".join(
        f"{count} with {epoch - before} of {KILLED} batches" for epoch, count in sorted(outcomes.items())
    )
    kills, spent = sum(outcomes.values()), time.monotonic() - started
    return f"{kind}: {kills} kills at {steps} steps ({shares}), all right; {spent:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", choices=["duckdb", "postgres", "spark"], default="duckdb")
    parser.add_argument("--server", default="", help="what psql connects with, without a database")
    parser.add_argument("--every", type=int, default=1, help="kill at every n-th step only")
    parser.add_argument("--first", type=int, default=1, help="the first step to kill at")
    parser.add_argument("--views", default=",".join(VIEWS))
    parser.add_argument("--new", type=int, default=3, help="new parts of the last batch")
    parser.add_argument("--whole", action="store_true", help="on Spark, kill Java with each child")
    parser.add_argument("--child", nargs=2, metavar=("PLACE", "STEP"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.host, Path(options.child[0]), options.server, int(options.child[1]), options.new)
        return
    with ExitStack() as stack:
        server = options.server
        if options.host == "postgres" and not server:
            server = stack.enter_context(cluster()).replace("dbname=postgres", "")
        print(
            kill_at_every_step(
                options.host, server, options.first, options.every, options.views, options.new, options.whole
            )
        )


if __name__ == "__main__":
    main()
