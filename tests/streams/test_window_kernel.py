"""Windows merged in this process: the tree over parts, groups as numbers, and views that use them."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from tests.streams.model import Model, Row, at
from tests.streams.test_oracle import M, grouped, play
from viewlet.errors import DataError
from viewlet.streams.group_codes import GroupCodes
from viewlet.streams.window_kernel import NotNativeError, Tree, cover


def maintainer(db: viewlet.Connection) -> Any:
    return db._session.database().host.warehouse.maintainer  # type: ignore[attr-defined]


@pytest.mark.parametrize("levels", [0, 1, 3])
def test_a_cover_has_every_part_once(levels: int) -> None:
    for low in range(-9, 9):
        for high in range(low, low + 20):
            parts = [(index << level) + at for level, index in cover(low, high, levels) for at in range(1 << level)]
            assert parts == list(range(low, high + 1))
    assert len(cover(1, 198, 7)) <= 14


@pytest.mark.parametrize("function", ["SUM", "MIN", "MAX"])
def test_trees_merge_what_the_leaves_have(function: str) -> None:
    chance = np.random.default_rng(3)
    tree, leaves = Tree(function, False, 3), {}
    for step in range(60):
        part, count = int(chance.integers(0, 20)), 5 + step
        size = 4 if step % 3 else count  # few groups, or all
        slots = chance.permutation(count)[:size]
        values = chance.integers(-99, 99, size) * (1 if step < 30 else 2**33)
        leaf = leaves.setdefault(part, {})
        tree.put(part, slots, values, count)
        leaf.update(zip(slots.tolist(), values.tolist(), strict=True))
        low = int(chance.integers(0, 20))
        high = min(19, low + 11)
        found = tree.window(low, high, count)
        merge = {"SUM": sum, "MIN": min, "MAX": max}[function]
        for slot in range(count):
            here = [leaves[each][slot] for each in range(low, high + 1) if slot in leaves.get(each, {})]
            assert found[slot] == (merge(here) if here else tree.merge.identity)


def test_sums_beyond_64_bits_are_left_to_the_host() -> None:
    tree = Tree("SUM", False, 2)
    for part in range(4):
        tree.put(part, np.array([0]), np.array([2**61]), 1)
    assert tree.window(0, 2, 1)[0] == 3 * 2**61
    with pytest.raises(NotNativeError):
        tree.window(0, 3, 1)


def test_groups_are_numbered_and_read_back() -> None:
    codes = GroupCodes(4)
    rows = [("a", 1, date(2020, 1, 2), True), (None, 1, None, None), ("b", None, date(1960, 1, 1), False)]
    more = [("a", -7, None, True), rows[1], ("c", 2**62, None, None), rows[0]]
    types = (pa.string(), pa.int64(), pa.date32(), pa.bool_())
    numbers = []
    for batch in (rows, more):
        columns = [
            pa.chunked_array([pa.array(values, kind)])
            for values, kind in zip(zip(*batch, strict=True), types, strict=True)
        ]
        numbers.append(codes.encode(columns, len(batch)).tolist())
    assert sorted(numbers[0]) == [0, 1, 2]
    assert sorted(numbers[1]) == [*sorted([numbers[0][0], numbers[0][1]]), 3, 4]
    assert numbers[1][1::2] == [numbers[0][1], numbers[0][0]]
    order = np.array(numbers[1])
    assert list(zip(*(column.to_pylist() for column in codes.take(order)), strict=True)) == more


QUERY = """CREATE VIEW v AS SELECT g, MIN(x) AS least, MAX(x) AS most, SUM(x) AS x, AVG(x) AS mean, COUNT(*) AS n
    FROM m [WINDOW 5 MINUTES] GROUP BY g HAVING COUNT(*) > 1"""


def test_windows_under_late_rows_deletes_and_failures() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute(QUERY)

    def window(model: Model, number: int) -> list[Row]:
        rows = [row for each in range(number - 4, number + 1) for row in model.part(each)]
        found: list[Row] = []
        for key, group in grouped(rows).items():
            known = [row[2] for row in group if isinstance(row[2], int)]
            values = (min(known), max(known), sum(known), sum(known) / len(known)) if known else (None,) * 4
            if len(group) > 1:
                found.append((key, *values, len(group)))
        return found

    def check(model: Model) -> None:
        with pytest.raises(DataError):
            db.apply({"m": [{"ts": at(60 * model.closed - 90), "g": "gone", "x": 1, "_multiplicity": -1}]})
        parts = [round((part.start - at(0)).total_seconds() / 60) for part in db.view("v").parts()]
        wanted = [(*row, at(60 * number)) for number in parts for row in window(model, number)]
        assert sorted(db.view("v").rows(), key=repr) == sorted(wanted, key=repr)

    play(db, 5, check)
    assert "v" in maintainer(db).kernels


def test_values_that_the_kernel_does_not_know_are_merged_by_the_host() -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x DOUBLE, y BIGINT, d DATE) PARTITION LENGTH 60 BY ts")
    db.execute("CREATE VIEW v AS SELECT g, MAX(x) AS x, MIN(y) AS y FROM m [WINDOW 3 MINUTES] GROUP BY g")
    db.execute("CREATE VIEW w AS SELECT g, MAX(d) AS d, COUNT(*) AS n FROM m [WINDOW 3 MINUTES] GROUP BY g")
    db.execute("CREATE VIEW f AS SELECT x, MAX(y) AS y FROM m [WINDOW 3 MINUTES] GROUP BY x")
    rows = [
        (at(0), "a", 3.5, 2**63 - 1, date(2020, 1, 1)),
        (at(60), "a", 1.0, 5, None),
        (at(120), "b", -1.0, None, None),
    ]
    db.insert("m", rows)
    db.close_parts("m", at(300))
    assert [row["y"] for minute in (0, 60) for row in db.view("v").part(at(minute)).to_pylist()] == [2**63 - 1, 5]
    assert db.view("v").part(at(240)).to_pylist() == [{"g": "b", "x": -1.0, "y": None, "part_timestamp": at(240)}]
    assert [row[1:3] for row in db.view("w").rows() if row[-1] == at(60)] == [(date(2020, 1, 1), 2)]
    assert maintainer(db).views["f"].native is None


def test_dead_groups_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.streams.window_kernel.SPARE", 4)
    db = viewlet.connect()
    db.execute(M)
    db.execute("CREATE VIEW v AS SELECT g, MAX(x) AS x FROM m [WINDOW 2 MINUTES] GROUP BY g")
    chance = random.Random(1)
    for minute in range(30):
        db.insert("m", [(at(60 * minute), f"g{minute}", chance.randrange(9)), (at(60 * minute), "all", minute)])
    assert len(maintainer(db).kernels["v"]._codes) < 15
    assert sorted(row[0] for row in db.view("v").rows() if row[-1] == at(60 * 28)) == ["all", "g27", "g28"]
