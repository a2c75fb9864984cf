"""Tables in a dictionary and in flat arrays: the same rows, the same refusals, whatever they hold."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from tests.tables.model import Model, arrow
from viewlet.changes import arrow_reader
from viewlet.connection.journal import LogJournal
from viewlet.runtime.durable.rows import from_arrow
from viewlet.tables import store

KEYS = {"no key": (), "one column": ("k",), "two columns": ("name", "k"), "a double": ("k", "ratio")}


def is_flat(db: viewlet.Connection, table: str = "t") -> bool:
    with db._session.open() as database:
        return database.tables[table].store.is_flat


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("key", KEYS)
def test_random_changes(key: str, engine: str, flat: None) -> None:
    model = Model(viewlet.connect(engine=engine), KEYS[key], seed=len(key))
    for _ in range(60):
        model.step()
    assert is_flat(model.db) == (engine == "compiled")
    assert model.db.epoch > 20


@pytest.mark.parametrize("key", KEYS)
def test_random_changes_in_a_directory(key: str, flat: None, tmp_path: Path) -> None:
    model = Model(viewlet.connect(tmp_path, engine="compiled", fsync=False), KEYS[key], seed=7)
    for number in range(24):
        model.step()
        if number % 8 == 5:
            if number == 13:
                model.db.checkpoint()
            model.db.close()
            model.db = viewlet.connect(tmp_path, engine="compiled", fsync=False)
            assert is_flat(model.db)
            model.check()
    model.db.close()


@pytest.mark.parametrize(
    ("engine", "more", "form"), [("auto", [], True), ("auto", [-(2**63)], False), ("interpreter", [], False)]
)
def test_rows_of_a_snapshot(engine: str, more: list[int], form: bool, flat: None, tmp_path: Path) -> None:
    """They go to flat arrays where views may be compiled and every value fits a word, NULLs among them."""
    rows = [(k, None, k % 3 == 0, 0.5 * k or None, Decimal("1.50")) for k in (*more, *range(9))]
    with viewlet.connect(tmp_path, engine=engine, fsync=False) as db:
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR, b BOOLEAN, d DOUBLE, m DECIMAL(18,2))")
        db.insert("t", rows)
    with viewlet.connect(tmp_path, engine=engine, fsync=False) as db:
        assert is_flat(db) == form
        assert rows_of(db) == rows
        db.delete("t", [rows[3]])
        with pytest.raises(viewlet.DataError, match="duplicate key"):
            db.insert("t", [(*rows[4][:4], Decimal("2.50"))])
        assert rows_of(db) == [*rows[:3], *rows[4:]]


def test_a_log_of_columns_is_replayed_without_flat_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without Numba, or with `VIEWLET_JIT=0`."""
    monkeypatch.setattr(store, "flat_from", lambda: 1)
    monkeypatch.setattr(arrow_reader, "FEW_ROWS", 0)
    db = viewlet.connect(tmp_path, fsync=False)
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR)")
    db.insert("t", pa.table({"k": [1, 2], "s": ["a", None]}))
    db.apply({"t": pa.table({"k": [1, 1], "s": ["a", "b"], "_multiplicity": [-1, 1]})})
    monkeypatch.setattr(LogJournal, "checkpoint", lambda self: None)
    db.close()
    monkeypatch.undo()
    again = viewlet.connect(tmp_path, fsync=False)
    assert not is_flat(again)
    assert rows_of(again) == [(1, "b"), (2, None)]
    again.close()


def test_a_snapshot_is_the_same_in_both_forms(flat: None) -> None:
    model = Model(viewlet.connect(engine="compiled"), seed=2)
    for _ in range(12):
        model.step()
    with model.db._session.open() as database:
        rows = database.tables["t"].store
        assert rows.is_flat
        written = rows.held_arrow()
        assert list(rows.keys())  # as the interpreter reads it
        assert not rows.is_flat
        expected = rows.held_arrow()
    width = len(expected.column_names) - 1
    assert written.column_names == expected.column_names
    assert repr(sorted(from_arrow(written, width), key=repr)) == repr(sorted(from_arrow(expected, width), key=repr))


def rows_of(db: viewlet.Connection) -> list[tuple[Any, ...]]:
    return db.table("t").rows()


@pytest.fixture
def db(flat: None) -> viewlet.Connection:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT, s VARCHAR)")
    db.insert("t", pa.table({"k": [1, 2, 2], "s": ["a", "b", "b"]}))
    assert is_flat(db)
    return db


def test_a_change_that_cancels_out_is_no_batch(db: viewlet.Connection) -> None:
    epoch = db.epoch
    assert db.apply({"t": pa.table({"k": [5, 5], "s": ["x", "x"], "_multiplicity": [1, -1]})}) == epoch
    assert db.table("t").rows() == [(1, "a"), (2, "b"), (2, "b")]


def test_how_often_a_row_is_there_is_in_the_message(db: viewlet.Connection) -> None:
    with pytest.raises(viewlet.DataError, match=r"cannot delete \(k=2, s='b'\) from t: it is there 2 times"):
        db.delete("t", pa.table({"k": [2, 2, 2], "s": ["b", "b", "b"]}))
    with pytest.raises(viewlet.DataError, match=r"cannot delete \(k=3, s='c'\) from t: it is not there"):
        db.delete("t", pa.table({"k": [1, 3], "s": ["a", "c"]}))


def test_a_number_that_means_null_in_flat_arrays(db: viewlet.Connection) -> None:
    db.insert("t", [(-(2**63), "least")])
    assert not is_flat(db)
    assert db.table("t").rows()[0] == (-(2**63), "least")
    db.insert("t", pa.table({"k": [7], "s": ["g"]}))
    assert not is_flat(db)
    db.delete("t", [(-(2**63), "least")])
    db.insert("t", pa.table({"k": [8], "s": ["h"]}))
    assert is_flat(db)
    assert [k for k, _ in rows_of(db)] == [1, 2, 2, 7, 8]


def test_multiplicities_that_overflow(db: viewlet.Connection) -> None:
    many = 2**62 - 1
    row = {"k": [9], "s": ["x"]}
    db.apply({"t": pa.table(row | {"_multiplicity": [many]})})
    db.apply({"t": pa.table(row | {"_multiplicity": [many]})})
    assert not is_flat(db)
    with pytest.raises(viewlet.DataError, match=r"more than 2\^63 times"):
        db.apply({"t": pa.table(row | {"_multiplicity": [5]})})
    assert db.table("t").stats()["rows"] == 2 * many + 3
    db.apply({"t": pa.table(row | {"_multiplicity": [-2 * many]})})
    assert rows_of(db) == [(1, "a"), (2, "b"), (2, "b")]


def test_a_table_of_wide_decimals_stays_a_dictionary(flat: None) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, wide DECIMAL(38,2))")
    wide = pa.array([Decimal("9" * 30 + ".01"), None], pa.decimal128(38, 2))
    db.insert("t", pa.table({"k": [1, 2], "wide": wide}))
    assert not is_flat(db)
    assert rows_of(db) == [(1, Decimal("9" * 30 + ".01")), (2, None)]


def test_null_in_a_key_is_refused(flat: None) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR)")
    db.insert("t", pa.table({"k": [1], "s": ["a"]}))
    with pytest.raises(viewlet.DataError, match="a PRIMARY KEY cannot be NULL"):
        db.insert("t", pa.table({"k": [2, None], "s": ["a", "b"]}))
    assert rows_of(db) == [(1, "a")]


def test_a_key_passes_from_row_to_row_in_one_batch(flat: None) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR)")
    db.insert("t", pa.table({"k": [1, 2], "s": ["a", "b"]}))
    swap = pa.table({"k": [1, 2, 1, 2], "s": ["b", "a", "a", "b"], "_multiplicity": [1, 1, -1, -1]})
    db.apply({"t": swap})
    assert rows_of(db) == [(1, "b"), (2, "a")]
    assert is_flat(db)


def test_the_interpreter_reads_a_flat_table(flat: None) -> None:
    """A view of the interpreter looks rows up in the table, which then is a dictionary; undone with the batch."""
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT, s VARCHAR); CREATE TABLE u (k BIGINT, x BIGINT)")
    db.insert("t", pa.table({"k": [1, 2], "s": ["a", "b"]}))
    with db._session.open() as database:
        rows = database.tables["t"].store
        database.host.log.begin()
        assert list(rows.slice((0,), (1,))) == [(1, "a")]
        assert not rows.is_flat
        rows.add((3, "c"), (1,))
        database.host.log.rollback()
        assert rows.is_flat
    assert rows_of(db) == [(1, "a"), (2, "b")]


def test_a_failed_batch_leaves_a_flat_table_as_it_was(flat: None) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR); CREATE TABLE u (k BIGINT, d DECIMAL(18,0))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT SUM(d * d * d) AS d FROM u")
    db.insert("t", pa.table({"k": [1, 2], "s": ["a", "b"]}))
    changes = pa.table({"k": [1, 1, 3], "s": ["a", "c", "d"], "_multiplicity": [-1, 1, 1]})
    with pytest.raises(viewlet.DataError):
        db.apply({"t": changes, "u": [(1, 10**17)]})
    assert rows_of(db) == [(1, "a"), (2, "b")]
    db.apply({"t": changes})
    assert rows_of(db) == [(1, "c"), (2, "b"), (3, "d")]


def test_statistics_of_a_flat_table(flat: None) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT, g BIGINT)")
    db.insert("t", pa.table({"k": list(range(3_000)), "g": [i % 3 for i in range(3_000)]}))
    with db._session.open() as database:
        size = database.tables["t"].store.size(2)
    assert size.rows == 3_000
    assert size.distinct[0] == pytest.approx(3_000, rel=0.1)
    assert size.distinct[1] == 3


def test_views_declared_over_a_flat_table(db: viewlet.Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    assert db.view("v").rows() == [("a", 1), ("b", 2)]
    assert is_flat(db)
    db.delete("t", [(2, "b")])
    assert db.view("v").rows() == [("a", 1), ("b", 1)]


def test_many_rows_come_and_go() -> None:
    """With compiled functions if they are on: stores grow, and slots are used again."""
    threshold, store.flat_from = store.flat_from, lambda: 1
    try:
        for key in ((), ("k",)):
            model = Model(viewlet.connect(engine="compiled"), key, seed=3)
            rows = {(k, None, 0, None, 0.5, None, f"n{k % 5}", None, None) for k in range(300)}
            model.apply(Counter(rows))
            model.apply(Counter({row: -1 for row in rows if row[0] % 3}))
            model.apply(Counter({(k, True, *row[2:]): 1 for row in rows if (k := row[0]) % 3}))
            model.apply(Counter(dict.fromkeys(model.rows, -1)))
            assert not model.rows
            assert arrow([]).num_rows == len(model.db.table("t")) == 0
    finally:
        store.flat_from = threshold


def test_strings_that_no_view_reads_have_no_codes_until_one_does(flat: None, tmp_path: Path) -> None:
    def batch(first: int, rows: int) -> pa.Table:
        keys = range(first, first + rows)
        notes = [None if k % 7 == 0 else f"note {k}" for k in keys]
        return pa.table({"k": keys, "colour": [f"colour {k % 3}" for k in keys], "note": notes})

    db = viewlet.connect(tmp_path, engine="compiled", fsync=False)
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, colour VARCHAR, note VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT colour, COUNT(*) AS n FROM t GROUP BY colour")
    db.insert("t", batch(0, 300))
    with db._session.open() as database:
        assert database.tables["t"].store.is_flat
        assert {text for text in database.host.dictionary.texts if text} == {"colour 0", "colour 1", "colour 2"}
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT note, COUNT(*) AS n FROM t GROUP BY note")
    db.insert("t", batch(300, 300))
    db.delete("t", batch(100, 300))
    with pytest.raises(viewlet.DataError, match="it is not there"):
        db.delete("t", pa.table({"k": [1], "colour": ["colour 1"], "note": ["note 2"]}))
    with pytest.raises(viewlet.DataError, match="duplicate key"):
        db.insert("t", batch(0, 1))
    for _ in range(2):
        left = {k: None if k % 7 == 0 else f"note {k}" for k in (*range(100), *range(400, 600))}
        assert [(k, note) for k, _, note in rows_of(db)] == list(left.items())
        assert Counter(dict(db.view("w").rows())) == Counter(left.values())
        assert sum(n for _, n in db.view("v").rows()) == 200 + 100
        db.execute("UPDATE t SET note = 'changed' WHERE k = 5")
        db.execute("UPDATE t SET note = 'note 5' WHERE k = 5")
        db.close()
        db = viewlet.connect(tmp_path, engine="compiled", fsync=False)
    db.close()


@pytest.mark.parametrize("rising", [True, False])
def test_keys_of_a_batch_in_order_and_not(rising: bool, flat: None) -> None:
    """Where keys increase from row to row, none occurs twice in the batch, and only the table is asked."""
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (j BIGINT, k BIGINT, s VARCHAR, PRIMARY KEY (j, k))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")

    def batch(rows: list[tuple[int, int, str, int]]) -> pa.Table:
        ordered = sorted(rows, key=lambda row: row[:2], reverse=not rising)
        return pa.table(dict(zip(("j", "k", "s", "_multiplicity"), map(list, zip(*ordered, strict=True)), strict=True)))

    present = {(j, k): "old" for j in range(-3, 6) for k in range(0, 6, 2)}
    db.apply({"t": batch([(j, k, s, 1) for (j, k), s in present.items()])})
    assert is_flat(db)
    for j, k in (min(present), (0, 2), max(present)):
        new = [(j, k + 1, "new", 1), (j + 1, 7, "new", 1), (j - 9, 0, "new", 1)]
        epoch = db.epoch
        for wrong in ([*new, (j, k, "new", 1)], [*new, (j, 9, "new", 2)], [*new, (j, k, "old", -1), (j, k, "new", 2)]):
            with pytest.raises(viewlet.DataError, match="duplicate key"):
                db.apply({"t": batch(wrong)})
        with pytest.raises(viewlet.DataError, match="cannot delete"):
            db.apply({"t": batch([*new, (j, k, "new", -1)])})
        assert db.epoch == epoch
        assert rows_of(db) == [(*key, s) for key, s in sorted(present.items())]
        db.apply({"t": batch([*new, (j, k, "old", -1)])})
        del present[j, k]
        present |= {(j, k): s for j, k, s, _ in new}
        assert rows_of(db) == [(*key, s) for key, s in sorted(present.items())]
        assert dict(db.view("v").rows()) == Counter(present.values())
