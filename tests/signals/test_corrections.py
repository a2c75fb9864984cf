"""Late rows, corrections and deletes: groups continue from a checkpoint, with the bits of a run over all rows."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import SCHEMA, History, over, regular, same_bits
from tests.signals.test_idle import INTERVALS, random_intervals
from viewlet.signals import Signal, arrivals, checkpoints
from viewlet.signals.batches import Events
from viewlet.signals.event_log import EventLog
from viewlet.signals.program import Program

SOS = ss.butter(2, 0.2, output="sos")
QUERIES = {
    "filter": lambda x: x.sample(10, "linear").sosfilt(SOS),
    "windows": lambda x: x.sample(10).window(16, 4, "hann").rfft().irfft().overlap_add(),
    "blocks": lambda x: x.sample(10, "last").fir(ss.firwin(9, 0.3), method="fft"),
    "with itself": lambda x: x.sample(10).ewm(0.1) + x.sample(10).shift(30),
    "sums": lambda x: x.sample(10).power(8, 3),
}


@pytest.fixture(autouse=True)
def close_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints after so few events that short signals have many."""
    monkeypatch.setattr(checkpoints, "interval_of", lambda states: 10)


@pytest.mark.parametrize("name", QUERIES)
def test_corrections_at_any_distance_give_the_bits_of_a_run(name: str) -> None:
    history, random = regular(3, groups=3, samples=150, missing=0.1), Random(name)
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    query = QUERIES[name](over(db))
    view = db.create_view("v", query)
    present = list(history.rows)
    db.insert("events", present[:300])
    db.insert("events", present[300:])
    for _ in range(12):
        back = random.choice([1, 5, 40, 200, 400])
        gone = present.pop(-random.randint(1, min(back, len(present))))
        new = [] if random.random() < 0.5 else [(gone[0], gone[1], random.random(), gone[3])]
        if random.random() < 0.3:  # a batch that fails leaves the checkpoints as they were
            with pytest.raises(viewlet.DataError):
                db.update("events", [gone], [(gone[0], gone[1], 1.0, 0.0), (gone[0], gone[1], 2.0, 0.0)])
        db.update("events", [gone], new)
        present += new
        assert same_bits(view.to_arrow(), query.run(History(present).table()))


def test_groups_whose_rows_are_deleted_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that stay keep their checkpoints and their rows under other slots, and a key may come back."""
    monkeypatch.setattr(arrivals, "FEWEST_GONE", 8)
    steady, query = regular(5, groups=2, samples=100).rows, QUERIES["windows"]
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    view = db.create_view("v", query(over(db)))
    db.insert("events", steady)
    for k in range(40):
        brief = [(f"brief {k % 30}", 10 * i, float(i + k), 0.0) for i in range(20)]
        db.insert("events", brief)
        if k % 8 == 7:
            db.update("events", [steady[-k]], [(*steady[-k][:2], float(k), 0.0)])
            steady[-k] = (*steady[-k][:2], float(k), 0.0)
            assert same_bits(view.to_arrow(), query(over(db)).run(History([*steady, *brief]).table()))
        db.delete("events", brief)
        groups = view.stats()["stored"]["groups"]  # type: ignore[index]
        assert groups <= 8
    assert same_bits(view.to_arrow(), query(over(db)).run(History(steady).table()))


def test_a_correction_runs_few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    db.create_view("v", over(db).sample(10).sosfilt(SOS))
    db.insert("events", [("a", 10 * k, float(k), 0.0) for k in range(2000)])
    ran: list[int] = []
    run = Program.run

    def counted(self: Program, events: Any) -> Any:
        ran.append(sum(map(len, events)))
        return run(self, events)

    monkeypatch.setattr(Program, "run", counted)
    for back in (3, 100, 1000):
        ran.clear()
        row = ("a", 10 * (2000 - back), float(2000 - back), 0.0)
        db.update("events", [row], [(*row[:2], 0.5, 0.0)])
        assert back <= sum(ran) <= 2 * back + 30


def test_checkpoints_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    taken: list[int] = []
    thinned = checkpoints._thinned

    def counted(held: Any) -> Any:
        found = thinned(held)
        taken.append(len(found))
        return found

    monkeypatch.setattr(checkpoints, "_thinned", counted)
    db.create_view("v", over(db).sample(10))
    for k in range(300):
        db.insert("events", [("a", 100 * k + 10 * i, 1.0, 0.0) for i in range(10)])
    assert len(taken) > 250
    assert max(taken) <= 2 * np.log2(3000)


def test_a_log_of_events_nets_what_was_taken_back() -> None:
    random = np.random.default_rng(0)
    log, held = EventLog(), list[tuple[int, int, float]]()
    for _ in range(40):
        rows = [(int(random.integers(4)), int(random.integers(30)), float(random.integers(3))) for _ in range(9)]
        signs = [1] * len(rows)
        for _ in range(min(len(held), int(random.integers(6)))):
            rows.append(held.pop(int(random.integers(len(held)))))
            signs.append(-1)
        held += [row for row, sign in zip(rows, signs, strict=True) if sign > 0]
        slot, start, value = (np.array(each) for each in zip(*rows, strict=True))
        log = log.add(Events(slot, start, value.reshape(-1, 1)), np.array(signs))
        found = log.since(np.array([1, 3]), np.array([10, -5]), Events(slot[:0], start[:0], value[:0].reshape(-1, 1)))
        expected = sorted(row for row in held if (row[0] == 1 and row[1] >= 10) or row[0] == 3)
        assert (
            sorted(zip(found.slot.tolist(), found.start.tolist(), found.value[:, 0].tolist(), strict=True)) == expected
        )
        assert np.all(np.diff(found.slot * 100 + found.start) >= 0)


def test_rows_beside_a_stream_are_not_taken_back() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="STREAM"))
    db.execute(SCHEMA.format(kind="TABLE").replace("events", "other"))
    other: Signal = db.signal("other", key="g", time="t", value="x", unit="ms")
    view = db.create_view("v", over(db).sample(10) + other.sample(10))
    db.insert("events", [("a", 10, 1.0, 0.0), ("a", 20, 2.0, 0.0)])
    db.insert("other", [("a", 20, 5.0, 0.0)])
    with pytest.raises(viewlet.DataError, match="other is read beside a stream"):
        db.delete("other", [("a", 20, 5.0, 0.0)])
    with pytest.raises(viewlet.DataError, match="comes after one that ends at 21"):
        db.insert("other", [("a", 10, 5.0, 0.0)])
    assert view.rows() == [("a", 20, 7.0)]


@pytest.mark.parametrize("seed", [1, 2])
def test_intervals_that_overlap_are_corrected(seed: int) -> None:
    """A checkpoint never lies inside an interval, whose rest would be missing behind it."""
    random, rows = Random(seed), random_intervals(seed, 120)
    db = viewlet.connect()
    db.execute(INTERVALS.format(kind="TABLE"))
    query = db.signal("intervals", key="g", time="a", end="b", value="x", overlap="mean").sample(7, "linear").ewm(0.5)
    view = db.create_view("v", query)
    for begin in (0, 60):
        db.insert("intervals", rows[begin : begin + 60])
    for _ in range(10):
        gone = rows.pop(-random.choice([1, 3, 20, 60]))
        db.delete("intervals", [gone])
        g, a, b, x = (list(each) for each in zip(*rows, strict=True))
        expected = query.run({"g": g, "a": a, "b": b, "x": x})
        assert same_bits(view.to_arrow(), expected)
