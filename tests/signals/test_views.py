"""Views of signals: late rows, corrections and deletes, streams with lateness, directories, subscribers, SQL."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import SCHEMA, History, irregular, online, over, same_bits
from viewlet.signals import Signal

SOS = ss.butter(2, 0.2, output="sos")


def smooth(signal: Signal) -> Signal:
    return signal.sample(10, "linear", max_gap=100).sosfilt(SOS)


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_directory_that_is_reopened_gives_the_same_samples(kind: str, seed: int, tmp_path: Path) -> None:
    history = irregular(seed, rows=150)
    found, query = online(history, smooth, seed, kind, tmp_path)
    assert same_bits(found, query.run(history.table()))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_of_a_table_come_go_and_are_corrected_in_any_order(seed: int) -> None:
    history, random = irregular(seed, rows=120), Random(seed)
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    query = smooth(over(db))
    view = db.create_view("v", query)
    told: dict[tuple[object, ...], int] = {}

    def hear(epoch: int, changes: object) -> None:
        for row in changes.to_pylist():  # type: ignore[attr-defined]
            key = tuple(row.values())[:-1]
            told[key] = told.get(key, 0) + row["_multiplicity"]

    view.subscribe(hear)
    waiting, present = list(history.rows), list[tuple[str, int, float | None, float]]()
    while waiting:
        new = [waiting.pop(random.randrange(min(len(waiting), 20))) for _ in range(min(len(waiting), 9))]
        gone = [present.pop(random.randrange(len(present))) for _ in range(min(len(present), random.randrange(3)))]
        corrected = [(g, t, 5.0, y) for g, t, _, y in gone[:1]]
        if gone:
            db.update("events", gone, [*new, *corrected])
        else:
            db.insert("events", new)
        present += [*new, *corrected]
        expected = query.run(History(present).table())
        assert same_bits(view.to_arrow(), expected)
    rows = {tuple(row): 1 for row in view.rows()}
    assert {row: times for row, times in told.items() if times} == rows


def test_a_large_table_of_columns_is_corrected_too() -> None:
    history = irregular(5, rows=4000)
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    query = smooth(over(db))
    view = db.create_view("v", query)
    table = history.table()
    db.insert("events", table.slice(0, 3500))
    db.insert("events", table.slice(3600))
    db.insert("events", table.slice(3500, 100))
    assert same_bits(view.to_arrow(), query.run(table))
    second = db.create_view("w", query)
    assert same_bits(second.to_arrow(), view.to_arrow())


def test_a_batch_that_fails_leaves_no_trace() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    view = db.create_view("v", smooth(over(db)))
    db.insert("events", [("a", 0, 1.0, 0.0), ("a", 20, 2.0, 0.0)])
    before = view.rows()
    with pytest.raises(viewlet.DataError, match=r"two events of g = 'a' overlap, at t = 30 and 30.*overlap='mean'"):
        db.insert("events", [("a", 30, 1.0, 0.0), ("a", 30, 2.0, 0.0), ("b", 0, 1.0, 0.0)])
    assert view.rows() == before
    db.insert("events", [("a", 30, 1.0, 0.0), ("c", 0, 1.0, 0.0)])
    history = [("a", 0, 1.0, 0.0), ("a", 20, 2.0, 0.0), ("a", 30, 1.0, 0.0), ("c", 0, 1.0, 0.0)]
    assert same_bits(view.to_arrow(), smooth(over(db)).run(History(history).table()))


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize(("policy", "value"), [("mean", 2.75), ("sum", 11.0), ("min", 0.0), ("max", 5.0)])
def test_events_at_equal_times_count_as_one(policy: str, value: float, kind: str) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind=kind))
    view = db.create_view("v", over(db, overlap=policy, **({"lateness": 5} if kind == "STREAM" else {})).sample(10))
    db.insert("events", [("a", 10, 1.0, 0.0), ("a", 10, 5.0, 0.0), ("a", 10, 5.0, 0.0)])
    db.insert("events", [("a", 10, 0.0, 0.0), ("a", 20, 3.0, 0.0)])
    db.insert("events", [("a", 25, 3.0, 0.0)])
    assert view.rows() == [("a", 10, value), ("a", 20, 3.0)]


def test_equal_rows_of_a_batch_are_events_at_equal_times() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="STREAM"))
    db.create_view("v", over(db).sample(10))
    with pytest.raises(viewlet.DataError, match="two events of g = 'a' overlap"):
        db.insert("events", [("a", 10, 5.0, 0.0)] * 2)


def test_a_stream_waits_for_late_events_and_counts_those_that_are_later() -> None:
    history = irregular(6, rows=200)
    jitter = Random(1)
    shuffled = sorted(history.rows, key=lambda row: row[1] + jitter.uniform(0, 60))
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="STREAM"))
    query = smooth(over(db, lateness="60ms", late="count"))
    view = db.create_view("v", query)
    for begin in range(0, len(shuffled), 17):
        db.insert("events", shuffled[begin : begin + 17])
    assert view.stats()["late"] == 0
    newest = {group: history.group(group)[0].max() for group in history.groups}
    due = [row for row in history.rows if row[1] <= newest[row[0]] - 60]
    assert same_bits(view.to_arrow(), query.run(History(due).table()))
    db.insert("events", [("g0", -1000, 1.0, 0.0)])
    assert view.stats()["late"] == 1


def test_a_stream_refuses_late_events_and_deletes() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="STREAM"))
    view = db.create_view("v", over(db).sample(10))
    db.insert("events", [("a", 10, 1.0, 0.0)])
    with pytest.raises(viewlet.DataError, match="comes after one that ends at 11: say lateness="):
        db.insert("events", [("a", 5, 1.0, 0.0)])
    with pytest.raises(viewlet.DataError, match="is a stream"):
        db.delete("events", [("a", 10, 1.0, 0.0)])
    assert view.rows() == [("a", 10, 1.0)]


def test_a_view_retains_what_is_asked_for() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="STREAM"))
    view = db.create_view("v", over(db).sample(10), retain="50ms")
    told: list[int] = []
    view.subscribe(lambda epoch, changes: told.extend(changes["_multiplicity"].to_pylist()))
    for k in range(20):
        db.insert("events", [("a", 10 * k, float(k), 0.0)])
    assert [row[1] for row in view.rows()] == [140, 150, 160, 170, 180, 190]
    assert told.count(1) == 20
    assert told.count(-1) == 14


def test_views_read_it_and_it_reads_views() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    db.execute("CREATE MATERIALIZED VIEW positive AS SELECT g, t, x FROM events WHERE x > 0")
    signal = db.signal("positive", key="g", time="t", value="x").sample(10, "last")
    db.create_view("v", signal)
    db.execute("CREATE MATERIALIZED VIEW peaks AS SELECT g, MAX(x) AS peak, COUNT(*) AS n FROM v GROUP BY g")
    db.insert("events", [("a", 0, 1.0, 0.0), ("a", 10, -1.0, 0.0), ("a", 20, 3.0, 0.0), ("b", 0, 2.0, 0.0)])
    assert db.view("peaks").rows() == [("a", 3.0, 3), ("b", 2.0, 1)]
    db.delete("events", [("a", 20, 3.0, 0.0)])
    assert db.view("peaks").rows() == [("a", 1.0, 1), ("b", 2.0, 1)]
    assert db.execute("SELECT COUNT(*) AS n FROM v").to_pylist() == [{"n": 2}]
    assert "sample every 10, last over at most 100" in db.explain("v", "query")


def test_timestamps_decimals_and_keys_of_several_columns() -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE r (site VARCHAR, id INTEGER, day DATE, at TIMESTAMP NOT NULL, v DECIMAL(9,2), PRIMARY KEY (at))"
    )
    signal = db.signal("r", key=("site", "id", "day"), time="at", value="v").sample("1s", "linear")
    view = db.create_view("v", signal)
    day = "2026-01-02"
    db.insert("r", [("x", 1, day, f"{day} 00:00:00", "1.50"), ("x", 1, day, f"{day} 00:00:02.5", "4.00")])
    db.insert("r", [(None, 1, day, f"{day} 00:00:03", "7.25")])
    rows = [(site, str(at), value) for site, _, _, at, value in view.rows()]
    assert rows == [
        ("x", f"{day} 00:00:00", 1.5),
        ("x", f"{day} 00:00:01", 2.5),
        ("x", f"{day} 00:00:02", 3.5),
        (None, f"{day} 00:00:03", 7.25),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value": "nothing"}, "no column 'nothing'"),
        ({"value": "g"}, "the value of a signal is a number"),
        ({"time": "x"}, "the time of a signal is a whole number"),
        ({"key": "x"}, "exactly equal"),
        ({"unit": "weeks"}, "'s', 'ms', 'us' or 'ns'"),
        ({"overlap": "both"}, "overlap is one of"),
        ({"value": ("x",), "is_complex": True}, "two columns"),
    ],
)
def test_a_wrong_source_is_refused(options: dict[str, object], message: str) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    with pytest.raises(viewlet.ViewletError, match=message):
        over(db, **options)
    with pytest.raises(viewlet.SchemaError, match="no table or view 'nowhere'"):
        db.signal("nowhere", time="t", value="x")


def test_sql_joins_signals_by_time_and_models_learn_from_them() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA.format(kind="TABLE"))
    db.execute("CREATE TABLE outages (g VARCHAR NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL)")
    even = over(db).sample(10)
    db.create_view("v", even)
    db.create_view("w", even.ewm(0.5))
    overlap = "o.g = v.g AND o.a <= v.t AND v.t < o.b"
    db.execute(f"CREATE MATERIALIZED VIEW inside AS SELECT v.g, v.t, v.x, o.a FROM v JOIN outages o ON {overlap}")
    anti = f"SELECT g, t, x FROM v WHERE NOT EXISTS (SELECT 1 FROM outages o WHERE {overlap})"
    db.execute(f"CREATE MATERIALIZED VIEW outside AS {anti}")
    db.execute("CREATE MATERIALIZED VIEW every AS SELECT g, t, x FROM v UNION ALL SELECT g, t, x FROM w")
    features = "SELECT v.x AS a, w.x AS b FROM v JOIN w ON v.g = w.g AND v.t = w.t"
    db.execute(f"CREATE MATERIALIZED VIEW products AS SELECT COFACTOR(a, b) FROM ({features})")
    rows = [(g, 10 * k, float(k % 5), 0.0) for g in "ab" for k in range(20)]
    db.insert("events", rows)
    db.insert("outages", [("a", 55, 100)])
    assert [row[1] for row in db.view("inside").rows()] == [60, 70, 80, 90]
    assert len(db.view("outside").rows()) == 36
    ((found,),) = db.view("products").rows()
    values = np.array([row[2] for row in db.view("v").rows()]), np.array([row[2] for row in db.view("w").rows()])
    np.testing.assert_allclose(found["matrix"], np.array(values) @ np.array(values).T)
    # A union is no signal until it is said what becomes of events at the same time.
    with pytest.raises(viewlet.DataError, match="two events of g = 'a' overlap"):
        db.create_view("no", db.signal("every", key="g", time="t", value="x").sample(10))
    both = db.create_view("both", db.signal("every", key="g", time="t", value="x", overlap="mean").sample(10))
    assert [row[2] for row in both.rows()] == pytest.approx(((values[0] + values[1]) / 2).tolist())
