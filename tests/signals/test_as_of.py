"""The last value of another signal at or before each sample: at once, corrected when an earlier one comes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline
from viewlet.signals import SignalError, source

TABLES = """
CREATE {kind} trades (k BIGINT NOT NULL, t BIGINT NOT NULL, p DOUBLE);
CREATE {kind} quotes (k BIGINT NOT NULL, t BIGINT NOT NULL, q DOUBLE)
"""


def declare(db: Any, kind: str, gap: int = 40) -> Any:
    db.execute(TABLES.format(kind=kind))
    trades = db.signal("trades", key="k", time="t", value="p").sample(1)
    return db.create_view("v", trades.as_of(db.signal("quotes", key="k", time="t", value="q"), gap))


def merged(trades: list[Any], quotes: list[Any], gap: int = 40) -> list[tuple[Any, ...]]:
    """What pandas makes of it."""
    frames = (
        pd.DataFrame(rows, columns=["k", "t", name]).sort_values("t").astype({"k": int, "t": int, name: float})
        for rows, name in ((trades, "p"), (quotes, "q"))
    )
    found = pd.merge_asof(*frames, on="t", by="k", tolerance=gap)[["k", "t", "p", "q"]].dropna()
    return sorted(tuple(row) for row in found.itertuples(index=False))


def rows(seed: int, count: int = 150) -> tuple[list[Any], list[Any]]:
    random = np.random.default_rng(seed)
    made = []
    for step in (4, 30):
        clock, found = np.zeros(4, int), []
        for _ in range(count):
            k = int(random.integers(4))
            clock[k] += random.integers(1, step)
            found.append((k, int(clock[k]), float(random.normal())))
        made.append(found)
    return made[0], made[1]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("seed", range(4))
def test_a_view_has_what_pandas_merges_after_every_batch(seed: int, kind: str) -> None:
    trades, quotes = rows(seed)
    random = np.random.default_rng(seed)
    db = viewlet.connect()
    view = declare(db, kind)
    told = Counter[str]()

    def note(epoch: int, changes: Any) -> None:
        for row in changes.to_pylist():
            told[str((row["k"], row["t"], row["p"], row["q"]))] += row["_multiplicity"]

    view.subscribe(note)
    done = {"trades": 0, "quotes": 0}
    parts = {"trades": trades, "quotes": quotes}
    while any(done[name] < len(parts[name]) for name in done):
        name = str(random.choice(list(done)))
        size = int(random.choice([1, 10, 60]))
        batch = parts[name][done[name] : done[name] + size]
        done[name] += len(batch)
        if batch:
            db.insert(name, batch)
        expected = merged(trades[: done["trades"]], quotes[: done["quotes"]])
        assert sorted(view.rows()) == expected
        assert +told == Counter(map(str, expected))
    tables = {
        "trades": pa.table(dict(zip("ktp", zip(*trades, strict=True), strict=True))),
        "quotes": pa.table(dict(zip("ktq", zip(*quotes, strict=True), strict=True))),
    }
    query = source("trades", key="k", time="t", value="p", is_timestamp=False).sample(1)
    query = query.as_of(source("quotes", key="k", time="t", value="q", is_timestamp=False), 40)
    for flush in (False, True):
        assert sorted(tuple(row.values()) for row in query.run(tables, flush=flush).to_pylist()) == expected


def test_late_rows_corrections_and_deletes() -> None:
    trades, quotes = rows(9)
    db = viewlet.connect()
    view = declare(db, "TABLE")
    db.insert("trades", trades)
    db.insert("quotes", quotes[80:])
    db.insert("quotes", quotes[:80])
    assert sorted(view.rows()) == merged(trades, quotes)
    db.delete("quotes", quotes[20:60:3])
    left = [row for i, row in enumerate(quotes) if not (20 <= i < 60 and (i - 20) % 3 == 0)]
    assert sorted(view.rows()) == merged(trades, left)
    db.delete("trades", trades[10:140:7])
    assert sorted(view.rows()) == merged(
        [row for i, row in enumerate(trades) if not (10 <= i < 140 and (i - 10) % 7 == 0)], left
    )
    with pytest.raises(viewlet.DataError):
        db.apply({"quotes": [(0, 10_000, 1.0)], "trades": [(0, 10_001, 2.0), (0, 10_001, 3.0)]})
    db.insert("trades", [(0, 10_001, 2.0)])
    assert (0, 10_001, 2.0, 1.0) not in view.rows()


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_a_directory_continues_with_samples_that_may_change(kind: str, tmp_path: Path) -> None:
    trades, quotes = rows(5)
    for number, (begin, end) in enumerate([(0, 40), (40, 90), (90, 150)]):
        with viewlet.connect(tmp_path / "db") as db:
            view = db.view("v") if number else declare(db, kind)
            assert sorted(view.rows()) == (merged(trades[:begin], quotes[:begin]) if number else [])
            db.insert("trades", trades[begin:end])
            db.insert("quotes", quotes[begin:end])
            assert sorted(view.rows()) == merged(trades[:end], quotes[:end])


def test_partitions_show_samples_that_may_change(tmp_path: Path) -> None:
    trades, quotes = rows(6)
    db = connect_inline(tmp_path, 3, sync=False)
    view = declare(db, "TABLE")
    for begin in range(0, 150, 50):
        db.insert("trades", trades[begin : begin + 50])
        db.insert("quotes", quotes[begin : begin + 50])
        assert sorted(view.rows()) == merged(trades[: begin + 50], quotes[: begin + 50])


def test_other_operators_and_views_follow() -> None:
    trades, quotes = rows(7)
    db = viewlet.connect()
    db.execute(TABLES.format(kind="TABLE"))
    left, right = (
        db.signal(name, key="k", time="t", value=value) for name, value in (("trades", "p"), ("quotes", "q"))
    )
    query = left.sample(5, "linear", max_gap=50).as_of(right.sample(5, "zero", max_gap=200).ewm(0.5), 100).ewm(0.3)
    view = db.create_view("v", query)
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT k, COUNT(*) AS n, SUM(q) AS q FROM v GROUP BY k")
    for begin in range(0, 150, 30):
        db.insert("trades", trades[begin : begin + 30])
        db.insert("quotes", quotes[begin : begin + 30])
        found = query.run({"trades": db.table("trades"), "quotes": db.table("quotes")})
        assert sorted(view.rows()) == sorted(tuple(row.values()) for row in found.to_pylist())
        counted = db.execute("SELECT k, COUNT(*) AS n, SUM(q) AS q FROM v GROUP BY k ORDER BY k").to_pylist()
        assert [tuple(row.values())[:2] for row in counted] == [row[:2] for row in sorted(db.view("n").rows())]
        np.testing.assert_allclose([row["q"] for row in counted], [row[2] for row in sorted(db.view("n").rows())])


def test_the_grid_is_not_filled_between_two_values() -> None:
    """A day in milliseconds lies between two quotes; what is computed is what there are trades for."""
    db = viewlet.connect()
    view = declare(db, "TABLE", gap=10**9)
    day = 86_400_000
    db.insert("quotes", [(1, day * n, float(n)) for n in range(20)])
    db.insert("trades", [(1, day * n + 7, -1.0) for n in range(20)])
    assert view.rows() == [(1, day * n + 7, -1.0, float(n)) for n in range(20)]


def test_a_batch_costs_no_more_the_longer_the_other_signal_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = [0]
    together = viewlet.signals.backlog.together

    def counting(parts: Any) -> Any:
        copied[0] += sum(map(len, parts))
        return together(parts)

    db = viewlet.connect()
    view = declare(db, "STREAM", gap=10**6)
    db.insert("quotes", [(1, 0, 5.0)])
    for module in ("backlog", "operators.as_of", "output"):
        monkeypatch.setattr(f"viewlet.signals.{module}.together", counting)
    for begin in range(0, 4000, 20):
        db.insert("trades", [(1, t, 1.0) for t in range(begin, begin + 20)])
    assert copied[0] < 6 * 4000 * np.log2(200)
    assert len(view.rows()) == 4000


def test_arrays_have_the_last_values_too() -> None:
    signal = source(time="t", value="v", is_timestamp=False).sample(1)
    x = np.arange(6.0)
    query = signal.as_of(signal.where(np.isfinite).downsample(3), 2)
    np.testing.assert_array_equal(query.run(x), [[i, i // 3 * 3] for i in range(6)])
    assert (signal.as_of(signal.shift(1), 5)).form.names == ("v", "v_2")
    with pytest.raises(SignalError, match="needs equal steps"):
        source(time="t", value="v").as_of(signal)
