"""Samples that wait for another signal: what a batch does to them costs no more the more they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewlet
from viewlet.signals.backlog import SMALL, Backlog
from viewlet.signals.batches import Samples

NOTHING = Samples(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 1)))


def samples(rows: set[tuple[int, int]]) -> Samples:
    slot, index = np.array(sorted(rows), np.int64).reshape(-1, 2).T
    return Samples(slot.copy(), index.copy(), (100.0 * slot + index).reshape(-1, 1))


def rows_of(batch: Any) -> list[tuple[int, int]]:
    assert (batch.value[:, 0] == 100.0 * batch.slot + batch.index).all()
    return list(zip(batch.slot.tolist(), batch.index.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_a_backlog_has_the_rows_of_a_set(seed: int) -> None:
    random = np.random.default_rng(seed)
    backlog, rows = Backlog(), set[tuple[int, int]]()
    done = np.full(5, -1)
    for step in range(40):
        new = {(int(slot), int(done[slot] + 1 + random.integers(30))) for slot in random.integers(0, 5, 8)} - rows
        backlog, rows = backlog.add(samples(new)), rows | new
        slots = np.unique(random.integers(0, 5, 2))
        until = done[slots] + random.integers(0, 12, len(slots))
        found, backlog = backlog.between(slots, done[slots], until, NOTHING)
        ready = {(k, i) for k, i in rows for s, end in zip(slots, until, strict=True) if k == s and i <= end}
        assert rows_of(found) == sorted(ready)
        done[slots], rows = until, rows - ready
        assert backlog.waiting == len(rows)
        if step % 9 == 8:
            gone = np.unique(random.integers(0, 5, 1))
            rest = backlog.pruned(lambda held: held.position > done[held.slot]).without(gone)
            waits = {row for row in rows_of(rest.rows(NOTHING)) if row[1] > done[row[0]]}
            assert waits == {row for row in rows if row[0] not in gone}
            assert {*rows_of(backlog.of_slots(gone).rows(NOTHING))} >= {row for row in rows if row[0] in gone}


def test_rows_that_wait_no_more_are_removed_when_they_are_many() -> None:
    backlog, size = Backlog(), 2 * SMALL
    for begin in range(0, 20 * size, size):
        backlog = backlog.add(samples({(0, i) for i in range(begin, begin + size)}))
        until = np.array([begin + size - 2])
        _, backlog = backlog.between(np.array([0]), until - size, until, NOTHING)
        backlog = backlog.pruned(lambda held, end=until[0]: held.position > end)
        assert len(backlog) <= 2 * size + SMALL


def test_a_batch_copies_few_of_the_samples_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is merged into larger chunks, not with every batch."""
    copied = [0]
    together = viewlet.signals.backlog.together

    def counting(parts: Any) -> Any:
        copied[0] += sum(map(len, parts))
        return together(parts)

    db = viewlet.connect()
    db.execute("CREATE STREAM a (t BIGINT NOT NULL, v DOUBLE); CREATE STREAM b (t BIGINT NOT NULL, v DOUBLE)")
    left, right = (db.signal(name, time="t", value="v").sample(1) for name in "ab")
    view = db.create_view("v", left + right)
    monkeypatch.setattr("viewlet.signals.backlog.together", counting)
    batches, size = 200, 20
    for begin in range(0, batches * size, size):
        db.insert("a", [(t, 1.0) for t in range(begin, begin + size)])
    assert db.stats()["views"]["v"]["stored"]["waiting"] == batches * size
    assert copied[0] < 3 * batches * size * np.log2(batches)
    copied[0] = 0
    for t in range(50):
        db.insert("b", [(t, 2.0)])
    assert copied[0] < 50 * 10
    assert view.rows() == [(t, 3.0) for t in range(50)]
    assert db.stats()["views"]["v"]["stored"]["waiting"] == batches * size - 50
