"""All forms of a change describe the same rows, and each is converted once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from viewlet.changes import Change, ColumnChange, RowChange, rows_to_arrow, to_changes
from viewlet.changes import word_codec as conversion
from viewlet.changes.product_change import product, to_product_change
from viewlet.errors import DataError
from viewlet.runtime.columns import to_columns
from viewlet.runtime.dictionary import StringDictionary
from viewlet.spark.run.execution.frame_change import FrameChange
from viewlet.types import BIGINT, BOOLEAN, DOUBLE, VARCHAR, Column, Table, decimal

TABLE = Table("t", (Column("k", BIGINT), Column("s", VARCHAR), Column("x", DOUBLE), Column("b", BOOLEAN)))
EVERY = range(4)
FLAGS = [(0.5, True), (None, None), (2.0, False)]
FACTORS = ({"k": [1, 2], "s": ["a", None]}, {"x": [0.5, None, 2.0], "b": [True, None, False]})


def forms() -> dict[str, tuple[Change, StringDictionary]]:
    """One change in every form, with the dictionary of its strings."""
    codes = StringDictionary()
    products = to_product_change(TABLE, [product(*FACTORS)])
    rows = products.rows()
    arrow = rows_to_arrow(TABLE.columns, rows.items(), with_multiplicity=True)
    columns = to_columns(TABLE, arrow, frozenset(EVERY), codes, 1, True)
    assert columns is not None
    frame = FrameChange(TABLE, [arrow.slice(0, 2), arrow.slice(2)], 1, encoded=True)
    made = {"rows": RowChange(dict(rows)), "columns": columns, "products": products, "frame": frame}
    return {name: (change, codes) for name, change in made.items()}


@pytest.mark.parametrize("form", ["rows", "columns", "products", "frame"])
def test_every_form_has_the_same_rows(form: str) -> None:
    change, codes = forms()[form]
    expected = to_changes(TABLE, [(k, s, x, b) for k, s in ((1, "a"), (2, None)) for x, b in FLAGS])
    assert change.rows() == expected
    assert change.columns(TABLE, EVERY, codes).rows() == expected
    assert change.negated().rows() == {row: -count for row, count in expected.items()}
    assert change.negated().negated().columns(TABLE, EVERY, codes).rows() == expected
    assert len(change) == {"rows": 6, "columns": 6, "products": 5, "frame": 1}[form]


def test_what_a_change_was_given_as() -> None:
    given = {name: change for name, (change, _) in forms().items()}
    assert {name for name, change in given.items() if change.held_columns(()) is not None} == {"columns"}
    assert {name for name, change in given.items() if change.products is not None} == {"products"}
    held = given["columns"].held_columns((0, 3))
    assert held is given["columns"]


def test_columns_that_are_not_there_are_null() -> None:
    codes = StringDictionary()
    change = ColumnChange({0: np.array([7, 7])}, np.array([1, 2]), TABLE, codes)
    assert change.held_columns((0, 1)) is None
    assert change.rows() == {(7, None, None, None): 3}
    assert change.columns(TABLE, (0, 1), codes).words[1].tolist() == [conversion.NULL]


def test_rows_that_cancel_out_are_left_out() -> None:
    change = ColumnChange({0: np.array([7, 8, 7])}, np.array([1, 1, -1]), TABLE, StringDictionary())
    assert change.rows() == {(8, None, None, None): 1}


def test_a_value_wider_than_a_word() -> None:
    table = Table("t", (Column("d", decimal(30, 2)),))
    with pytest.raises(DataError, match="does not fit the 64-bit words"):
        RowChange({(10**25,): 1}).columns(table, (0,), StringDictionary())


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_a_batch_is_converted_once_for_all_views(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute(f"CREATE {kind} t (a BIGINT NOT NULL, b BIGINT NOT NULL)")
    for name in ("u", "v", "w"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT a, SUM(b) AS b FROM t GROUP BY a")
    converted: list[int] = []
    original = conversion.encode_words

    def noted(type: Any, values: Any, dictionary: Any) -> Any:
        converted.append(len(values))
        return original(type, values, dictionary)

    monkeypatch.setattr(conversion, "encode_words", noted)
    db.insert("t", [(1, 2), (3, 4), (5, 6)])
    assert converted == [3, 3]  # the two columns, for the three views
    db.insert("t", pa.table({"a": [1], "b": [1]}))
    assert db.view("w").rows() == [(1, 3), (3, 4), (5, 6)]
