"""What threads insert and delete at the same time is one batch; every call has the answer that it would have alone."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

import viewlet
from tests.interrupts.harness import Interruption
from viewlet.errors import ConstraintError, DataError, SchemaError

Job = Callable[[], Any]


def started(db: Any, pool: ThreadPoolExecutor, jobs: Sequence[Job]) -> list[Future[Any]]:
    """Jobs of threads that wait for the lock, which the caller holds; each in its turn."""
    futures = []
    for number, job in enumerate(jobs, 1):
        futures.append(pool.submit(job))
        deadline = monotonic() + 10
        while len(db._session._queue._waiting) < number and monotonic() < deadline:
            sleep(0.0002)
    return futures


def outcomes(db: Any, jobs: Sequence[Job]) -> list[Any]:
    """What becomes of jobs that wait at the same time: results or exceptions."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        with db._session.lock:
            futures = started(db, pool, jobs)
        return [future.exception() or future.result() for future in futures]


@pytest.fixture
def db(tmp_path: Path) -> Any:
    made = viewlet.connect(tmp_path / "db", fsync=False)
    made.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, g VARCHAR); CREATE TABLE bag (x INTEGER)")
    made.execute("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
    yield made
    made.close()


def test_calls_that_wait_are_one_batch(db: Any, tmp_path: Path) -> None:
    heard: list[int] = []
    db.view("v").subscribe(lambda epoch, changes: heard.append(epoch))
    db.insert("bag", [(1,), (1,)])
    jobs = [lambda: db.insert("t", [(1, "a")]), lambda: db.insert("T", [{"k": 2, "g": "a"}])]
    jobs += [lambda: db.delete("bag", [(1,)]), lambda: db.update("bag", [(1,)], [(2,)])]
    jobs += [lambda: db.execute("INSERT INTO t VALUES (?, ?)", (3, "b")), lambda: db.delete("t", [(2, "a")])]
    assert outcomes(db, jobs) == [2, 2, 2, 2, 1, 2]
    assert db.view("v").rows() == [("a", 1), ("b", 1)]
    assert db.table("bag").rows() == [(2,)]
    assert (db.epoch, heard) == (2, [2])
    db.close()
    with viewlet.connect(tmp_path / "db") as again:
        assert again.view("v").rows() == [("a", 1), ("b", 1)]


def test_a_call_that_is_refused_takes_no_other_with_it(db: Any) -> None:
    db.insert("t", [(1, "a")])
    jobs: list[Job] = [lambda: db.insert("t", [(2, "b")]), lambda: db.insert("t", [(1, "c")])]
    jobs += [lambda: db.insert("nothing", [(2,)]), lambda: db.insert("t", [("x", "c")])]
    jobs += [lambda: db.delete("bag", [(7,)]), lambda: db.insert("t", [(3, "b")])]
    found = outcomes(db, jobs)
    assert sorted((found[0], found[5])) == [2, 3]
    assert [type(each) for each in found[1:5]] == [ConstraintError, SchemaError, DataError, DataError]
    assert [str(each)[:24] for each in (found[1], found[2], found[4])] == [
        "duplicate key (k) in t: ",
        "there is no table 'nothi",
        "cannot delete (x=7) from",
    ]
    assert db.table("t").rows() == [(1, "a"), (2, "b"), (3, "b")]


def test_a_transaction_holds_what_threads_change(db: Any) -> None:
    db.execute("BEGIN")
    assert outcomes(db, [lambda: db.insert("t", [(1, "a")]), lambda: db.insert("t", [(2, "a")])]) == [0, 0]
    db.execute("ROLLBACK")
    assert db.table("t").rows() == []


def test_subscribers_change_tables_while_others_wait(db: Any) -> None:
    db.view("v").subscribe(lambda epoch, changes: db.insert("bag", [(epoch,)]) if epoch == 1 else None)
    jobs: list[Job] = [lambda k=k: db.insert("t", [(k, "a")]) for k in range(4)]  # type: ignore[misc]
    assert outcomes(db, jobs) == [1, 1, 1, 1]
    assert db.table("bag").rows() == [(1,)]


@pytest.mark.parametrize("refused", [False, True])
def test_an_interrupt_of_the_one_that_applies_them(db: Any, refused: bool) -> None:
    """The thread that is interrupted learns what became of its own call; those of the others are applied once."""
    random_number = random.Random(3)
    total = 0
    with Interruption() as counting:
        db.insert("bag", [(-1,)])
    expected = Counter({(-1,): 1})
    with ThreadPoolExecutor(3) as pool:
        for number in range(90):
            rows = [(4 * number + k,) for k in range(4)]
            jobs: list[Job] = [lambda row=row: db.insert("bag", [row]) for row in rows[:2]]  # type: ignore[misc]
            if refused:
                jobs.append(lambda number=number: db.delete("bag", [(-2 - number,)]))  # type: ignore[misc]
            committed = True
            with db._session.lock:
                futures = started(db, pool, jobs)
                try:
                    with Interruption(random_number.randrange(2 * counting.seen)):
                        db.insert("bag", [rows[3]])
                except KeyboardInterrupt as error:
                    total += 1
                    committed = any("is committed" in note for note in getattr(error, "__notes__", ()))
            while db._session.lock._is_owned():  # tracers raise where signals do not
                db._session.lock.release()
            for future in futures[:2]:
                future.result(timeout=10)
            if refused:
                assert isinstance(futures[2].exception(timeout=10), DataError)
            expected.update(rows[:2] + [rows[3]] * committed)
            assert Counter(db.table("bag").rows()) == expected
    assert total > 20


def test_threads_that_come_and_go(db: Any) -> None:
    """Random inserts and deletes of many threads, one of which is refused now and then, leave what they should."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()

    def work(number: int) -> None:
        chosen = random.Random(number)
        mine: list[tuple[int, str]] = []
        for step in range(25):
            if mine and chosen.random() < 0.3:
                db.delete("t", [mine.pop()])
            elif chosen.random() < 0.2:
                with pytest.raises(DataError):
                    db.delete("t", [(-1, "absent")])
            else:
                row = (1000 * number + step, chosen.choice("abc"))
                db.insert("t", [row])
                mine.append(row)
        with lock:
            counts.update(g for _, g in mine)

    with ThreadPoolExecutor(12) as pool:
        for job in [pool.submit(work, number) for number in range(12)]:
            job.result()
    assert dict(db.view("v").rows()) == dict(counts)
    assert db.epoch < 12 * 25
