"""A driver dies at every step of what it does to files, to mapped state and with tasks; another one continues.

    python -m tests.spark.driver_deaths --engine compiled --every 1

Tasks run in the driver's process, so that a life is short. The steps are counted in a life that nobody ends; then, for
each of them, a forked process goes through the same history and kills itself there (SIGKILL), in the middle of a write
too. What it leaves must be what it acknowledged, or one step more. A second process is given the last batches again,
continues to the end, and is sometimes killed as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

os.environ.setdefault("VIEWLET_JIT", "0")

import viewlet
from viewlet.codegen.node import CompiledNode
from viewlet.connection.spark_facade import connect_inline
from viewlet.runtime.dictionary import FileDictionary
from viewlet.runtime.durable import files as durable_files
from viewlet.runtime.durable.mapped_state import MappedState
from viewlet.spark.run.execution.cluster import InlineCluster

DECLARED = """
    CREATE TABLE orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL, PRIMARY KEY (id));
    CREATE STREAM items (id BIGINT NOT NULL, price BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW revenue AS
    SELECT customer, SUM(price) AS total, COUNT(*) AS n FROM orders JOIN items USING (id) GROUP BY customer;
    CREATE MATERIALIZED VIEW dearest AS
    SELECT customer, MAX(price) AS price FROM orders JOIN items USING (id) GROUP BY customer;
    CREATE MATERIALIZED VIEW dear AS
    SELECT id, price FROM items WHERE price > (SELECT AVG(price) FROM items);
"""
COUNTED = (
    "CREATE MATERIALIZED VIEW IF NOT EXISTS counted AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
)
SELDOM = (
    "CREATE MATERIALIZED VIEW IF NOT EXISTS seldom AS SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) < 2"
)
"""It is read from what is kept for `counted`, which is dropped before it.

`revenue` and `dearest` get one unit before the first batch; what that has for the second alone goes with the snapshot.
"""


def apply(number: int, **tables: list[tuple[Any, ...]]) -> Callable[[Any], object]:
    """A batch of rows, each ending in its multiplicity."""
    names = {"orders": ("id", "customer", "_multiplicity"), "items": ("id", "price", "_multiplicity")}
    batch = {name: [dict(zip(names[name], row, strict=True)) for row in rows] for name, rows in tables.items()}
    return lambda db: db.apply(batch, batch_id=number)


def declare(db: Any) -> None:
    for statement in DECLARED.split(";")[:-1]:
        name = statement.split()[2 if "VIEW" not in statement else 3]
        if name not in (*db.tables, *db.views):
            db.execute(statement)


HISTORY: tuple[Callable[[Any], object], ...] = (
    declare,
    apply(1, orders=[(1, "ada", 1), (2, "bob", 1)], items=[(1, 5, 1), (2, 7, 1), (2, 9, 1)]),
    apply(2, items=[(1, 11, 1), (2, 7, -1)]),
    lambda db: db.execute(COUNTED),
    lambda db: db.execute(SELDOM),
    lambda db: db.execute("DROP VIEW IF EXISTS dearest"),
    lambda db: db.checkpoint() if hasattr(db, "spark") else None,
    apply(3, orders=[(2, "bob", -1), (2, "cyd", 1), (3, "zoë", 1)], items=[(3, 20, 1), (3, 20, 1)]),
    lambda db: db.execute("DROP VIEW IF EXISTS counted"),
    apply(4, orders=[(4, "zoë", 1)], items=[(3, 20, -1), (1, 5, -1), (9, 1, 1)]),
)
FIRST_BATCH = 1

State = dict[str, list[tuple[Any, ...]]]


def state_of(db: Any) -> State:
    found = {name: db.view(name).rows() for name in db.views}
    return found | {name: db.table(name).rows() for name in db.tables if name != "items"}


def expected_states() -> list[State]:
    """What an engine that is not disturbed has after so many steps."""
    with viewlet.connect(engine="interpreter") as db:
        found = [state_of(db)]
        for step in HISTORY:
            step(db)
            found.append(state_of(db))
        return found


class Fate:
    """Counts the steps of this process; the last one is fatal."""

    def __init__(self) -> None:
        self.steps = 0
        self.last: int | None = None

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


FATE = Fate()


def install() -> None:
    """From now on everything that leaves a trace counts."""
    local = durable_files.LocalFiles
    around(local, "create", "rename", "remove", "make_folder", "sync_folder")
    around(durable_files._LocalOutput, "sync")
    around(InlineCluster, "run")
    around(MappedState, "begin", "finish", "reset")
    around(FileDictionary, "save")
    around(CompiledNode, "run")
    write = durable_files._LocalOutput.write

    def torn(self: Any, data: Any) -> object:
        view = memoryview(data).cast("B")
        FATE.step()
        write(self, view[: len(view) // 2])
        FATE.step()
        return write(self, view[len(view) // 2 :])

    durable_files._LocalOutput.write = torn  # type: ignore[method-assign]


def around(owner: Any, *names: str) -> None:
    for name in names:
        setattr(owner, name, _counted(getattr(owner, name)))


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def counted(*given: Any, **named: Any) -> Any:
        FATE.step()
        found = function(*given, **named)
        FATE.step()
        return found

    return counted


@dataclass(frozen=True, slots=True)
class Life:
    """What a driver is to do, and where."""

    home: Path
    engine: str
    expected: list[State]
    in_files: bool = False
    """What moves between stages is in files, however small."""

    def live(self, last: int | None) -> int:
        """From wherever the last one ended to the end of the history; returns the number of steps."""
        os.environ["VIEWLET_STATE"] = str(self.home / "mapped")
        FATE.steps, FATE.last = 0, last
        with connect_inline(self.home / "state", 2, sync=False, engine=self.engine) as db:
            if self.in_files:
                db._host.cluster.inline_bytes = 0
            found, acknowledged = state_of(db), self.acknowledged
            at = next((k for k in (acknowledged, acknowledged + 1) if self._fits(found, k)), None)
            if at is None:
                raise AssertionError(f"{acknowledged} steps were acknowledged, but this is there: {found}")
            for step in HISTORY[max(FIRST_BATCH, at - 2) : at]:
                if step.__name__ == "<lambda>" and step.__closure__:  # batches that are there already
                    step(db)
            if state_of(db) != self.expected[at] and at > 1:
                raise AssertionError(f"batches given again have changed {found} to {state_of(db)}")
            for number, step in enumerate(HISTORY[at:], at + 1):
                step(db)
                self._acknowledge(number)
            if state_of(db) != self.expected[-1]:
                raise AssertionError(f"{state_of(db)} instead of {self.expected[-1]}")
        return FATE.steps

    def _fits(self, found: State, done: int) -> bool:
        if done == 0 or (done == 1 and self.acknowledged == 0):  # declared in part
            return not any(found.values())
        return done < len(self.expected) and found == self.expected[done]

    @property
    def acknowledged(self) -> int:
        path = self.home / "acknowledged"
        return len(path.read_bytes()) if path.exists() else 0

    def _acknowledge(self, number: int) -> None:
        with (self.home / "acknowledged").open("ab") as file:
            file.write(b"." * (number - self.acknowledged))

    def forked(self, last: int | None) -> int:
        """The same in another process; returns how it ended."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self.live(last)
                status = 0
            except BaseException:
                (self.home / "error").write_text(traceback.format_exc())
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def deaths(engine: str, every: int, first: int = 1, in_files: bool = False) -> Iterator[tuple[int, int]]:
    """Every so manieth step is fatal; yields the step, and how many there are."""
    install()
    expected = expected_states()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch, "whole")
        home.mkdir()
        total = Life(home, engine, expected, in_files).live(None)
        for last in range(first, total + 1, every):
            life = Life(Path(scratch, str(last)), engine, expected, in_files)
            life.home.mkdir()
            ends = [life.forked(last)]
            assert ends[0] == -signal.SIGKILL or last > total - 20, f"the step {last} was not reached: {ends}"
            if last % 3 == 0:
                ends.append(life.forked(last * 7 % 61 + 1))
            ends.append(life.forked(None))
            if ends[-1] or 1 in ends:
                raise SystemExit(f"step {last} of {total}, {ends}: {(life.home / 'error').read_text()}")
            shutil.rmtree(life.home)
            yield last, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("interpreter", "compiled"), default="interpreter")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--in-files", action="store_true", help="what moves between stages is in files")
    asked = parser.parse_args()
    count = last = total = 0
    for last, total in deaths(asked.engine, asked.every, asked.first, asked.in_files):
        count += 1
        if count % 50 == 0:
            print(f"step {last} of {total}", flush=True)
    print(f"{asked.engine}: {count} of {total} steps were fatal; nothing lost, nothing twice")


if __name__ == "__main__":
    sys.exit(main())
