"""Connections in programs of asyncio."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import viewlet
from viewlet.errors import DataError, StateError


@pytest.fixture
def db() -> Any:
    made = viewlet.connect()
    made.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, g VARCHAR)")
    made.execute("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
    return made


def test_calls_are_awaited(db: Any) -> None:
    async def work() -> Any:
        await asyncio.gather(*(db.insert_async("t", [(k, "a")]) for k in range(40)))
        await db.upsert_async("t", [(1, "b")])
        await db.delete_async("t", keys=[2])
        await db.apply_async({"t": [(50, "b")]}, batch_id=1)
        with pytest.raises(DataError, match="duplicate key"):
            await db.insert_async("t", [(1, "b")])
        return await db.execute_async("SELECT g, n FROM v WHERE n < ? ORDER BY g", (100,))

    assert asyncio.run(work()).to_pylist() == [{"g": "a", "n": 38}, {"g": "b", "n": 2}]


def test_changes_come_one_after_the_other(db: Any) -> None:
    async def follow(told: Counter[tuple[Any, ...]]) -> list[int]:
        epochs = []
        async with db.view("v").changes() as changes:
            writing = asyncio.gather(*(db.insert_async("t", [(k, "ab"[k % 2])]) for k in range(20)))
            async for epoch, change in changes:
                epochs.append(epoch)
                for row in change.to_pylist():
                    told[row["g"], row["n"]] += row["_multiplicity"]
                if told["a", 10] and told["b", 10]:
                    break
            await writing
        db.insert("t", [(100, "c")])
        assert [epoch async for epoch, _ in changes] == []  # it is closed
        return epochs

    told: Counter[tuple[Any, ...]] = Counter()
    epochs = asyncio.run(follow(told))
    assert epochs == sorted(set(epochs))
    assert +told == {("a", 10): 1, ("b", 10): 1}
    db.insert("t", [(101, "c")])  # the loop is closed, and nobody listens


def test_a_stream_that_nobody_closed_ends_with_its_loop(db: Any) -> None:
    async def begin() -> Any:
        return db.view("v").changes()

    stream = asyncio.run(begin())
    db.insert("t", [(1, "a")])
    db.insert("t", [(2, "a")])
    assert not stream._news


def test_changes_need_a_loop(db: Any) -> None:
    with pytest.raises(StateError, match="subscribe"):
        db.view("v").changes()


def test_a_cancelled_task_does_not_wait(db: Any) -> None:
    async def work() -> None:
        with db._session.lock:
            task = asyncio.create_task(db.insert_async("t", [(1, "a")]))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await db.insert_async("t", [(2, "a")])

    asyncio.run(work())
    assert db.table("t").rows() == [(1, "a"), (2, "a")]
