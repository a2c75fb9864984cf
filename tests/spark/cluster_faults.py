"""Executors and Python workers of a real cluster die at chosen moments of a batch; it gets through all the same.

    python -m tests.spark.cluster_faults DIRECTORY

One session for all of it, on two executors that share what the machine keeps of the state. The first line of what it
prints is JSON, about the places of partitions (`partition_moves.py`). A process dies before a task
does its work, in the middle of it (the state is being changed, and locked), after it but before anybody knows, between
two stages of a batch, and between batches. After each batch the views are compared with an engine in this process.
A matrix program comes last (`matrix_faults.py`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("VIEWLET_JIT", "0")

import viewlet
from bench.spark_soak import EXECUTOR, descendants
from tests.spark.matrix_faults import compare
from tests.spark.partition_moves import observed
from viewlet.spark.run.execution.tasks import RunStage
from viewlet.spark.run.units.flat_tree_node import FlatTreeNode
from viewlet.spark.run.units.generated_node import GeneratedNode
from viewlet.spark.run.units.node import ReferenceNode

DECLARED = """
    CREATE STREAM orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL);
    CREATE STREAM items (id BIGINT NOT NULL, price BIGINT NOT NULL);
    CREATE STREAM cities (customer VARCHAR NOT NULL, city VARCHAR NOT NULL);
    CREATE MATERIALIZED VIEW revenue AS
    SELECT city, SUM(price) AS total, COUNT(*) AS n
    FROM orders JOIN items USING (id) JOIN cities USING (customer) GROUP BY city;
    CREATE MATERIALIZED VIEW large AS
    SELECT city, SUM(price) AS total
    FROM orders JOIN items USING (id) JOIN cities USING (customer) GROUP BY city HAVING SUM(price) > 40;
    CREATE MATERIALIZED VIEW cheapest AS
    SELECT city, MIN(price) AS least
    FROM orders JOIN items USING (id) JOIN cities USING (customer) GROUP BY city;
    CREATE MATERIALIZED VIEW cheap AS
    SELECT city, MIN(price) AS least
    FROM orders JOIN items USING (id) JOIN cities USING (customer) GROUP BY city HAVING MIN(price) < 2;
    CREATE MATERIALIZED VIEW prices AS SELECT price, COUNT(*) AS n FROM items GROUP BY price;
    CREATE MATERIALIZED VIEW moments AS
    SELECT city, COFACTOR(price) AS c FROM orders JOIN items USING (id) JOIN cities USING (customer) GROUP BY city
"""
BEFORE, WITHIN, AFTER = "before a task", "within a task", "after a task"
TREE = "within a view tree"
STAGES, BATCHES = "between stages", "between batches"
WORKER_DIES, EXECUTOR_DIES = "worker", "executor"
SCENARIOS = {
    "compiled": (
        (WORKER_DIES, BEFORE),
        (WORKER_DIES, WITHIN),
        (WORKER_DIES, TREE),
        (WORKER_DIES, AFTER),
        (EXECUTOR_DIES, WITHIN),
        (EXECUTOR_DIES, STAGES),
    ),
    "interpreter": ((WORKER_DIES, WITHIN), (WORKER_DIES, AFTER), (EXECUTOR_DIES, BEFORE), (EXECUTOR_DIES, BATCHES)),
}


@dataclass(frozen=True, slots=True)
class Dying:
    """A task that ends its process, or the executor above it, the first time it is run anywhere."""

    task: Any
    mark: str
    victim: str
    when: str

    def __call__(self, partition: int, payload: Any) -> Any:
        if not self._is_first():
            return self.task(partition, payload)
        if self.when in (WITHIN, TREE):
            for node in (ReferenceNode, GeneratedNode) if self.when == WITHIN else (FlatTreeNode,):
                node.run = self._fatal(node.run)  # type: ignore[method-assign]
        if self.when == BEFORE:
            self._die()
        found = self.task(partition, payload)
        self._die()
        return found

    def _is_first(self) -> bool:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _fatal(self, run: Callable[..., None]) -> Callable[..., None]:
        def fatal(*given: Any) -> None:
            run(*given)
            self._die()

        return fatal

    def _die(self) -> None:
        if self.victim == EXECUTOR_DIES:
            os.kill(_parent(os.getppid()), signal.SIGKILL)
            time.sleep(0.5)  # for a moment this one is a task that nobody waits for
        os.kill(os.getpid(), signal.SIGKILL)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Faults:
    """Sees to it that stages of a connection go wrong."""

    def __init__(self, db: Any, scratch: Path) -> None:
        self._cluster = db._host.cluster.cluster
        self._run = self._cluster.run
        self._scratch = scratch
        self._next: tuple[str, str] | None = None
        self.stages = 0
        self._cluster.run = self._disturbed

    def prepare(self, victim: str, when: str) -> None:
        self._next, self.stages = (victim, when), 0

    def _disturbed(self, task: Any, payloads: Sequence[Any], what: str) -> list[Any]:
        if self._next is None or not isinstance(task, RunStage):
            return self._run(task, payloads, what)  # type: ignore[no-any-return]
        self.stages += 1
        victim, when = self._next
        if when in (STAGES, BATCHES):
            if self.stages == 2 or when == BATCHES:
                self._next = None
                kill_executor()
            return self._run(task, payloads, what)  # type: ignore[no-any-return]
        if self.stages == (1 if when == TREE else 2):
            self._next = None
            task = Dying(task, str(self._scratch / f"mark-{time.monotonic_ns()}"), victim, when)
        return self._run(task, payloads, what)  # type: ignore[no-any-return]


def kill_executor() -> None:
    executors = descendants(os.getpid(), EXECUTOR)
    os.kill(executors[0], signal.SIGKILL)


def batch(number: int) -> dict[str, list[tuple[Any, ...]]]:
    """Every table changes, so that a batch takes several stages."""
    customers = [f"c{(number + i) % 5}" for i in range(3)]
    return {
        "orders": [(number * 10 + i, customer, 1) for i, customer in enumerate(customers)]
        + [((number - 1) * 10, f"c{(number - 1) % 5}", -1)] * (number > 1),
        "items": [(number * 10 + i, 7 * i + number % 3, 1) for i in range(3)],
        "cities": [(f"c{number % 5}", f"city {number % 2}", 1)],
    }


COLUMNS = {"orders": ("id", "customer"), "items": ("id", "price"), "cities": ("customer", "city")}


def rows(number: int) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [dict(zip((*COLUMNS[name], "_multiplicity"), row, strict=True)) for row in many]
        for name, many in batch(number).items()
    }


def run(spark: Any, engine: str, home: Path) -> None:
    home.mkdir()
    reference = viewlet.connect(engine="interpreter")
    reference.execute(DECLARED)
    with viewlet.connect(spark=spark, checkpoint=home / "state", partitions=3, engine=engine) as db:
        db.execute(DECLARED)
        if {known.unit.name for known in db._host._views.values()} & {"large", "cheap"}:
            raise SystemExit(f"{engine}: views that others keep have units of their own")
        told = {name: follow(db, name) for name in ("large", "cheap")}
        faults = Faults(db, home)
        number = 0
        for victim, when in (("nobody", "yet"), *SCENARIOS[engine]):
            if victim != "nobody":
                faults.prepare(victim, when)
            for _ in range(2):  # what a fault has left may show in the batch after it
                number += 1
                for each in (reference, db):
                    each.apply(rows(number), batch_id=number)
                    each.apply(rows(number), batch_id=number)
            for name in reference.views:
                found, expected = db.view(name).rows(), reference.view(name).rows()
                if found != expected:
                    raise SystemExit(f"{engine}, {victim} {when}: {name} is {found} instead of {expected}")
                if name in told and sorted(told[name].elements()) != expected:
                    raise SystemExit(f"{engine}, {victim} {when}: {name} was told to be {told[name]}, not {expected}")
            if victim != "nobody" and faults._next is not None:
                raise SystemExit(f"{engine}, {victim} {when}: a batch has {faults.stages} stages, nothing was killed")
            print(f"{engine}: {victim} {when}", flush=True)
            if number % 4 == 0:
                db.checkpoint()


def follow(db: Any, name: str) -> Counter[tuple[Any, ...]]:
    """The rows of an empty view, as they are told from now on."""
    told = Counter[tuple[Any, ...]]()

    def hear(_: int, changes: Any) -> None:
        for *row, weight in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            told[tuple(row)] += weight

    db.view(name).subscribe(hear)
    return told


def main(directory: str) -> None:
    passed = {name: os.environ[name] for name in ("VIEWLET_JIT", "PYTHONPATH") if name in os.environ}
    settings = {f"spark.executorEnv.{name}": value for name, value in passed.items()}
    spark = viewlet.spark_session("local-cluster[2,1,1024]", **settings, **{"spark.executor.memory": "512m"})
    print(json.dumps(observed(spark)), flush=True)
    for engine in SCENARIOS:
        run(spark, engine, Path(directory, engine))
    compare(spark, Path(directory, "matrices"))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
