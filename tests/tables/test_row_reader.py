"""Reading lists of rows the short way gives what the general way gives, or leaves them to it."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from viewlet.changes import to_changes
from viewlet.changes.row_reader import RowReader
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
    SqlType,
    Table,
    decimal,
)  # fmt: skip

TYPES = [BOOLEAN, SMALLINT, INTEGER, BIGINT, REAL, DOUBLE, decimal(5, 2), decimal(30, 4), VARCHAR, DATE, TIMESTAMP]
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 32767, 32768, -(2**63), 2**63 - 1, 2**63, 0.0, -0.0, 1.5, 1e300, math.nan, math.inf,
    Decimal("1.25"), Decimal("NaN"), "x", "ä", "\ud800", "2026-01-02", "2026-01-02 03:04:05", "1.25", date(2026, 1, 2),
    datetime(2026, 1, 2), datetime(2026, 1, 2, 3), np.int64(3), np.float64(2.5), np.str_("y"), b"x", [1], object(),
]  # fmt: skip


def general(table: Table, rows: list[Any], sign: int) -> Any:
    try:
        return to_changes(table, rows, sign)
    except DataError:
        return None


def same(found: Any, expected: Any) -> bool:
    """Equal, and of the same types: 1, True and 1.0 are different values, and so are 0.0 and -0.0."""
    return repr(list(found.items())) == repr(list(expected.items()))


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("rule", ["", "not null", "key", "not negative"])
def test_every_value(type: SqlType, rule: str) -> None:
    column = Column("a", type.with_nullable(rule != "not null"))
    table = Table(
        "t", (column, Column("b", BIGINT)), primary_key=("a",) if rule == "key" else (),
        non_negative=frozenset({"a"} if rule == "not negative" else ()),
    )  # fmt: skip
    reader = RowReader(table)
    for value in VALUES:
        for sign in (1, -1):
            for rows in ([(value, 1)], [[value, 1]], [{"a": value, "b": 1}], [(value, 1), (value, 1)]):
                found, expected = reader.read(rows, sign), general(table, rows, sign)
                assert (found is None) == (expected is None), (value, rows)
                assert found is None or same(found, expected)


@pytest.mark.parametrize(
    "data",
    [
        [], (), [(1,)], [(1, 2, 3)], [{"a": 1, "c": 2}], [{"a": 1, "_multiplicity": 2}], [(1, 2), {"a": 1}],
        [{"a": 1}, (1, 2)], ["ab"], [None], {"a": 1}, "ab", [1, 2], [{"A": 1}],
    ],
)  # fmt: skip
def test_what_is_left_to_the_general_way(data: Any) -> None:
    assert RowReader(Table("t", (Column("a", BIGINT), Column("b", BIGINT)))).read(data) is None


def test_columns_that_are_not_given_are_null() -> None:
    reader = RowReader(Table("t", (Column("a", BIGINT), Column("b", BIGINT))))
    assert reader.read([{"b": 1}, {}, {"b": 1}]) == {(None, 1): 2, (None, None): 1}
