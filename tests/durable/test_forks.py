"""Forks of a process with open databases: a fork is refused at once, and harms nothing however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SETUP = """
import gc, multiprocessing, os, pathlib, signal, sys, threading, time, warnings
import viewlet
from viewlet.connection.spark_facade import connect_inline
warnings.simplefilter("ignore")
where, path = sys.argv[1:]


def opened():
    if where == "memory":
        return viewlet.connect()
    if where == "checkpoint":
        return connect_inline(path, 2)
    return viewlet.connect(path)


db = opened()
if not db.tables:
    db.execute("CREATE TABLE t (k BIGINT, s VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    if where != "checkpoint":
        db.execute("CREATE STREAM p (ts TIMESTAMP, n BIGINT) PARTITION LENGTH 60 BY ts")
        sums = "SELECT SUM(n)::BIGINT AS n FROM p"
        db.execute(f"CREATE VIEW h AS INITIALIZE h[i] AS {sums}[i] UPDATE h[j] AS {sums}[j] PARTITION LENGTH 60")
told = []
subscription = db.view("v").subscribe(lambda epoch, changes: told.append(epoch))
step = 0


def batch():
    global step
    step += 1
    changes = {"t": [(step, f"s{step % 3}")]}
    if where != "checkpoint":
        changes["p"] = [(f"2026-01-01 {step // 60:02}:{step % 60:02}:00", step)]
    return changes


def work():
    db.apply(batch())
    db.execute("SELECT * FROM t")
    if step == 2:
        db.checkpoint()


def fork(child):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # a fork that hangs is killed, and its status says so
        child()
        sys.exit(0)  # the interpreter ends as usual, and destroys what is left
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, status


def check():
    expected = sorted((i, f"s{i % 3}") for i in range(1, step + 1))
    assert sorted(db.table("t").rows()) == expected
    assert db.epoch == step
    assert sum(n for _, n in db.view("v").rows()) == step
    if where != "checkpoint":
        assert [n for _, n in db.table("p").rows()] == list(range(1, step + 1))
        assert sum(row[0] for row in db.view("h").rows()) == sum(range(1, step))


work()
work()
"""

AFTER = """
work()
work()
check()
assert told == list(range(1, step + 1)), told
db.close()
if where != "memory":
    db = opened()
    check()
    work()
    check()
    db.close()
print("fine")
"""

REFUSED = """
view, table = db.view("v"), db.table("t")
calls = [
    lambda: db.insert("t", [(9, "x")]), lambda: db.delete("t", [(1, "s1")]), lambda: db.apply({"t": [(9, "x")]}),
    lambda: db.update("t", [(1, "s1")], [(1, "s2")]), lambda: db.execute("SELECT 1"), lambda: db.execute("DROP VIEW v"),
    lambda: db.execute("CREATE TABLE u (a BIGINT)"), lambda: db.view("v"), lambda: db.table("t"), lambda: db.epoch,
    lambda: db.tables, lambda: db.views, db.stats, db.checkpoint, db.settle, lambda: db.explain("v"),
    view.rows, view.to_arrow, table.rows, lambda: view.subscribe(print), lambda: len(view),
    lambda: db.close_parts("p", "2026-01-02"), db.refresh, lambda: db.late_rows("p"),
    lambda: db.signal("t", time="k", value="k"),
]


def child():
    for call in calls:
        try:
            call()
        except viewlet.StateError as error:
            assert f"belongs to process {os.getppid()}" in str(error), error
            assert "viewlet.connect()" in str(error)
        else:
            raise AssertionError("a fork may use it")
    assert repr(db) == "<viewlet.Connection of another process>"
    subscription.cancel()
    db.close()
    with viewlet.connect() as own:
        own.execute("CREATE TABLE t (a BIGINT)")
        own.insert("t", [(1,)])
        assert own.execute("SELECT a FROM t").num_rows == 1
    if where != "memory":
        try:
            opened()
        except viewlet.StateError as error:
            assert "open already" in str(error), error
        else:
            raise AssertionError("two processes have it")


fork(child)
"""

COLLECTED = """
def child():
    global db, subscription
    del db, subscription
    gc.collect()


fork(child)


def child():
    with db:
        raise SystemExit(0)


fork(child)
process = multiprocessing.get_context("fork").Process(target=db.close)
process.start()
process.join(20)
assert process.exitcode == 0
"""

BUSY = """
stop, many = False, 0


def insert():
    while not stop:
        work()
        time.sleep(0.001)


thread = threading.Thread(target=insert)
thread.start()


def child():
    try:
        db.view("v").rows()
    except viewlet.StateError:
        return
    raise AssertionError("a fork may use it")


for _ in range(int(os.environ.get("VIEWLET_FORKS", 3))):
    fork(child)
    time.sleep(0.02)
stop = True
thread.join()
told[:] = range(1, step + 1)
"""

OUTLIVED = """
pid = os.fork()
if pid == 0:
    time.sleep(60)
    os._exit(0)
db.close()
began = time.monotonic()
db = opened()
assert time.monotonic() - began < 20
check()
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
told[:] = []
db.view("v").subscribe(lambda epoch, changes: told.append(epoch))
told += range(1, step + 1)
"""


def run(where: str, path: Path, *parts: str) -> None:
    script = "\n".join(map(textwrap.dedent, (SETUP, *parts, AFTER)))
    command = [sys.executable, "-c", script, where, str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.stdout.strip().endswith("fine"), answer.stdout + answer.stderr


@pytest.mark.parametrize("where", ["memory", "directory", "checkpoint"])
def test_a_fork_is_refused_and_ends_without_harm(where: str, tmp_path: Path) -> None:
    run(where, tmp_path / "db", REFUSED, COLLECTED)


@pytest.mark.parametrize("where", ["memory", "directory", "checkpoint"])
def test_forks_while_another_thread_commits(where: str, tmp_path: Path) -> None:
    run(where, tmp_path / "db", BUSY)


@pytest.mark.parametrize("where", ["directory", "checkpoint"])
def test_a_fork_that_outlives_the_connection_does_not_hold_the_lock(where: str, tmp_path: Path) -> None:
    run(where, tmp_path / "db", OUTLIVED)


def test_a_connection_to_psql_ends_with_its_process() -> None:
    """A fork has no end of the pipe that would keep `psql` running, and none to write to."""
    from viewlet.streams.postgres_host import PostgresHost

    host = object.__new__(PostgresHost)
    host._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pid = os.fork()
    if pid == 0:
        host.leave_in_fork()
        assert host._process.stdin is not None
        host._process.stdin.write(b"not for cat\n")
        host._process.stdin.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    assert host._process.communicate(b"for cat\n", timeout=10)[0] == b"for cat\n"
