"""Kills drivers, executors and Python workers at random while batches are applied, and checks that nothing is lost.

    python -m bench.spark_soak --kills 100 --master 'local-cluster[2,1,1024]'

A driver applies a fixed sequence of batches with their numbers, starting over from the first one whenever it is
restarted: batches that were committed are skipped. At the end the views are compared with those of an engine that was
never disturbed. Only processes that this program has started are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

TABLES = """
    CREATE STREAM orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL);
    CREATE STREAM items (id BIGINT NOT NULL, price DECIMAL(9,2) NOT NULL);
    CREATE MATERIALIZED VIEW revenue AS
    SELECT customer, SUM(price) AS total, COUNT(*) AS items FROM orders JOIN items USING (id) GROUP BY customer;
    CREATE MATERIALIZED VIEW orders_of AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;
    CREATE MATERIALIZED VIEW large AS
    SELECT o.id, COUNT(*) AS n FROM orders o JOIN items i ON o.id = i.id GROUP BY o.id HAVING SUM(i.price) > 50
"""
VIEWS = ("revenue", "orders_of", "large")
EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.daemon"


def batches(seed: int, count: int) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Inserts and deletes of both tables; the same for the same seed."""
    random = Random(seed)
    present: dict[str, list[tuple[Any, ...]]] = {"orders": [], "items": []}
    for _ in range(count):
        batch: dict[str, list[dict[str, Any]]] = {"orders": [], "items": []}
        for table, names in (("orders", ("id", "customer")), ("items", ("id", "price"))):
            for _ in range(random.randint(0, 6)):
                rows = present[table]
                if rows and random.random() < 0.3:
                    row, weight = rows.pop(random.randrange(len(rows))), -1
                else:
                    other = f"c{random.randrange(5)}" if table == "orders" else random.randrange(1, 40)
                    row, weight = (random.randrange(20), other), 1
                    rows.append(row)
                batch[table].append({**dict(zip(names, row, strict=True)), "_multiplicity": weight})
        yield {table: rows for table, rows in batch.items() if rows}


def results(db: Any) -> dict[str, list[list[str]]]:
    return {name: [[str(value) for value in row] for row in db.view(name).rows()] for name in VIEWS}


def expected(seed: int, count: int) -> dict[str, list[list[str]]]:
    import viewlet

    with viewlet.connect(engine="interpreter") as db:
        db.execute(TABLES)
        for number, batch in enumerate(batches(seed, count)):
            db.apply(batch, batch_id=number)
        return results(db)


def drive(directory: str, master: str, seed: int, count: int) -> None:
    """The driver that gets killed."""
    db, frame = _connect(directory, master)
    with db:
        if not db.views:
            db.execute(TABLES if not db.tables else TABLES.split(";", 2)[2])
        for number, batch in enumerate(batches(seed, count)):
            spread = number % 3 == 0
            db.apply({t: frame(t, rows) if spread else rows for t, rows in batch.items()}, batch_id=number)
            print(number, flush=True)
            if number % 20 == 19:
                db.checkpoint()
        print(json.dumps(results(db)), flush=True)


def _connect(directory: str, master: str) -> tuple[Any, Any]:
    import viewlet

    if master == "inline":
        from viewlet.connection.spark_facade import connect_inline

        return connect_inline(directory, 3), lambda table, rows: rows
    from viewlet import spark_session

    paths = os.pathsep.join(path for path in sys.path if path)
    spark = spark_session(master, **{"spark.executorEnv.PYTHONPATH": paths, "spark.executor.memory": "512m"})
    other = {"orders": "id bigint, customer string", "items": "id bigint, price decimal(9,2)"}

    def frame(table: str, rows: list[dict[str, Any]]) -> Any:
        from decimal import Decimal

        plain = [{**row, "price": Decimal(row["price"])} if "price" in row else row for row in rows]
        return spark.createDataFrame(plain, f"{other[table]}, _multiplicity bigint")

    return viewlet.connect(spark=spark, checkpoint=directory, partitions=3), frame


def descendants(pid: int, word: str) -> list[int]:
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


def soak(directory: str, master: str, kills: int, count: int, seed: int, pause: tuple[float, float]) -> dict[str, int]:
    """Kills something every now and then until all batches are in; returns what was killed how often."""
    random = Random(seed)
    done = {"driver": 0, "executor": 0, "worker": 0}
    kinds = ["driver"] if master == "inline" else ["driver", "executor", "executor", "worker", "worker"]
    for round_number in range(10_000):
        goal = count * (round_number + 1)
        while True:
            answer = _one_life(directory, master, goal, seed, kills - sum(done.values()), random, kinds, done, pause)
            if answer is not None:
                break
        if answer != expected(seed, goal):
            raise SystemExit(f"after {done}: {answer} instead of {expected(seed, goal)}")
        if sum(done.values()) >= kills:
            return done
    return done


def _one_life(
    directory: str,
    master: str,
    count: int,
    seed: int,
    left: int,
    random: Random,
    kinds: list[str],
    done: dict[str, int],
    pause: tuple[float, float],
) -> dict[str, list[list[str]]] | None:
    """One driver, until it is through or killed; its answer, if it got that far."""
    command = [sys.executable, "-m", "bench.spark_soak", "--child", directory, "--master", master]
    command += ["--seed", str(seed), "--batches", str(count)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while left > 0:
            try:
                child.wait(random.uniform(*pause))
                break
            except subprocess.TimeoutExpired:
                kind = random.choice(kinds)
                word = {"executor": EXECUTOR, "worker": WORKER}.get(kind)
                victims = [child.pid] if word is None else descendants(child.pid, word)
                if not victims:
                    continue
                os.kill(random.choice(victims), signal.SIGKILL)
                done[kind] += 1
                left -= 1
                if kind == "driver":
                    child.wait()
                    return None
        out, errors = child.communicate(timeout=600)
        if child.returncode:
            raise SystemExit(f"the driver failed by itself:\n{errors[-4000:]}")
        answer: dict[str, list[list[str]]] = json.loads(out.splitlines()[-1])
        return answer
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--batches", type=int, default=60, help="batches per round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, nargs=2, default=(5.0, 25.0), help="seconds between kills")
    parser.add_argument("--child", metavar="DIRECTORY", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        drive(given.child, given.master, given.seed, given.batches)
        return
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        done = soak(f"{scratch}/state", given.master, given.kills, given.batches, given.seed, tuple(given.pause))
    print(f"{done} killed in {time.perf_counter() - started:.0f} s: no row lost, none twice")


if __name__ == "__main__":
    main()
