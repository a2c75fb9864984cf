"""Arguments, tables, arrays and keys that a query cannot take: refused with an error of the family, whole."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from tests.signals.interpolators import sine
from viewlet import DataError
from viewlet.signals import SignalError, source

RAW = source(time="t", value="v", is_timestamp=False, ticks=1000)
SIGNAL = RAW.sample(1)
PAIR = source(time="t", value=["x", "y"], is_timestamp=False).sample(1)

KEYS: dict[str, tuple[Any, Any]] = {
    "BIGINT": (0, 1),
    "SMALLINT": (0, 1),
    "VARCHAR": ("mill", "press"),
    "DECIMAL(10,2)": ("0.00", "1.00"),
    "DECIMAL(12,2)": ("0.00", "1.00"),
    "DECIMAL(10,1)": ("0.0", "1.0"),
    "DATE": ("1970-01-01", "1970-01-02"),
    "TIMESTAMP": ("1970-01-01", "1970-01-02"),
    "BOOLEAN": (False, True),
}
ALIKE = [{"BIGINT", "SMALLINT"}, {"DECIMAL(10,2)", "DECIMAL(12,2)"}]


@pytest.mark.parametrize("of", list(product(KEYS, KEYS)), ids="-".join)
def test_groups_of_two_signals_meet_by_keys_of_the_same_type_only(of: tuple[str, str]) -> None:
    db = viewlet.connect()
    for name, kind in zip("lr", of, strict=True):
        db.execute(f"CREATE TABLE {name} (k {kind} NOT NULL, t BIGINT NOT NULL, v DOUBLE)")
        db.insert(name, [(key, 0, float(10**place)) for place, key in enumerate(KEYS[kind])])
    left, right = (db.signal(name, key="k", time="t", value="v").sample(1) for name in "lr")
    tables = {name: db.table(name) for name in "lr"}
    if of[0] == of[1] or set(of) in ALIKE:
        view = db.create_view("v", left + right)
        assert sorted(row[2] for row in view.rows()) == [2.0, 20.0]
        assert sorted((left + right).run(tables).column("v").to_pylist()) == [2.0, 20.0]
        return
    with pytest.raises(viewlet.SqlError, match="meet by keys of the same type"):
        db.create_view("v", left + right)
    with pytest.raises(SignalError, match="meet by keys of the same type"):
        (left + right).run(tables)


@pytest.mark.parametrize(
    "key",
    [
        pa.array(["a", None]),
        pa.array(["a", "b"], pa.large_string()),
        pa.array([2, 1], pa.int8()),
        pa.array([1, 2], pa.uint64()),
        pa.array([Decimal("1.5"), Decimal(2)]),
        pa.array([True, None]),
    ],
    ids=lambda key: str(key.type),
)
def test_keys_of_a_finished_table_keep_their_type(key: Any) -> None:
    signal = source(key="k", time="t", value="v", is_timestamp=False).sample(1).ewm(0.5)
    found = signal.run(pa.table({"k": key, "t": [1, 1], "v": [1.0, 2.0]}))
    assert found.schema.field("k").type == key.type
    assert set(found.column("k").to_pylist()) == set(key.to_pylist())
    empty = {"k": [], "t": [], "v": []}
    both = source("l", key="k", time="t", value="v", is_timestamp=False).sample(1) + source(
        "r", key="k", time="t", value="v", is_timestamp=False
    ).sample(1)
    for tables in ({"l": empty, "r": pa.table({"k": key, "t": [1, 1], "v": [1.0, 2.0]})}, {"l": empty, "r": empty}):
        assert both.run(tables).num_rows == 0


@pytest.mark.parametrize("digits", [3, 18])
def test_decimals_of_a_finished_table_have_the_bits_of_a_view(digits: int) -> None:
    random = np.random.default_rng(digits)
    db = viewlet.connect()
    db.execute(f"CREATE TABLE r (t BIGINT NOT NULL, v DECIMAL(18,{digits // 2}))")
    numbers = random.integers(-(10**digits) + 1, 10**digits, 300)
    rows = [(t, None if t % 9 == 4 else Decimal(int(x)).scaleb(-(digits // 2))) for t, x in enumerate(numbers)]
    db.insert("r", rows)
    signal = db.signal("r", time="t", value="v").sample(1).ewm(0.3)
    assert db.create_view("v", signal).to_arrow().equals(signal.run(db.table("r")))


ARGUMENTS = {
    "a rate that is no number": lambda: RAW.sample(rate=float("nan")),
    "an infinite rate": lambda: RAW.sample(rate=float("inf")),
    "text for a rate": lambda: RAW.sample(rate="x"),  # type: ignore[arg-type]
    "true for a rate": lambda: RAW.sample(rate=True),
    "a rate of nothing": lambda: RAW.sample(rate=0),
    "a rate of too many digits": lambda: RAW.sample(rate=1e-300),
    "a rate of large primes": lambda: RAW.sample(rate=Fraction(2**61 - 1, 2**31 - 1)),
    "a period that never ends": lambda: RAW.sample(10**30),
    "grids of large primes": lambda: RAW.sample(Fraction(10**9 + 7, 998244353), "last").resample(10**9 + 9),
    "a shift that never ends": lambda: SIGNAL.shift(10**30),
    "a negative gap": lambda: RAW.sample(1, "linear", max_gap="-1s"),
    "an endless gap": lambda: RAW.sample(1, "linear").resample(max_gap=2**62),
    "text for a number": lambda: RAW.sample(1, "constant", fill="x"),  # type: ignore[arg-type]
    "nothing for a number": lambda: RAW.sample(1, "constant", fill=None),  # type: ignore[arg-type]
    "a fill that is no number": lambda: RAW.sample(1, "constant", fill=float("nan")),
    "text for a weight": lambda: SIGNAL.ewm("x"),  # type: ignore[arg-type]
    "a division by 0": lambda: SIGNAL / 0,
    "a number beyond DOUBLE": lambda: SIGNAL * 10**400,
    "a join with a number": lambda: SIGNAL.join(3),  # type: ignore[arg-type]
    "the last value of a number": lambda: SIGNAL.as_of(3),  # type: ignore[arg-type]
    "a selection of nothing": lambda: SIGNAL.select(np.abs, width=0),
    "windows of text": lambda: SIGNAL.window(4).select(np.abs, size="x"),  # type: ignore[arg-type]
    "more samples than a window has": lambda: SIGNAL.sum(3, min_samples=4),
    "a window that fills the memory": lambda: SIGNAL.sum(2**31 - 1),
    "a lag that fills the memory": lambda: SIGNAL.difference(2**31 - 1),
    "complex samples of a real signal": lambda: SIGNAL.ewm(0.5).run(np.array([1j])),
    "an array of two components": lambda: PAIR.sum(3).run(np.arange(4.0)),
    "an array for arguments": lambda: source(time="t", value="v", function=sine).sample(1).run(np.arange(4.0)),
    "an array on two grids": lambda: (RAW.sample(3) + RAW.sample(3, offset=1)).run(np.arange(4.0)),
    "an array without times": lambda: RAW.shift(1).sample(1).run(np.arange(4.0)),
}


@pytest.mark.parametrize("build", ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_are_refused_when_a_query_is_made(build: Any) -> None:
    with pytest.raises(SignalError):
        build()


def test_operators_before_sampling_are_those_of_arrays_too() -> None:
    x = np.arange(5.0)
    np.testing.assert_array_equal((RAW.scale(2.0) + 1.0).sample(1).run(x), 2 * x + 1)
    np.testing.assert_array_equal(RAW.select(np.sqrt).sample(1).run(x), np.sqrt(x))
    complex_signal = source(time="t", value=["x", "y"], is_complex=True, is_timestamp=False).sample(1)
    assert complex_signal.start().push(x).dtype == np.complex128


TABLES: list[dict[str, Any]] = [
    {"t": ["a"], "v": [1.0]},
    {"t": [1.5], "v": [1.0]},
    {"t": [True], "v": [1.0]},
    {"t": [None], "v": [1.0]},
    {"t": [2**63], "v": [1.0]},
    {"t": [2**62], "v": [1.0]},
    {"t": [-(2**63)], "v": [1.0]},
    {"t": [1], "v": ["a"]},
    {"t": [1], "v": [[1.0]]},
    {"t": [1], "v": [True]},
    {"t": [1, 2], "v": [1.0]},
]


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_finished_tables_of_other_types_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        SIGNAL.ewm(0.5).run(table)


def test_events_that_are_too_far_apart_refuse_their_batch() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE r (t BIGINT NOT NULL, e BIGINT, v DOUBLE)")
    lines = db.create_view("lines", db.signal("r", time="t", value="v").sample(1, "linear", max_gap=10**15))
    spans = db.create_view("spans", db.signal("r", time="t", end="e", value="v").sample(1))
    db.insert("r", [(0, 2, 1.0)])
    for row, message in (
        ((10**13, 10**13 + 1, 2.0), "a shorter max_gap="),
        ((3, 10**13, 2.0), "with a longer period"),
        ((2**62, 2**62 + 1, 2.0), "less than 2\\*\\*62"),
        ((3, None, 2.0), "e is NULL"),
    ):
        with pytest.raises(DataError, match=message):
            db.insert("r", [row])
        assert lines.rows() == [(0, 1.0)]
        assert spans.rows() == [(0, 1.0), (1, 1.0)]
    db.insert("r", [(3, 4, 4.0)])
    assert lines.rows() == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]
