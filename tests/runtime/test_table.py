"""Flat tables compared with a dictionary: checks, changes, and how changes are undone without a copy of the arrays."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from viewlet.changes import ColumnChange, RowChange
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.table import FlatTable, RowBatch
from viewlet.types import BIGINT, DOUBLE, VARCHAR, Column, Row, Table

COLUMNS = (Column("s", VARCHAR), Column("k", BIGINT), Column("x", DOUBLE))


def made(key: tuple[str, ...]) -> FlatTable:
    return FlatTable(Table("t", COLUMNS, primary_key=key), StringDictionary(), {0} if key == ("k",) else ())


def batch(table: FlatTable, rows: dict[Row, int]) -> RowBatch:
    found = table.batch(RowChange(rows))
    assert found is not None
    return found


def apply(table: FlatTable, rows: dict[Row, int]) -> None:
    table.begin()
    table.add(batch(table, rows))


@pytest.mark.parametrize("key", [(), ("k",), ("k", "s")])
def test_random_batches_done_and_undone(key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.runtime.table._FEW_BYTES", 40)
    random, table, model = Random(len(key)), made(key), dict[Row, int]()
    for step in range(60):
        change = {row: -count for row, count in model.items() if random.random() < 0.3}
        for _ in range(random.choice([1, 5, 20])):
            row: Row = (
                random.choice(["a", "bü" * random.randrange(9), None]),
                random.randrange(40 + 10 * step),
                random.choice([0.5, None]),
            )
            taken = {tuple(r[1] if n == "k" else r[0] for n in key) for r in (*model, *change)} if key else set()
            if tuple(row[1] if n == "k" else row[0] for n in key) not in taken and row not in change:
                change[row] = 1 if key else random.randrange(1, 4)
        given = batch(table, change)
        assert (table.first_absent(given), table.first_duplicate(given)) == (-1, -1)
        table.begin()
        table.undo(given, None)  # before the change
        if step % 3 == 0:
            table.add(given)
            table.undo(given, None)
            table.undo(given, None)  # again, as after an interrupted rollback
            assert table.columns().rows() == model
            table.begin()
        table.add(given)
        for row, count in change.items():
            model[row] = model.get(row, 0) + count
        model = {row: count for row, count in model.items() if count}
        assert table.columns().rows() == model
        assert (len(table), table.total) == (len(model), sum(model.values()))
        keys: list[Any] = [tuple(r[1] if n == "k" else r[0] for n in key) if key else r for r in model]
        assert table.with_keys([*keys[:5], *keys[:2]]).rows() == {row: model[row] for row in list(model)[:5]}


def test_first_rows_that_break_a_rule() -> None:
    table = made(("k",))
    apply(table, {("a", 1, None): 1, ("b", 2, None): 1})
    absent = batch(table, {("a", 1, None): -1, ("x", 2, None): -1, ("y", 3, None): -1})
    assert table.first_absent(absent) == 1
    assert table.row(absent, 1) == ("x", 2, None)
    assert table.count(absent, 1) == 0
    twice = batch(table, {("n", 5, None): 1, ("c", 2, 0.5): 1, ("o", 5, None): 1})
    assert table.first_duplicate(twice) == 0
    assert table.first_duplicate(batch(table, {("c", 2, 0.5): 1, ("b", 2, None): -1})) == -1
    assert table.first_duplicate(batch(table, {("c", 9, 0.5): 2})) == 0


def test_rows_that_repeat_in_a_change_are_merged_before_they_are_deleted() -> None:
    table = made(())
    apply(table, {("a", 1, None): 3})
    row = RowChange({("a", 1, None): 1}).columns(table.schema, range(3), table.dictionary)
    words = {i: np.repeat(column, 4) for i, column in row.words.items()}
    deleted = table.batch(ColumnChange(words, np.array([-1, -1, -1, -1]), table.schema, table.dictionary))
    assert deleted is not None
    assert (len(deleted), table.first_absent(deleted)) == (1, 0)


def test_a_sample_is_always_the_same() -> None:
    table = made(("k",))
    apply(table, {("a", k, None): 1 for k in range(50)})
    first, again = (table.sample(10).rows() for _ in range(2))
    assert first == again
    assert len(first) == 10
    assert table.sample(100).rows() == table.columns().rows()


def strings(table: FlatTable, texts: list[str | None], first: int = 0) -> RowBatch:
    """Rows with keys from `first` on, their strings as Arrow."""
    rows = len(texts)
    words = {1: np.arange(first, first + rows), 2: np.full(rows, 0.5)}
    change = ColumnChange(
        words, np.ones(rows, np.int64), table.schema, table.dictionary, {0: pa.array([*texts, "cut"]).slice(0, rows)}
    )
    found = table.batch(change)
    assert found is not None
    return found


@pytest.mark.parametrize("type", [pa.string(), pa.large_string()])
def test_strings_of_arrow_are_those_of_rows(type: pa.DataType) -> None:
    texts = ["", None, "ß", "x" * 300, "日本", "\0"]
    table, columns = made(("k",)), {1: np.arange(6), 2: np.zeros(6)}
    sliced = pa.array(["before", *texts], type).slice(1)
    change = ColumnChange(columns, np.ones(6, np.int64), table.schema, table.dictionary, {0: sliced})
    table.begin()
    taken = table.batch(change)
    assert taken is not None
    table.add(taken)
    expected: dict[Row, int] = {(text, k, 0.0): 1 for k, text in enumerate(texts)}
    assert table.columns().rows() == change.rows() == expected
    assert table.first_absent(batch(table, dict.fromkeys(expected, -1))) == -1
    for k, text in enumerate(texts):
        assert table.first_absent(batch(table, {((text or "") + "!", k, 0.0): -1})) == 0
    assert not len(table.dictionary)


def test_bytes_of_strings_that_are_gone_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.runtime.table._FEW_BYTES", 1000)
    table = made(("k",))
    apply(table, {(f"kept {k}", -k, None): 1 for k in range(1, 20)})
    kept = table.columns().rows()
    for step in range(50):
        rows: dict[Row, int] = {(f"{step} {k} " + "x" * 100, k, None): 1 for k in range(20)}
        apply(table, rows)
        apply(table, dict.fromkeys(rows, -1))
    assert table.columns().rows() == kept
    assert len(table._heap.bytes) < 20_000


def test_a_refused_batch_leaves_the_strings() -> None:
    table = made(("k",))
    table.begin()
    table.add(strings(table, ["a", "b"]))
    assert table.first_duplicate(strings(table, ["other", "strings"])) == 0
    table.begin()
    table.add(strings(table, ["c", None], first=2))
    expected: dict[Row, int] = {(text, k, 0.5): 1 for k, text in enumerate(["a", "b", "c", None])}
    assert table.columns().rows() == expected


def test_a_string_too_long_for_its_word_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.runtime.text_heap.LONGEST", 7)
    table = made(("k",))
    with pytest.raises(OverflowError):
        table.batch(RowChange({("x" * 8, 1, None): 1}))
