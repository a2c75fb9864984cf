"""Kills, forks and restores of one directory: every acknowledged batch is there, and no other than the one under way.

    python -m tests.durable.kills --kills 200 --seed 1

A process applies batches to a table and to a partitioned stream with an archive, writes snapshots, and forks: forks try
to use the connection, are refused, and may outlive it. It is killed at a random moment. Then the directory is opened
and compared with what its epoch says. Between two kills the directory may be copied, and restored as a whole from its
copy; restored in part, with only the parts of streams or only the rest, it has to be refused.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.durable.damages import import_all, run_alone

STATEMENTS = """
CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR);
CREATE STREAM p (ts TIMESTAMP, n BIGINT) PARTITION LENGTH 60 BY ts LATENESS INTERVAL '0' SECOND
    RETAIN INTERVAL '20' MINUTE ARCHIVE;
CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n, SUM(k) AS k FROM t GROUP BY s;
CREATE VIEW h AS SELECT SUM(n)::BIGINT AS n FROM p [WINDOW 3 MINUTES]
"""
READY, FORK_WROTE = "ready", "a fork wrote"


def batch(step: int) -> dict[str, Any]:
    return {
        "t": [(step, f"s{step % 3}")],
        "p": [(f"2026-01-{1 + step // 1440:02} {step // 60 % 24:02}:{step % 60:02}:00", step)],
    }


def work(path: Path, notes: int, seed: int) -> None:
    """Applies batches until it is killed; tells which it tries, and which were acknowledged."""
    import viewlet

    rng = random.Random(seed)
    db: Any = viewlet.connect(path, engine="interpreter")
    if not db.tables:
        db.execute(STATEMENTS)
    os.write(notes, f"{READY}\n".encode())
    while True:
        step = db.epoch + 1
        os.write(notes, f"T {step}\n".encode())
        db.apply(batch(step))
        os.write(notes, f"A {step}\n".encode())
        chance = rng.random()
        if chance < 0.1:
            db.checkpoint()
        elif chance < 0.25 and os.fork() == 0:
            _use_in_fork(db, notes, rng)
            os._exit(0)


def _use_in_fork(db: Any, notes: int, rng: random.Random) -> None:
    import viewlet

    signal.alarm(20)
    for use in (lambda: db.insert("t", [(10**9, "x")]), db.checkpoint):
        try:
            use()
            os.write(notes, f"{FORK_WROTE}\n".encode())
        except viewlet.StateError:
            pass
    if rng.random() < 0.5:
        db.close()
        del db
        gc.collect()
    time.sleep(rng.random())


def check(path: Path) -> str:
    """The epoch of a directory, if everything in it is what that epoch says."""
    import viewlet

    with viewlet.connect(path, engine="interpreter") as db:
        epoch, steps = db.epoch, range(1, db.epoch + 1)
        if not db.tables:
            return "0"
        rows = sorted(db.table("t").rows())
        assert rows == [(step, f"s{step % 3}") for step in steps], "t"
        sums: Counter[str] = Counter()
        for step in steps:
            sums[f"s{step % 3}"] += step
        assert {s: k for s, _, k in db.view("v").rows()} == dict(sums), "v"
        archived = [row["n"] for row in db.archived_rows("p").to_pylist()]
        kept = [n for _, n in db.table("p").rows()]
        assert sorted({*archived, *kept}) == list(steps), "p"
        assert len(kept) == len({*kept}), "p twice"
        shown = [row[0] for row in sorted(db.view("h").rows(), key=lambda row: row[1])]
        expected = [sum(range(max(1, last - 2), last + 1)) for last in range(1, epoch)]
        assert shown == expected, f"h: {shown[-3:]} instead of {expected[-3:]}"
        return str(epoch)


def kill(path: Path, rng: random.Random) -> tuple[int, int, str]:
    """Kills work on a directory; returns the last batches that were acknowledged and tried, and what was wrong."""
    get, put = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(get)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            work(path, put, rng.randrange(10**9))
        except BaseException as error:
            os.write(put, f"unexpected {type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os.close(put)
    lines: list[str] = []
    goal = rng.choice([1, 2, rng.randrange(3, 40)])
    with os.fdopen(get, "rb") as notes:
        while len(lines) < goal and (line := notes.readline()):
            lines.append(line.decode(errors="replace").strip())
        time.sleep(rng.choice([0, rng.uniform(0, 0.01), rng.uniform(0, 0.1)]))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines += notes.read().decode(errors="replace").splitlines()  # until the last fork has ended
    acknowledged = max((int(line[2:]) for line in lines if line.startswith("A ")), default=0)
    tried = max((int(line[2:]) for line in lines if line.startswith("T ")), default=0)
    wrong = [line for line in lines if line.startswith(("unexpected", FORK_WROTE))]
    return acknowledged, tried, "; ".join(wrong)


# -- copies -----------------------------------------------------------------------------------------------------------


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _mixed(path: Path, copy: Path, target: Path, rng: random.Random) -> str:
    """A directory of which a part is that of its copy; what comes of opening it."""
    _copy(path, target)
    if rng.random() < 0.5:
        _copy(copy / "streams", target / "streams")
    else:
        _copy(copy, target)
        _copy(path / "streams", target / "streams")
    return run_alone(lambda: check(target))


def run(folder: Path, kills: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kills, copies and restores; returns what happened how often, and what was wrong."""
    import_all()
    rng, path, copy = random.Random(seed), folder / "db", folder / "copy"
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    epoch, copied = 0, 0
    for number in range(kills):
        acknowledged, tried, problem = kill(path, rng)
        counts["kills"] += 1
        found = run_alone(lambda: check(path))
        if problem or not found.isdigit() or not max(epoch, acknowledged) <= int(found) <= max(epoch, tried):
            wrong.append(f"kill {number}: epoch {epoch}, A {acknowledged}, T {tried}: {found}; {problem}")
            if not found.isdigit():
                return counts, wrong
        counts["batches"] += int(found) - epoch
        epoch = int(found)
        chance = rng.random()
        if chance < 0.15 or not copy.exists():
            _copy(path, copy)
            copied = epoch
            counts["copies"] += 1
        elif chance < 0.25:
            _copy(copy, path)
            epoch = copied
            counts["restores"] += 1
        elif chance < 0.4 and copied < epoch and copied:
            answer = _mixed(path, copy, folder / "mixed", rng)
            counts["restored in part, refused"] += "StateError" in answer
            if "StateError" not in answer or "parts.duckdb" not in answer:
                wrong.append(f"kill {number}: a mixture of epochs {copied} and {epoch}: {answer}")
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="viewlet-kills-") as folder:
        counts, wrong = run(Path(folder), options.kills, options.seed)
    print(dict(counts))
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
