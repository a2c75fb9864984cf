"""Every kind of input becomes the same changes, exactly, and rows come back as Arrow with the right types."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from viewlet.changes import describe_row, rows_to_arrow, to_changes, to_python
from viewlet.errors import DataError
from viewlet.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    REAL,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Column,
    Datum,
    SqlType,
    Table,
    decimal,
)

ALL = Table(
    "everything",
    (
        Column("k", BIGINT.with_nullable(False)),
        Column("flag", BOOLEAN),
        Column("price", decimal(15, 2)),
        Column("ratio", DOUBLE),
        Column("name", VARCHAR),
        Column("day", DATE),
        Column("at", TIMESTAMP),
    ),
    primary_key=("k",),
)
ROWS = [
    (1, True, Decimal("10.50"), 0.5, "ä", date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6)),
    (2, False, Decimal("-0.01"), -2.0, "", date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 999999)),
    (3, None, None, None, None, None, None),
]
INTERNAL: dict[tuple[Datum, ...], int] = {
    (1, True, 1050, 0.5, "ä", 20455, 1767323045000006): 1,
    (2, False, -1, -2.0, "", -1, -1): 1,
    (3, None, None, None, None, None, None): 1,
}
NAMES = ALL.column_names


def dicts() -> list[dict[str, object]]:
    return [dict(zip(NAMES, row, strict=True)) for row in ROWS]


def arrow() -> pa.Table:
    return rows_to_arrow(ALL.columns, INTERNAL.items())


class Stream:
    """Something that speaks the Arrow C stream interface and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return arrow().__arrow_c_stream__(requested_schema)


KINDS = {
    "tuples": lambda: ROWS,
    "lists": lambda: [list(row) for row in ROWS],
    "generator": lambda: (row for row in ROWS),
    "tuple of tuples": lambda: tuple(ROWS),
    "dicts": dicts,
    "dicts without NULLs": lambda: [{k: v for k, v in row.items() if v is not None} for row in dicts()],
    "dicts in another case": lambda: [{k.upper(): v for k, v in row.items()} for row in dicts()],
    "arrow table": arrow,
    "arrow batch": lambda: arrow().combine_chunks().to_batches()[0],
    "arrow, columns in another order": lambda: arrow().select(list(reversed(NAMES))),
    "arrow, chunks and offsets": lambda: pa.concat_tables([arrow(), arrow()]).slice(2, 3),
    "arrow, other types": lambda: arrow().cast(
        pa.schema(
            [
                ("k", pa.int32()),
                ("flag", pa.bool_()),
                ("price", pa.decimal128(20, 3)),
                ("ratio", pa.float32()),
                ("name", pa.large_string()),
                ("day", pa.date64()),
                ("at", pa.timestamp("ns")),
            ]
        )
    ),
    "arrow stream": Stream,
    "pandas": lambda: pd.DataFrame(dicts()),
    "pandas, arrow types": lambda: arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(arrow()),
    "polars, upper case": lambda: pl.from_arrow(arrow()).rename(str.upper),  # type: ignore[union-attr]
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_gives_the_same_changes(kind: str) -> None:
    assert to_changes(ALL, KINDS[kind]()) == INTERNAL


@pytest.mark.parametrize("kind", KINDS)
def test_the_sign_turns_inserts_into_deletes(kind: str) -> None:
    assert to_changes(ALL, KINDS[kind](), sign=-1) == dict.fromkeys(INTERNAL, -1)


@pytest.mark.parametrize("empty", [[], (), iter(()), arrow().slice(0, 0), pd.DataFrame(), pl.DataFrame()])
def test_nothing_is_no_change(empty: object) -> None:
    assert to_changes(ALL, empty) == {}


def one(type: SqlType) -> Table:
    return Table("t", (Column("x", type),))


ACCEPTED = [
    (BIGINT, np.int64(7), 7),
    (BIGINT, -(2**63), -(2**63)),
    (BIGINT, Decimal("7.00"), 7),
    (SMALLINT, 32767, 32767),
    (BOOLEAN, np.bool_(True), True),
    (DOUBLE, 3, 3.0),
    (DOUBLE, Decimal("0.5"), 0.5),
    (DOUBLE, np.float32(0.5), 0.5),
    (REAL, 0.1, float(np.float32(0.1))),
    (decimal(5, 2), 7, 700),
    (decimal(5, 2), "7.1", 710),
    (decimal(5, 2), 7.1, 710),
    (decimal(5, 2), Decimal("999.99"), 99999),
    (decimal(5, 2), "1.5000", 150),
    (decimal(5, 2), "0e50", 0),
    (decimal(38, 0), 10**38 - 1, 10**38 - 1),
    (decimal(38, 38), Decimal("0." + "9" * 38), 10**38 - 1),
    (DATE, "2026-01-02", 20455),
    (DATE, datetime(2026, 1, 2), 20455),
    (DATE, pd.Timestamp("2026-01-02"), 20455),
    (DATE, np.datetime64("2026-01-02"), 20455),
    (DATE, date.min, -719162),
    (TIMESTAMP, "1970-01-01T00:00:01", 1_000_000),
    (TIMESTAMP, "1970-01-01 00:00:01.5", 1_500_000),
    (TIMESTAMP, date(1970, 1, 2), 86_400_000_000),
    (TIMESTAMP, np.datetime64("1970-01-01T00:00:01.000000000"), 1_000_000),
    (VARCHAR, np.str_("a"), "a"),
]


@pytest.mark.parametrize(("type", "given", "held"), ACCEPTED)
def test_values_are_taken_leniently(type: SqlType, given: object, held: Datum) -> None:
    (row,) = to_changes(one(type), [(given,)])
    assert row == (held,)
    assert row[0].__class__ is held.__class__


REFUSED = [
    (BIGINT, True, "expected an integer"),
    (BIGINT, 1.0, "expected an integer"),
    (BIGINT, "1", "expected an integer"),
    (BIGINT, 2**63, "out of range"),
    (INTEGER, np.int64(2**31), "out of range"),
    (SMALLINT, -32769, "out of range"),
    (BOOLEAN, 1, "expected True or False"),
    (DOUBLE, float("nan"), "NaN"),
    (DOUBLE, float("inf"), "infinities"),
    (DOUBLE, 10**400, "too large"),
    (DOUBLE, "1", "expected a number"),
    (DOUBLE, True, "expected a number"),
    (REAL, 1e300, "too large"),
    (decimal(5, 2), "1000", "more than 3 digits before"),
    (decimal(5, 2), Decimal("1.005"), "more than 2 digits after"),
    (decimal(5, 2), 0.1 + 0.2, "more than 2 digits after"),
    (decimal(5, 2), "0." + "1" * 100, "more than 2 digits after"),
    (decimal(5, 2), "ten", "not a decimal"),
    (decimal(5, 2), Decimal("NaN"), "NaN"),
    (decimal(5, 2), True, "expected a decimal"),
    (decimal(5, 2), "1e999999999999", "digits before"),
    (decimal(5, 2), "1e-999999", "digits after"),
    (VARCHAR, 7, "expected a string"),
    (VARCHAR, b"a", "expected a string"),
    (VARCHAR, "\ud800", "Unicode"),
    (DATE, "2026-02-30", "YYYY-MM-DD"),
    (DATE, "yesterday", "YYYY-MM-DD"),
    (DATE, 20455, "expected a date"),
    (DATE, datetime(2026, 1, 2, 3), "time of day"),
    (DATE, pd.NaT, "DATE"),
    (TIMESTAMP, "2026-01-02 25:00:00", "not a timestamp"),
    (TIMESTAMP, "2026-01-02 00:00:00.0000001", "finer than microseconds"),
    (TIMESTAMP, pd.Timestamp("2026-01-02").replace(nanosecond=1), "finer than microseconds"),
    (TIMESTAMP, np.datetime64("2026-01-02T00:00:00.000000001"), "finer than microseconds"),
    (TIMESTAMP, datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=1))), "time zone"),
    (TIMESTAMP, 5, "expected a datetime"),
]


@pytest.mark.parametrize(("type", "value", "reason"), REFUSED)
def test_what_does_not_fit_exactly_is_refused(type: SqlType, value: object, reason: str) -> None:
    with pytest.raises(DataError) as caught:
        to_changes(one(type), [(None,), (value,)])
    message = str(caught.value)
    assert "t.x" in message
    assert "row 2" in message
    assert repr(value)[:60] in message
    assert reason in message


STRUCTURAL = [
    ({"k": 1}, "one dict"),
    ((1, 2), "one tuple"),
    ("abc", "not a list of rows"),
    (None, "not a list of rows"),
    (7, "not a list of rows"),
    (pd.Series([1, 2]), "not a list of rows"),
    (pl.LazyFrame({"k": [1]}), "collect"),
    ([1, 2], "not a row"),
    (["abc"], "not a row"),
    ([(1, 2)], "has 2 values, expected 7"),
    ([{"k": 1}, (1, 2)], "dict"),
    ([{"k": 1, "pricee": 2}], "did you mean 'price'"),
    ([{"k": 1, "K": 2}], "twice"),
    ([{"flag": True}], "everything.k is missing"),
    ([{"k": 1}, {"flag": True}], "row 2: NULL"),
    (pd.DataFrame({"k": [1.5]}), "1.5"),
    (pd.DataFrame({"k": [1.0, None]}), "PRIMARY KEY"),
    (pa.table({"k": [1], "nam": ["a"]}), "did you mean 'name'"),
    (pa.table({"k": pa.array([1], pa.int64()), "day": pa.array([2**31 - 1], pa.int32()).cast(pa.date32())}), "day"),
    (pa.table({"k": pa.array([2**63], pa.uint64())}), "out of range"),
    (pa.table({"k": [1], "price": pa.array([Decimal("1e13")], pa.decimal128(38, 2))}), "before the point"),
    (pa.table({"k": [1], "at": pa.array([0], pa.timestamp("us", "UTC"))}), "time zone"),
    (pa.table({"k": [1], "ratio": [float("nan")]}), "NaN"),
]


@pytest.mark.parametrize(("data", "reason"), STRUCTURAL)
def test_data_of_the_wrong_shape_is_refused_with_a_hint(data: object, reason: str) -> None:
    with pytest.raises(DataError, match="everything") as caught:
        to_changes(ALL, data)
    assert reason in str(caught.value)


def test_pandas_turns_integers_beside_missing_values_into_floats_and_we_turn_them_back() -> None:
    table = Table("t", (Column("a", BIGINT), Column("b", DOUBLE)))
    frame = pd.DataFrame({"a": [1, None], "b": [None, 2.5]})
    assert to_changes(table, frame) == {(1, None): 1, (None, 2.5): 1}


def test_declared_checks_are_enforced() -> None:
    table = Table("t", (Column("x", decimal(5, 2)),), non_negative=frozenset({"x"}))
    assert to_changes(table, [(0,), (None,)]) == {(0,): 1, (None,): 1}
    with pytest.raises(DataError, match=r"t\.x.*row 2.*-0\.01.*CHECK \(x >= 0\)"):
        to_changes(table, [(0,), ("-0.01",)])


PAIR = Table("pair", (Column("a", BIGINT), Column("b", VARCHAR)))
ENCODED = [
    {"a": 1, "b": "x", "_multiplicity": 2},
    {"a": 1, "b": "x", "_multiplicity": -3},
    {"a": 2, "_multiplicity": 0},
]
TYPED = [
    {"a": 1, "b": "x", "_change_type": "update_preimage"},
    {"a": 1, "b": "y", "_change_type": "update_postimage"},
    {"a": 2, "b": "z", "_change_type": "insert"},
    {"a": 3, "b": "z", "_change_type": "delete"},
]


@pytest.mark.parametrize("kind", [list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist])
def test_change_columns(kind: Any) -> None:
    assert to_changes(PAIR, kind(ENCODED), encoded=True) == {(1, "x"): -1}
    assert to_changes(PAIR, kind(TYPED), encoded=True) == {(1, "x"): -1, (1, "y"): 1, (2, "z"): 1, (3, "z"): -1}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"a": 1, "_multiplicity": 1, "_change_type": "insert"}, "not both"),
        ({"a": 1, "_multiplicity": 1.5}, "integer"),
        ({"a": 1, "_multiplicity": None}, "integer"),
        ({"a": 1, "_multiplicity": True}, "integer"),
        ({"a": 1, "_change_type": "upsert"}, "'upsert'"),
        ({"a": 1, "_change_type": 1}, "update_preimage"),
        ({"a": 1, "_multiplicty": 1}, "_multiplicty"),
    ],
)
def test_wrong_change_columns(row: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match="pair") as caught:
        to_changes(PAIR, [row], encoded=True)
    assert reason in str(caught.value)


def test_insert_refuses_change_columns() -> None:
    with pytest.raises(DataError, match=r"apply\(\)"):
        to_changes(PAIR, ENCODED)


def test_rows_become_arrow_with_proper_types() -> None:
    table = rows_to_arrow(ALL.columns, INTERNAL.items())
    assert table.schema.types == [
        pa.int64(),
        pa.bool_(),
        pa.decimal128(38, 2),
        pa.float64(),
        pa.string(),
        pa.date32(),
        pa.timestamp("us"),
    ]
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS


def test_multiplicities_repeat_rows_or_are_shown() -> None:
    rows: list[tuple[tuple[Datum, ...], int]] = [((1, "x"), 2), ((2, None), 1)]
    assert rows_to_arrow(PAIR.columns, rows).to_pydict() == {"a": [1, 1, 2], "b": ["x", "x", None]}
    shown = rows_to_arrow(PAIR.columns, [((1, "x"), -2)], with_multiplicity=True)
    assert shown.to_pydict() == {"a": [1], "b": ["x"], "_multiplicity": [-2]}
    assert rows_to_arrow(PAIR.columns, []).num_rows == 0
    assert to_changes(PAIR, shown, encoded=True) == {(1, "x"): -2}


def test_rows_are_described_as_users_write_them() -> None:
    assert describe_row(PAIR, (1, None)) == "(a=1, b=None)"


def values_of(type: SqlType) -> st.SearchStrategy[Datum]:
    limit = 10**type.precision - 1
    return {
        BIGINT: st.integers(-(2**63), 2**63 - 1),
        BOOLEAN: st.booleans(),
        DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
        VARCHAR: st.text(st.characters(codec="utf-8")),
        DATE: st.dates().map(lambda day: day.toordinal() - 719163),
        TIMESTAMP: st.datetimes().map(lambda at: (at - datetime(1970, 1, 1)) // timedelta(microseconds=1)),
    }.get(type, st.integers(-limit, limit))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from([BIGINT, BOOLEAN, DOUBLE, VARCHAR, DATE, TIMESTAMP, decimal(38, 7), decimal(9, 9)]))
def test_values_survive_the_way_out_and_in_again(data: st.DataObject, type: SqlType) -> None:
    table = one(type)
    values = data.draw(st.lists(st.none() | values_of(type), max_size=5))
    changes = {(value,): 1 for value in values}
    frame = rows_to_arrow(table.columns, changes.items())
    frame.validate(full=True)
    assert to_changes(table, frame) == changes
    assert to_changes(table, [(to_python(type)(value),) for (value,) in changes]) == changes
