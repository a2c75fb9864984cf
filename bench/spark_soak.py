"""Kills drivers, executors and Python workers at random while batches are applied on Spark, and checks what is left.

    python -m bench.spark_soak --kills 100
    python -m bench.spark_soak --kills 100 --moves    # everything moves through files, and partitions come and go
    python -m bench.spark_soak --kills 20 --record docs/benchmarks/spark-kills.md      # adds to the page

A driver applies batch after batch, which are a function of their number alone, and says so. Something is killed for
good (SIGKILL) at a random moment; then the views and tables, as the driver that survived or its successor sees them,
are compared with DuckDB, which was given every batch up to the epoch found. Every batch that was acknowledged must be
there, at most one more, and none twice. Half of the kills hit views on generated code, half of them those that are
evaluated. Only processes that this program has started are killed.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import os
import pickle
import queue
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.kill_soak import TABLES, Account, _sorted, batch

VIEWS = {
    "spend": "SELECT customer, SUM(price) AS total, COUNT(*) AS n FROM orders GROUP BY customer",
    "sold": "SELECT part, customer, SUM(quantity) AS q FROM orders JOIN line USING (k) GROUP BY part, customer",
    "active": "SELECT customer, SUM(seconds) AS s, COUNT(*) AS n FROM click GROUP BY customer",
    "partial": (
        "SELECT l.part, COUNT(*) AS n FROM line l "
        "WHERE l.quantity < (SELECT SUM(m.quantity) FROM line m WHERE m.k = l.k) GROUP BY l.part"
    ),
}
READABLE = ("orders", "line")
EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.worker"
KINDS = ("driver", "executor", "executor", "worker", "worker")
PARTITIONS = 3
SNAPSHOT_EVERY = 20
REPARTITION_EVERY = 4
PATIENCE = 900.0
"""Seconds after which a driver that does not answer counts as stuck."""
CHECK = "check\n"


# -- the driver that gets killed --------------------------------------------------------------------------------------


def drive(directory: str, master: str, engine: str, moves: bool) -> None:
    """Applies batches until it is killed; tells each epoch, and what it sees when it is asked.

    With `moves` every stage writes what it sends to files, tasks write the changes of a view, and every few batches the
    state is spread over another number of partitions.
    """
    db, frame = _connect(directory, master, engine)
    if moves:
        db._host.cluster.inline_bytes = 0
    for name, sql in TABLES.items():
        if name not in db.tables:
            db.execute(sql)
    for name, sql in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {sql}")
    if moves:
        db.changes("sold")
    if db.epoch:
        db.apply(batch(db.epoch), batch_id=db.epoch)  # committed before: must do nothing
    print("ready", db.epoch, flush=True)
    while True:
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            print(_answer(db), flush=True)
        epoch = db.epoch + 1
        rows = batch(epoch)
        if epoch % 3 == 0:
            rows = {name: frame(name, many) for name, many in rows.items()}
        print(db.apply(rows, batch_id=epoch), flush=True)
        if epoch % SNAPSHOT_EVERY == 0:
            db.checkpoint()
        if moves and epoch % REPARTITION_EVERY == 0:
            db.repartition(PARTITIONS + epoch // REPARTITION_EVERY % 3 - 1)


def _answer(db: Any) -> str:
    """The epoch, and the rows of everything."""
    found = {name: _rows(db.view(name)) for name in VIEWS} | {name: _rows(db.table(name)) for name in READABLE}
    return f"{CHECK.strip()} {base64.b64encode(pickle.dumps((db.epoch, found))).decode()}"


def _rows(view: Any) -> list[tuple[Any, ...]]:
    return _sorted([tuple(row.values()) for row in view.to_arrow().to_pylist()])


def _connect(directory: str, master: str, engine: str) -> tuple[Any, Any]:
    if master == "inline":
        from viewlet.connection.spark_facade import connect_inline

        return connect_inline(directory, _partitions(directory), engine=engine), lambda table, rows: rows
    import viewlet

    passed = {name: os.environ[name] for name in ("VIEWLET_JIT", "PYTHONPATH") if name in os.environ}
    settings = {f"spark.executorEnv.{name}": value for name, value in passed.items()}
    spark = viewlet.spark_session(master, **settings, **{"spark.executor.memory": "512m"})
    types = {
        "orders": "k bigint, customer string, price bigint",
        "line": "k bigint, part bigint, quantity decimal(9,2)",
        "click": "customer string, seconds bigint",
    }

    def frame(table: str, rows: list[dict[str, Any]]) -> Any:
        from decimal import Decimal

        plain = [{**row, "quantity": Decimal(row["quantity"])} if "quantity" in row else row for row in rows]
        return spark.createDataFrame(plain, f"{types[table]}, _multiplicity bigint")

    return viewlet.connect(spark=spark, checkpoint=directory, partitions=_partitions(directory), engine=engine), frame


def _partitions(directory: str) -> int:
    """What the checkpoint has, if there is one."""
    from viewlet.hosts.spark import SETUP
    from viewlet.spark.run.state.checkpoint import Checkpoint

    asked = Checkpoint(directory)
    found = asked.setup(SETUP)
    asked.close()
    return found or PARTITIONS


# -- the killer ------------------------------------------------------------------------------------------------------


class Driver:
    """A driver in a process of its own."""

    def __init__(self, home: Path, master: str, engine: str, moves: bool = False) -> None:
        command = [sys.executable, "-m", "bench.spark_soak", "--child", str(home / "state")]
        root = Path(__file__).parents[1]
        paths = [str(root / "src"), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {"VIEWLET_JIT": "0", **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        environment["VIEWLET_STATE"] = str(home / "mapped")
        pyspark = importlib.util.find_spec("pyspark")
        if pyspark is not None and pyspark.origin is not None:
            environment["SPARK_HOME"] = str(Path(pyspark.origin).parent)  # where `local-cluster` finds its programs
        self._errors = home / "errors"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*command, "--master", master, "--engine", engine, *(["--moves"] if moves else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=root,
                env=environment,
            )
        self.acknowledged: int | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # a line that a kill has cut short says nothing
                self._lines.put(line.strip())
        self._lines.put(None)

    def wait_for(self, word: str) -> str:
        """The next line that begins with a word; those before it tell what has been acknowledged."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise SystemExit(f"the driver is stuck: {self._errors.read_text()[-4000:]}") from None
            if line is None:
                raise SystemExit(f"the driver ended by itself: {self._errors.read_text()[-4000:]}")
            if line.isdigit():
                self.acknowledged = int(line)
            if line.startswith(word):
                return line

    def ask(self) -> tuple[int, dict[str, list[tuple[Any, ...]]]]:
        """Its epoch, and all rows."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(CHECK)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # what it has to say is among its errors
        found: tuple[int, dict[str, list[tuple[Any, ...]]]]
        found = pickle.loads(base64.b64decode(self.wait_for(CHECK.strip()).split()[1]))
        return found

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        while (line := self._lines.get()) is not None:
            if line.isdigit():
                self.acknowledged = int(line)


def descendants(pid: int, word: str = "") -> list[int]:
    """Processes below one of ours whose command line has a word in it."""
    parents: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                commands[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        waiting += below
        found += [each for each in below if word in commands[each]]
    return found


@dataclass(slots=True)
class Figures:
    """What was killed, and how long it took until everything was there again."""

    engine: str
    killed: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    batches: int = 0

    def line(self) -> str:
        kinds = ", ".join(f"{len(self.seconds.get(kind, ()))} {kind}s" for kind in ("driver", "executor", "worker"))
        return f"{self.engine}: {kinds} killed over {self.batches} batches; no row lost, none twice"


@dataclass(slots=True)
class Soak:
    home: Path
    master: str
    engine: str
    seed: int
    pause: tuple[float, float] = (0.0, 3.0)
    moves: bool = False
    account: Account = field(default_factory=Account)
    figures: Figures = field(init=False)

    def __post_init__(self) -> None:
        self.figures = Figures(self.engine)

    def run(self, kills: int, verbose: bool = False) -> Figures:
        """Kills so often, and checks each time; a difference ends the program."""
        rng, figures = random.Random(self.seed), self.figures
        driver, known = Driver(self.home, self.master, self.engine, self.moves), 0
        remains: set[int] = set()
        try:
            driver.wait_for("ready")
            while sum(figures.killed.values()) < kills:
                time.sleep(rng.uniform(*self.pause))
                kind = "driver" if self.master == "inline" else rng.choice(KINDS)
                remains.update(descendants(driver.process.pid))
                if not self._kill(kind, driver, rng):
                    continue
                figures.killed[kind] += 1
                started = time.perf_counter()
                if kind == "driver":
                    known = max(known, driver.acknowledged or 0)
                    driver = Driver(self.home, self.master, self.engine, self.moves)
                    found = int(driver.wait_for("ready").split()[1])
                    if not known <= found <= known + 1:
                        raise SystemExit(f"{known} batches were acknowledged, {found} are there")
                known = self._check(driver, known)
                figures.seconds.setdefault(kind, []).append(time.perf_counter() - started)
                figures.batches = known
                if verbose:
                    number = sum(figures.killed.values())
                    print(f"{self.engine}, kill {number}, {kind}: epoch {known} is right", flush=True)
        finally:
            remains.update(descendants(driver.process.pid))
            driver.kill()
            _end(remains)
        return figures

    def _kill(self, kind: str, driver: Driver, rng: random.Random) -> bool:
        if kind == "driver":
            driver.kill()
            return True
        victims = descendants(driver.process.pid, EXECUTOR if kind == "executor" else WORKER)
        if not victims:
            return False
        try:
            os.kill(rng.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _check(self, driver: Driver, known: int) -> int:
        epoch, found = driver.ask()
        told = max(known, driver.acknowledged or 0)
        if epoch < told:
            raise SystemExit(f"{told} batches were acknowledged, {epoch} are there")
        self.account.advance(epoch)
        for name, rows in found.items():
            expected = self.account.answer(VIEWS.get(name, f"SELECT * FROM {name}"))
            if rows != expected:
                raise SystemExit(f"{name} after batch {epoch}: {rows} instead of {expected}")
        return epoch


def _end(processes: set[int]) -> None:
    """Spark's processes end with their driver; this sees to it."""
    until = time.monotonic() + 30
    ours = {pid for pid in processes if _is_spark(pid)}
    while ours and time.monotonic() < until:
        time.sleep(0.2)
        ours = {pid for pid in ours if _is_spark(pid)}
    for pid in ours:
        os.kill(pid, signal.SIGKILL)


def _is_spark(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
    return "org.apache.spark" in command or WORKER in command


HEAD = """# Kills on Spark

Something is killed (SIGKILL) at a random moment while batches of inserts and deletes are applied to four views and two
tables that keep their rows. After each kill all of them are compared with DuckDB: {kills} kills lost nothing and
doubled nothing. The seconds are those from the kill until everything has been read again; a driver takes its Spark
session with it. *Inline* drivers run their tasks themselves. With *moves*, every stage writes what it sends to segment
files, tasks write the changes of a view, and every fourth batch the state is spread over another number of partitions.
Measured by `bench/spark_soak.py`, on a machine with other work.

| master | moves | engine | killed | times | median seconds | most seconds |
|---|---|---|---|---:|---:|---:|
"""


def record(figures: Figures, master: str, moves: bool, seed: int, file: Path) -> None:
    """Adds what was measured to the figures beside a page, and writes the page again."""
    known = file.with_suffix(".jsonl")
    with known.open("a") as output:
        for kind, seconds in sorted(figures.seconds.items()):
            rounded = [round(each, 1) for each in seconds]
            facts = {"master": master, "moves": moves, "engine": figures.engine, "killed": kind, "seed": seed}
            output.write(json.dumps({**facts, "seconds": rounded}) + "\n")
    file.write_text(page([json.loads(line) for line in known.read_text().splitlines()]))


def page(told: list[dict[str, Any]]) -> str:
    """The figures as a page; of some runs only the number of kills, the median and the maximum were kept."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    rows: list[tuple[Any, ...]] = []
    for each in told:
        place = tuple(each[part] for part in ("master", "moves", "engine", "killed"))
        if "seconds" in each:
            groups.setdefault(place, []).extend(each["seconds"])
        else:
            rows.append((*place, each["times"], each["median"], each["most"]))
    rows += [(*place, len(each), statistics.median(each), max(each)) for place, each in groups.items()]
    text = HEAD.format(kills=sum(row[4] for row in rows))
    for master, moves, engine, kind, times, median, most in sorted(rows):
        name = f"`{master}`" if "[" in master else master
        text += f"| {name} | {'yes' if moves else 'no'} | {engine} | {kind} | {times} | {median:.1f} | {most:.1f} |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--master", default="local-cluster[2,1,1024]", help="`inline` runs tasks in the driver")
    parser.add_argument("--engine", choices=("interpreter", "compiled"), help="one of them only")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--pause", type=float, nargs=2, default=(0.0, 3.0), help="seconds from a check to a kill")
    parser.add_argument("--moves", action="store_true", help="moves through files, and other numbers of partitions")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="the page to add the figures to: docs/benchmarks/spark-kills.md"
    )
    parser.add_argument("--child", metavar="DIRECTORY", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        drive(asked.child, asked.master, asked.engine, asked.moves)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was checked until then counts
    print(f"seed {asked.seed}, {asked.master}", flush=True)
    engines = [asked.engine] if asked.engine else ["compiled", "interpreter"]
    started, done, is_over = time.perf_counter(), 0, False
    for number, engine in enumerate(engines):
        if is_over:
            break
        kills = asked.kills * (number + 1) // len(engines) - asked.kills * number // len(engines)
        with tempfile.TemporaryDirectory() as scratch:
            soak = Soak(Path(scratch), asked.master, engine, asked.seed + number, tuple(asked.pause), asked.moves)
            try:
                soak.run(kills, verbose=True)
            except KeyboardInterrupt:
                is_over = True
        print(soak.figures.line(), flush=True)
        done += sum(map(len, soak.figures.seconds.values()))
        if asked.record:
            record(soak.figures, asked.master, asked.moves, asked.seed + number, asked.record)
    print(f"{done} kills in {time.perf_counter() - started:.0f} s: no row lost, none twice")


if __name__ == "__main__":
    main()
