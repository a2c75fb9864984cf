"""Groups of streams that fall silent, and intervals of streams that overlap."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import SCHEMA, History, irregular, online, over, same_bits
from viewlet.connection.spark_facade import connect_inline
from viewlet.signals import Signal, SignalError, arrivals, source

SOS = ss.butter(2, 0.2, output="sos")
INTERVALS = "CREATE {kind} intervals (g VARCHAR NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL, x DOUBLE)"


def smooth(signal: Signal) -> Signal:
    return signal.sample(10, "last", max_gap=400).sosfilt(SOS)


@pytest.fixture
def give_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "FEWEST_GONE", 1)


def in_time(history: History) -> History:
    """The rows of all groups in the order of time: groups that lag behind others may be taken for idle ones."""
    return History(sorted(history.rows, key=lambda row: row[1]))


def lives(history: History, idle: int) -> History:
    """The same rows, with a name of its own for a group after each silence."""
    last, number, rows = dict[str, int](), dict[str, int](), []
    for g, t, x, y in history.rows:
        if x is not None:
            number[g] = number.get(g, 0) + (t - last.get(g, t) > idle)
            last[g] = t
        rows.append((f"{g}#{number.get(g, 0)}", t, x, y))
    return History(rows)


def without_lives(table: pa.Table) -> pa.Table:
    return table.set_column(0, "g", pa.array([name.split("#")[0] for name in table["g"].to_pylist()]))


@pytest.mark.parametrize("lateness", [0, 40])
def test_a_group_that_returns_restarts(lateness: int, give_up_early: None, tmp_path: Path) -> None:
    history = in_time(irregular(4, groups=8, rows=300))
    options = {"idle": "90ms", "lateness": lateness, "late": "count"}
    found, query = online(history, smooth, 1, "STREAM", tmp_path, **options)
    expected = smooth(source(key="g", time="t", value="x", is_timestamp=False)).run(lives(history, 90).table())
    assert same_bits(query.run(history.table()), without_lives(expected))
    if not lateness:
        assert same_bits(found, without_lives(expected))
    else:  # the last events wait
        rows = {tuple(row.values()) for row in without_lives(expected).to_pylist()}
        shown = {tuple(row.values()) for row in found.to_pylist()}
        assert shown <= rows
        assert len(shown) > 0.8 * len(rows)


def test_what_is_known_of_idle_groups_is_given_up(give_up_early: None) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="STREAM"))
    view = db.create_view("v", smooth(over(db, idle="50ms")), retain="100ms")
    for k in range(60):
        db.insert(
            "events", [(f"g{k}", 100 * k, 1.0, 0.0), ("steady", 100 * k, 1.0, 0.0), ("steady", 100 * k + 50, 1.0, 0.0)]
        )
    groups = view.stats()["stored"]["groups"]  # type: ignore[index]
    assert groups < 10
    assert {row[0] for row in view.rows()} == {"g59", "steady"}
    with pytest.raises(viewlet.DataError, match="comes after one that ends at"):
        db.insert("events", [("g1", 150, 1.0, 0.0)])
    db.insert("events", [("g1", 6000, 1.0, 0.0)])
    assert ("g1", 6000) in {row[:2] for row in view.rows()}


def test_a_batch_that_fails_leaves_no_new_groups() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="STREAM"))
    query = smooth(over(db, idle="50ms"))
    view = db.create_view("v", query)
    rows = [("a", 0, 1.0, 0.0), ("a", 200, 2.0, 0.0)]
    db.insert("events", rows[:1])
    view.subscribe(lambda epoch, changes: None)
    with pytest.raises(viewlet.DataError, match="overlap"):
        db.insert("events", [*rows[1:], ("b", 0, 1.0, 0.0), ("b", 0, 2.0, 0.0)])
    db.insert("events", [*rows[1:], ("c", 200, 1.0, 0.0)])
    assert same_bits(view.to_arrow(), query.run(History([*rows, ("c", 200, 1.0, 0.0)]).table()))


def test_idle_groups_are_of_one_stream() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    db.execute(SCHEMA.format(kind="STREAM").replace("events", "other"))
    signal = over(db, idle="1s").sample(10)
    with pytest.raises(viewlet.ViewletError, match="idle= is for streams"):
        db.create_view("v", signal)
    with pytest.raises(SignalError, match="over one signal"):
        signal + db.signal("other", key="g", time="t", value="x", unit="ms").sample(10)
    with pytest.raises(SignalError, match="idle is a positive duration"):
        over(db, idle=0)


def random_intervals(seed: int, rows: int = 60) -> list[tuple[str, int, int, float]]:
    random, clock, found = Random(seed), {"a": 0, "b": 5}, []
    for _ in range(rows):
        g = random.choice("ab")
        clock[g] += random.choice([0, 3, 10, 25, 60])
        found.append((g, clock[g], clock[g] + random.choice([1, 10, 30, 80]), float(random.randint(0, 9))))
    return found


@pytest.mark.parametrize("policy", ["mean", "max"])
@pytest.mark.parametrize("lateness", [0, 20])
@pytest.mark.parametrize("interpolate", [None, "quadratic"])
def test_intervals_of_a_stream_that_overlap(policy: str, lateness: int, interpolate: str | None) -> None:
    rows, random = random_intervals(3), Random(1)
    db = viewlet.connect()
    db.execute(INTERVALS.format(kind="STREAM"))
    signal = db.signal("intervals", key="g", time="a", end="b", value="x", overlap=policy, lateness=lateness)
    query = signal.sample(7, interpolate).ewm(0.5)
    view = db.create_view("v", query)
    order = sorted(rows, key=lambda row: row[1] + random.uniform(0, lateness))
    for begin in range(0, len(order), 7):
        db.insert("intervals", order[begin : begin + 7])
    db.insert("intervals", [(g, 10_000, 10_001, 0.0) for g in "ab"])
    g, a, b, x = (list(each) for each in zip(*rows, strict=True))
    whole = pa.table({"g": g, "a": a, "b": b, "x": x})
    expected = query.run(whole).to_pylist()
    shown = [row for row in view.to_arrow().to_pylist() if row["a"] < 9_000]
    assert shown == sorted(expected, key=lambda row: (row["g"], row["a"]))
    with pytest.raises(viewlet.DataError, match="comes after one that ends at"):
        db.insert("intervals", [("a", 500, 600, 1.0)])


def test_idle_groups_in_the_partitions_of_spark(tmp_path: Path, give_up_early: None) -> None:
    history, query = in_time(irregular(4, groups=8, rows=120)), None
    for begin in range(0, len(history.rows), 40):
        db = connect_inline(tmp_path, 3, sync=False)
        if query is None:
            db.execute(SCHEMA.format(kind="STREAM"))
            query = smooth(over(db, idle="90ms", late="count"))
            db.create_view("v", query)
        db.insert("events", history.rows[begin : begin + 40])
        found = db.view("v").to_arrow()
        db.close()
    assert query is not None
    assert same_bits(found, query.run(history.table()))
    assert np.isfinite(found["x"].to_numpy()).all()
