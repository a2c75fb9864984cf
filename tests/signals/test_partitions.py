"""Signal views in the partitions of Spark: the same bits, after restarts of the driver too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.signal as ss

import viewlet
from tests.signals.events import SCHEMA, irregular, over, same_bits
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
