"""Subscribers see each batch as a whole, once, in order, whatever other subscribers do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from viewlet import Connection, DataError, SchemaError


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[tuple[object, ...], int]]] = []

    def __call__(self, epoch: int, changes: Any) -> None:
        rows = [tuple(row.values()) for row in changes.to_pylist()]
        self.seen.append((epoch, {row[:-1]: row[-1] for row in rows}))


def test_a_subscriber_sees_what_changed(db: Connection) -> None:
    recorder = Recorder()
    subscription = db.view("spend").subscribe(recorder)
    db.insert("orders", [(4, 8, None, 2), (5, 9, None, None)])
    db.insert("customer", [(9, "Cyd")])
    db.update("orders", [(4, 8, None, 2)], [(6, 8, None, 2)])
    db.delete("orders", [(5, 9, None, None)])
    one, three = Decimal("1.00"), Decimal("3.00")
    assert recorder.seen == [
        (3, {(8, one, 1): -1, (8, three, 2): 1, (9, None, 1): 1}),
        (6, {(9, None, 1): -1}),
    ]
    subscription.cancel()
    subscription.cancel()
    db.insert("orders", [(5, 9, None, None)])
    assert len(recorder.seen) == 2


def test_a_subscription_ends_with_its_block(db: Connection) -> None:
    recorder = Recorder()
    with db.view("spend").subscribe(recorder):
        db.insert("orders", [(4, 8, None, 2)])
    db.insert("orders", [(5, 8, None, 2)])
    assert [epoch for epoch, _ in recorder.seen] == [3]


def test_changes_add_up_to_the_view(db: Connection) -> None:
    recorder = Recorder()
    state = dict.fromkeys(db.view("spend").rows(), 1)
    db.view("spend").subscribe(recorder)
    for key in range(10, 30):
        db.insert("orders", [(key, key % 3, None, key)])
        if key % 2:
            db.delete("orders", [(key, key % 3, None, key)])
    for _, changes in recorder.seen:
        for row, weight in changes.items():
            state[row] = state.get(row, 0) + weight
    assert {row for row, weight in state.items() if weight} == set(db.view("spend").rows())


def test_a_limited_view_announces_its_visible_rows_only(db: Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW top AS SELECT orderkey FROM orders ORDER BY total DESC, orderkey LIMIT 2")
    recorder = Recorder()
    db.view("top").subscribe(recorder)
    db.insert("orders", [(4, 8, None, 2)])  # below the limit
    db.insert("orders", [(5, 8, None, 50)])  # pushes order 2 out
    db.delete("orders", [(1, 7, "2026-01-02", "10.50")])  # and lets it in again
    assert recorder.seen == [(4, {(2,): -1, (5,): 1}), (5, {(1,): -1, (2,): 1})]
    assert db.view("top").rows() == [(5,), (2,)]


def test_a_failing_subscriber_undoes_nothing_and_silences_nobody(
    db: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(epoch: int, changes: object) -> None:
        raise RuntimeError("no disk")

    recorder = Recorder()
    db.view("spend").subscribe(fail)
    db.view("spend").subscribe(recorder)
    assert db.insert("orders", [(4, 8, None, 2)]) == 3
    assert "a subscriber of view 'spend' failed; epoch 3 is committed" in caplog.text
    assert [repr(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["RuntimeError('no disk')"]
    assert [epoch for epoch, _ in recorder.seen] == [3]
    assert len(db.table("orders")) == 4
    db.view("spend").subscribe(fail)
    assert db.insert("orders", [(5, 8, None, 2)]) == 4
    assert [epoch for epoch, _ in recorder.seen] == [3, 4]


def test_a_refused_batch_is_not_announced(db: Connection) -> None:
    recorder = Recorder()
    db.view("spend").subscribe(recorder)
    with pytest.raises(DataError):
        db.insert("orders", [(1, 8, None, 2)])
    assert recorder.seen == []


def test_a_batch_from_inside_a_callback_is_announced_after_the_current_one(db: Connection) -> None:
    recorder = Recorder()

    def react(epoch: int, changes: object) -> None:
        if epoch == 3:
            assert db.view("spend").rows()[-1][0] == 9
            db.insert("orders", [(5, 9, None, 1)])

    db.view("spend").subscribe(react)
    db.view("spend").subscribe(recorder)
    assert db.insert("orders", [(4, 9, None, 1)]) == 3
    assert [epoch for epoch, _ in recorder.seen] == [3, 4]
    assert db.epoch == 4


def test_a_subscriber_may_cancel_another(db: Connection) -> None:
    recorder = Recorder()
    db.view("spend").subscribe(lambda epoch, changes: second.cancel())
    second = db.view("spend").subscribe(recorder)
    db.insert("orders", [(4, 9, None, 1)])
    assert recorder.seen == []


def test_subscriptions_end_with_the_view(db: Connection) -> None:
    view, recorder = db.view("spend"), Recorder()
    subscription = view.subscribe(recorder)
    db.execute("DROP VIEW spend")
    db.insert("orders", [(4, 9, None, 1)])
    assert recorder.seen == []
    subscription.cancel()
    with pytest.raises(SchemaError):
        view.subscribe(recorder)
