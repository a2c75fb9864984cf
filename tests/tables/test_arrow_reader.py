"""Small batches of Arrow are read value by value: they give what the same rows give as tuples, or are left alone."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from viewlet.changes import to_changes
from viewlet.changes.arrow_reader import FEW_ROWS, ArrowReader
from viewlet.errors import DataError
from viewlet.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Column,
    SqlType,
    Table,
    decimal,
)  # fmt: skip

ARRAYS: list[Any] = [
    pa.array([1, None, -1]),
    pa.array([1, 2, -(2**63)]),
    pa.array([2**63 - 1, 1, 1]),
    pa.array([1, 40_000, 2], pa.int32()),
    pa.array([1, 2, 3], pa.int8()),
    pa.array([1, 2**64 - 1, 3], pa.uint64()),
    pa.array([1, 2, 3], pa.uint32()),
    pa.array([1.5, None, -0.0]),
    pa.array([1.5, math.inf, math.nan]),
    pa.array([1.5, 2.5, 3.5], pa.float32()),
    pa.array(["a", None, "é"]),
    pa.array(["a", "long text", "é"], pa.large_string()),
    pa.array(["a", "b", "a"]).dictionary_encode(),
    pa.array([True, None, False]),
    pa.array([Decimal("1.25"), None, Decimal("-999.99")], pa.decimal128(5, 2)),
    pa.array([Decimal("1.25"), Decimal("0.00"), Decimal("999.99")], pa.decimal128(5, 2)),
    pa.array([Decimal("1.25"), Decimal("12345.67"), Decimal("-1.00")], pa.decimal128(12, 2)),
    pa.array([Decimal("1.2"), Decimal("2.0"), Decimal("-1.0")], pa.decimal128(5, 1)),
    pa.array([Decimal(10**25), Decimal(-(10**25)), Decimal(1)], pa.decimal128(30, 4)),
    pa.array([date(2026, 1, 2), None, date(1, 1, 1)]),
    pa.array([2932897, 0, 1], pa.int32()).cast(pa.date32()),
    pa.array([datetime(2026, 1, 2, 3), None, datetime(1900, 1, 1)], pa.timestamp("us")),
    pa.array([datetime(2026, 1, 2, 3), None, datetime(1900, 1, 1)], pa.timestamp("ms")),
    pa.array([2**62, 0, 1]).cast(pa.timestamp("us")),
    pa.array([None, None, None]),
]
TYPES = [BOOLEAN, SMALLINT, INTEGER, BIGINT, DOUBLE, decimal(5, 2), decimal(30, 4), VARCHAR, DATE, TIMESTAMP]


def as_tuples(table: Table, data: Any, sign: int) -> Any:
    """What the rows give as tuples of Python values; None if they are refused."""
    try:
        return to_changes(table, list(zip(*(column.to_pylist() for column in data.columns), strict=True)), sign)
    except (DataError, ValueError, OverflowError):
        return None


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("rule", ["", "not null", "key", "not negative", "length"])
def test_every_type(type: SqlType, rule: str) -> None:
    if rule == "length" and type is not VARCHAR:
        return
    column = Column("a", type.with_nullable(rule != "not null"), length=4 if rule == "length" else None)
    table = Table(
        "t", (column, Column("b", BIGINT)), primary_key=("a",) if rule == "key" else (),
        non_negative=frozenset({"a"} if rule == "not negative" else ()),
    )  # fmt: skip
    reader, read = ArrowReader(table), 0
    for array in ARRAYS:
        whole = pa.table({"a": array, "b": [1, 2, 1]})
        for data in (whole, whole.to_batches()[0], whole.slice(1, 2), whole.slice(2), whole.to_batches()[0].slice(1)):
            for sign in (1, -1):
                found = reader.read(data, sign, False)
                if found is not None:
                    read += 1
                    assert repr(list(found.items())) == repr(list(as_tuples(table, data, sign).items()))
    assert read


def test_multiplicities_add_up_where_changes_are_encoded() -> None:
    table = Table("t", (Column("a", BIGINT), Column("b", VARCHAR)))
    data = pa.table({"_multiplicity": [2, -1, 1, -2, 0], "b": ["x", "y", None, "x", "z"], "a": [1, 2, 3, 1, 4]})
    expected: Counter[Any] = Counter()
    for row in data.to_pylist():
        expected[row["a"], row["b"]] += row["_multiplicity"]
    assert ArrowReader(table).read(data, 1, True) == {row: weight for row, weight in expected.items() if weight}
    assert ArrowReader(table).read(data, 1, False) is None
    absent = data.set_column(0, "_multiplicity", pa.array([1, None, 1, 1, 1]))
    assert ArrowReader(table).read(absent, 1, True) is None


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"a": [1]}),
        pa.table({"a": [1], "b": [2], "c": [3]}),
        pa.table({"A": [1], "b": [2]}),
        pa.table({"a": [1], "b": [2], "_change_type": ["insert"]}),
        pa.table([[1], [2], [3]], names=["a", "b", "b"]),
        pa.table({"a": [1], "b": ["2"]}),
        pa.table({"a": range(FEW_ROWS + 1), "b": range(FEW_ROWS + 1)}),
        pa.table({"a": pa.chunked_array([[1], [2]]), "b": [1, 2]}),
        pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}),
        pa.array([1]),
        np.array([1]),
        "ab",
        None,
    ],
)
def test_what_is_left_to_the_general_way(data: Any) -> None:
    assert ArrowReader(Table("t", (Column("a", BIGINT), Column("b", BIGINT)))).read(data, 1, True) is None


def test_a_batch_of_another_schema_is_read_by_its_own() -> None:
    reader = ArrowReader(Table("t", (Column("a", BIGINT), Column("b", BIGINT))))
    assert reader.read(pa.table({"a": [1], "b": [2]}), 1, False) == {(1, 2): 1}
    assert reader.read(pa.table({"b": [1], "a": [2]}), 1, False) == {(2, 1): 1}
    assert reader.read(pa.table({"a": [1.5], "b": [2]}), 1, False) is None
    assert reader.read(pa.table({"a": [1], "b": [2]}), 1, False) == {(1, 2): 1}


def damaged_text() -> Any:
    return pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )


def damaged_decimal() -> Any:
    return pa.Array.from_buffers(pa.decimal128(5, 2), 1, [None, pa.py_buffer(np.array([10**9, 0], np.int64))])


@pytest.mark.parametrize(("type", "array"), [("VARCHAR", damaged_text()), ("DECIMAL(5, 2)", damaged_decimal())])
def test_damaged_arrays_are_refused(type: str, array: Any) -> None:
    db = viewlet.connect()
    db.execute(f"CREATE TABLE t (a {type})")
    with pytest.raises(DataError, match="damaged"):
        db.insert("t", pa.table({"a": array}))
    assert len(db.table("t")) == 0


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_small_batches_of_arrow_are_what_large_ones_are(engine: str, kind: str) -> None:
    """The same rows in one batch and in small ones, with deletes, give the same view; a refused one changes nothing."""
    views = []
    for size in (5, FEW_ROWS + 40):
        db = viewlet.connect(engine=engine)
        db.execute(f"CREATE {kind} t (k BIGINT NOT NULL, g INTEGER, price DECIMAL(12,2), name VARCHAR)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT g, name, SUM(price) AS s, COUNT(*) AS n FROM t GROUP BY g, name"
        )
        random = np.random.default_rng(7)
        rows = pa.table({
            "k": range(200),
            "g": pa.array([None if n == 3 else n for n in random.integers(0, 6, 200).tolist()], pa.int32()),
            "price": pa.array([Decimal(n) / 100 for n in random.integers(0, 999, 200).tolist()], pa.decimal128(12, 2)),
            "name": [None if n == 2 else f"n{n}" for n in random.integers(0, 4, 200).tolist()],
        })  # fmt: skip
        for start in range(0, 200, size):
            db.insert("t", rows.slice(start, size))
        for start in range(0, 100, size):
            part = rows.slice(start, min(size, 100 - start))
            db.apply({"t": part.append_column("_multiplicity", pa.array([-1] * len(part)))})
        before = db.epoch
        with pytest.raises(DataError):
            db.insert("t", pa.table({"k": [1, None], "g": [1, 1], "price": [None, None], "name": ["a", "b"]}))
        if kind == "TABLE":
            with pytest.raises(DataError, match="cannot delete"):
                db.delete("t", rows.slice(0, 2))
        assert db.epoch == before
        views.append(db.view("v").rows())
    assert views[0] == views[1]
    assert views[0]
