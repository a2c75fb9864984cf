"""Signal views in the partitions of Spark: the same bits, after restarts of the driver too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import SCHEMA, irregular, over, same_bits
from viewlet.changes import ColumnChange
from viewlet.connection.spark_facade import connect_inline

SOS = ss.butter(2, 0.2, output="sos")


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_groups_are_spread_and_survive_the_driver(kind: str, partitions: int, tmp_path: Path) -> None:
    history, random, told = irregular(3, rows=160), np.random.default_rng(1), list[int]()
    done = number = 0
    while done < len(history.rows):
        db = connect_inline(tmp_path, partitions, sync=False)
        if not done:
            db.execute(SCHEMA.format(kind=kind))
            query = over(db).sample(10, "linear", max_gap=100).sosfilt(SOS)
            db.create_view("v", query)
        db.view("v").subscribe(lambda epoch, changes: told.append(changes.num_rows))
        size = int(random.integers(1, 40))
        db.insert("events", history.rows[done : done + size])
        done, number = done + size, number + 1
        if number == 3:
            db.checkpoint()
        found = db.view("v").to_arrow()
        (db.close if number % 2 else db._host.cluster.checkpoint.close)()
    assert same_bits(found, query.run(history.table()))
    assert sum(told) == found.num_rows


def test_late_rows_and_deletes_of_a_table(tmp_path: Path) -> None:
    history = irregular(4, rows=80)
    db = connect_inline(tmp_path, 2, sync=False)
    db.execute(SCHEMA.format(kind="TABLE"))
    query = over(db).sample(10, "linear", max_gap=100).sosfilt(SOS)
    view = db.create_view("v", query)
    db.insert("events", history.rows[40:])
    db.insert("events", history.rows[:40])
    assert same_bits(view.to_arrow(), query.run(history.table()))
    db.delete("events", history.rows[10:30])
    left = type(history)([*history.rows[:10], *history.rows[30:]])
    assert same_bits(view.to_arrow(), query.run(left.table()))


def test_arrays_in_partitions(tmp_path: Path) -> None:
    history, told = irregular(5, rows=200), list[int]()
    db = connect_inline(tmp_path, 2, sync=False)
    db.execute(SCHEMA.format(kind="TABLE"))
    query = over(db).sample(10, "linear", max_gap=100).window(8, 4).rfft()
    view = db.create_view("v", query)
    view.subscribe(lambda epoch, changes: told.append(changes.num_rows))
    for begin in range(0, 200, 70):
        db.insert("events", history.rows[begin : begin + 70])
    assert same_bits(view.to_arrow(), query.run(history.table()))
    assert sum(told) == view.to_arrow().num_rows == len(view.rows())
    with pytest.raises(viewlet.UnsupportedError, match="arrays"):
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT g, COUNT(*) AS n FROM v GROUP BY g")


def test_columns_travel_as_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of all kinds, and NULLs; no row is made of a batch of columns."""
    schema = "CREATE STREAM r (site VARCHAR, id INTEGER, day DATE, up BOOLEAN, at TIMESTAMP NOT NULL, v DECIMAL(9,2))"
    random = np.random.default_rng(1)
    rows = [
        (
            site,
            int(random.integers(3)),
            f"2026-01-0{random.integers(1, 4)}",
            bool(k % 2),
            f"2026-01-02 00:0{k // 60}:{k % 60:02}",
            f"{k}.25",
        )
        for k, site in enumerate(random.choice(["x", "y", ""], 240))
    ]
    rows[7] = (None, None, None, None, *rows[7][4:])
    found = []
    for db in (viewlet.connect(), connect_inline(tmp_path, 3, sync=False)):
        db.execute(schema)
        query = db.signal("r", key=("site", "id", "day", "up"), time="at", value="v").sample(
            "1s", "linear", max_gap="1m"
        )
        view = db.create_view("v", query)
        for begin in range(0, 240, 80):
            part = viewlet.connect()
            part.execute(schema.replace("STREAM", "TABLE"))
            part.insert("r", rows[begin : begin + 80])
            table = part.table("r").to_arrow()
            if begin:
                monkeypatch.setattr(ColumnChange, "rows", None)
            db.insert("r", table.take(np.random.default_rng(begin).permutation(80)))
        monkeypatch.undo()
        found.append(view.to_arrow())
        assert found[-1].num_rows > 240
        db.close()
    assert found[0].equals(found[1])
