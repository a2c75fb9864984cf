"""Strings have codes while something uses them: the dictionary, and views whose strings are swept after every batch."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import viewlet
from viewlet.changes import ColumnChange
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Layout, stores_in_memory
from viewlet.types import BIGINT, VARCHAR, Column, Table

TEXTS = [f"text {i}" for i in range(10)]


@pytest.fixture(autouse=True)
def _only_stores_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in what earlier tests have left would save strings: any word of any store counts as a code."""
    others = list(stores_in_memory())
    known = set(map(id, others))

    def own() -> Iterator[Any]:
        assert len(others) == len(known)  # they are alive: nothing else has their addresses
        return (store for store in stores_in_memory() if id(store) not in known)

    monkeypatch.setattr("viewlet.runtime.dictionary.stores_in_memory", own)


def stored(codes: Any) -> FlatStore:
    """A store whose keys are these codes."""
    store = FlatStore(Layout("s", 1, ("count",), ("count",)))
    store.fill(np.array([[code, -1] for code in codes], np.int64).reshape(-1, 2))
    return store


def test_codes_of_stored_strings_stay() -> None:
    dictionary = StringDictionary()
    codes = dictionary.encode(TEXTS)
    store = stored(codes[::2])
    dictionary.sweep()
    assert [dictionary.text(code) for code in codes[::2]] == TEXTS[::2]
    assert [dictionary.known(text) for text in TEXTS[1::2]] == [None] * 5
    assert len(dictionary) == 5
    del store


def test_free_codes_are_given_again_the_lowest_first() -> None:
    dictionary = StringDictionary()
    codes = dictionary.encode(TEXTS)
    store = stored(codes[5:7])
    dictionary.sweep()
    assert dictionary.encode(["x", None, "y", "text 5"]).tolist() == [0, NULL, 1, 5]
    assert len(dictionary.texts) == 7  # those at the end are gone
    del store


def test_what_has_changed_since() -> None:
    dictionary = StringDictionary()
    start, _ = dictionary.changes_since(-1)
    first = dictionary.encode(TEXTS[:3])
    after, codes = dictionary.changes_since(start)
    assert list(codes) == first.tolist()
    store = stored(first[:1])
    dictionary.sweep()
    assert dictionary.changes != after
    swept, codes = dictionary.changes_since(after)
    assert list(codes) == []  # those that are still there mean what they meant
    again = dictionary.encode(["other"])
    assert list(dictionary.changes_since(after)[1]) == again.tolist()
    assert list(dictionary.changes_since(swept)[1]) == again.tolist()
    assert set(dictionary.changes_since(start)[1]) >= {*first[:1].tolist(), *again.tolist()}
    del store


def test_a_change_that_somebody_keeps_keeps_its_strings() -> None:
    dictionary = StringDictionary()
    table = Table("t", (Column("k", VARCHAR), Column("v", BIGINT)))
    change = ColumnChange({0: dictionary.encode(TEXTS), 1: np.arange(10)}, np.ones(10, np.int64), table, dictionary)
    dictionary.sweep()
    dictionary.encode(["new"])
    assert sorted(row[0] for row in change.rows()) == TEXTS
    del change
    gc.collect()
    dictionary.sweep()
    assert len(dictionary) == 0


class Constants:
    """A holder of a code, and of one string made from each of the first strings."""

    def __init__(self, code: int, table: list[int]) -> None:
        self.code, self.table = code, table

    def held_codes(self) -> Any:
        return np.array([self.code])

    def derived_codes(self) -> list[Any]:
        return [np.array([NULL, *self.table])]


def test_constants_and_strings_made_from_strings_stay() -> None:
    dictionary = StringDictionary()
    dictionary.encode(TEXTS)
    holder = Constants(0, [3, NULL, NULL, 7])  # 0 -> 3 -> 7
    dictionary.add_holder(holder)
    dictionary.sweep()
    assert dictionary.in_use() == [0, 3, 7]
    del holder
    dictionary.sweep()
    assert dictionary.in_use() == []


def test_restored_codes_are_the_places() -> None:
    dictionary = StringDictionary()
    dictionary.restore(["a", None, "b"])
    assert dictionary.encode(["b", "a", "c", "d"]).tolist() == [2, 0, 1, 3]


def test_memory_follows_what_is_in_use() -> None:
    dictionary = StringDictionary()
    store = stored([])
    for batch in range(100):
        codes = dictionary.encode([f"{batch} {i}" for i in range(500)])
        store.fill(np.array([[code, 1] for code in codes], np.int64))
        dictionary.sweep_if_due()
        assert len(dictionary.texts) < 25_000
    assert {dictionary.text(int(word)) for word in store.pool[:500, 0]} == {f"99 {i}" for i in range(500)}


# -- views -----------------------------------------------------------------------------------------------------------

VIEWS = {
    "groups": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k",
    "extremes": "SELECT g, MIN(k) AS low, MAX(k) AS high FROM t GROUP BY g",
    "upper": "SELECT UPPER(k) AS u, COUNT(*) AS n FROM t GROUP BY UPPER(k)",
    "joined": "SELECT k || '-' || g AS j, SUM(v) AS s FROM t GROUP BY k || '-' || g",
    "compared": "SELECT g, COUNT(*) AS n FROM t WHERE k < 'm' OR SUBSTRING(k, 2, 1) = g GROUP BY g",
    "nested": "SELECT UPPER(k || g) AS u, MAX(LOWER(g || k)) AS m FROM t GROUP BY UPPER(k || g)",
    "pairs": "SELECT a.k, b.g, COUNT(*) AS n FROM t a JOIN d b ON a.g = b.k WHERE b.g LIKE '%1%' GROUP BY a.k, b.g",
    "cases": "SELECT CASE WHEN v > 2 THEN k ELSE 'other' END AS c, COUNT(*) AS n FROM t "
    "GROUP BY CASE WHEN v > 2 THEN k ELSE 'other' END",
    "ordered": "SELECT k, g FROM t WHERE v > 1 ORDER BY k DESC, g LIMIT 3",
}
COLUMNS = "(k VARCHAR, g VARCHAR, v INTEGER)"


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Unused strings are removed after every batch; how many were."""
    counts: list[int] = []

    def sweep(dictionary: StringDictionary) -> None:
        before = len(dictionary)
        dictionary.sweep()
        counts.append(before - len(dictionary))

    monkeypatch.setattr(StringDictionary, "sweep_if_due", sweep)
    return counts


def random_row(chance: random.Random) -> tuple[str | None, str | None, int]:
    texts = [None, "", "m", "é"] if chance.random() < 0.2 else [f"{chance.choice('abmxyz')}{chance.randrange(10**6)}"]
    return chance.choice(texts), chance.choice([None, *"1a2b3"]), chance.randrange(5)


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_views_whose_strings_are_swept_after_every_batch(kind: str, sweeps: list[int]) -> None:
    chance, oracle = random.Random(kind), duckdb.connect()
    db = viewlet.connect(engine="compiled")
    for name in "td":
        db.execute(f"CREATE {kind} {name} {COLUMNS}")
    for name, sql in VIEWS.items():
        if "LIMIT" not in sql or kind == "TABLE":
            db.execute(f"CREATE VIEW {name} AS {sql}")
    present: dict[str, list[list[Any]]] = {"t": [], "d": []}
    for step in range(30):
        name = chance.choice("ttd")
        rows = [random_row(chance) for _ in range(chance.choice([1, 3, 100]))]
        db.insert(name, arrow(rows) if step % 2 else rows)
        present[name].append(rows)
        if len(present[name]) > 2:
            db.delete(name, present[name].pop(chance.randrange(2)))
        for each, batches in present.items():
            contents = arrow([row for batch in batches for row in batch])
            oracle.register("contents", contents)
            oracle.execute(f"CREATE OR REPLACE TABLE {each} AS SELECT * FROM contents")
        for view in map(db.view, db.views):
            got = sorted((tuple(row) for row in view.rows()), key=repr)
            assert got == sorted(oracle.execute(VIEWS[view.name]).fetchall(), key=repr), (step, view.name)
    assert sum(sweeps) > 500


def arrow(rows: list[Any]) -> pa.Table:
    columns = {name: [row[i] for row in rows] for i, name in enumerate("kgv")}
    return pa.table(columns, pa.schema([("k", pa.string()), ("g", pa.string()), ("v", pa.int32())]))


def test_a_directory_keeps_codes_with_free_ones_among_them(tmp_path: Path, sweeps: list[int]) -> None:
    def rows(view: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in view.rows())

    with viewlet.connect(tmp_path / "d", engine="compiled") as db:
        db.execute("CREATE STREAM s (k VARCHAR, v INTEGER)")
        db.execute("CREATE VIEW q AS SELECT k, UPPER(k) AS u, SUM(v) AS n FROM s GROUP BY k, UPPER(k)")
        db.insert("s", [(f"k{i}", 1000 + i) for i in range(20)])
        db.delete("s", [(f"k{i}", 1000 + i) for i in range(0, 20, 2)])
        db.insert("s", [("new", 1)])
        db.insert("s", [("newest", 1)])
        db.checkpoint()
        db.insert("s", [("newer", 2)])
        before = rows(db.view("q"))
    with viewlet.connect(tmp_path / "d") as db:
        assert rows(db.view("q")) == before
        db.insert("s", [(f"more{i}", i) for i in range(20)])
        db.delete("s", [(f"more{i}", i) for i in range(20)])
        assert rows(db.view("q")) == before
    assert sum(sweeps) > 10


def test_state_in_files_is_written_again_without_strings_that_nothing_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from viewlet.connection.spark_facade import connect_inline
    from viewlet.spark.run.state import unit_state
    from viewlet.spark.run.state.partition import forget

    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "mapped"))
    monkeypatch.setattr(unit_state, "SPARE_STRINGS", 20)
    reference = viewlet.connect(engine="interpreter")
    sizes = []
    with connect_inline(tmp_path / "state", 2, sync=False, engine="compiled") as db:
        for each in (db, reference):
            each.execute("CREATE STREAM s (k VARCHAR, v INTEGER)")
            each.execute("CREATE VIEW q AS SELECT k, UPPER(k) AS u, SUM(v) AS n FROM s GROUP BY k, UPPER(k)")
        rows: list[tuple[str, int]] = []
        for batch in range(30):
            before, rows = rows, [(f"a string of batch {batch}, number {i}", i) for i in range(20)]
            for each in (db, reference):
                each.insert("s", rows)
                if before:
                    each.delete("s", before)
            if batch % 10 == 4:
                forget()  # other processes continue
            assert sorted(db.view("q").rows()) == sorted(reference.view("q").rows()), batch
            sizes.append(sum(path.stat().st_size for path in tmp_path.glob("mapped/*/*/*/strings")))
    forget()
    assert max(sizes) < 20_000, sizes  # 30 batches have 40,000
