"""Columns that no view reads are checked like the others, and not converted."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.changes import Change
from viewlet.runtime import columns as conversion

COLUMNS = {
    "small": ("SMALLINT", pa.int16(), 1),
    "whole": ("INTEGER", pa.int32(), 2),
    "large": ("BIGINT", pa.int64(), 3),
    "money": ("DECIMAL(6,2)", pa.decimal128(6, 2), Decimal("4.50")),
    "wide": ("DECIMAL(30,2)", pa.decimal128(30, 2), Decimal("5.50")),
    "day": ("DATE", pa.date32(), date(2026, 1, 2)),
    "moment": ("TIMESTAMP", pa.timestamp("us"), datetime(2026, 1, 2, 3)),
    "truth": ("BOOLEAN", pa.bool_(), True),
    "ratio": ("DOUBLE", pa.float64(), 0.5),
    "real": ("REAL", pa.float32(), 0.25),
    "text": ("VARCHAR", pa.string(), "x"),
}
READ = ("g BIGINT NOT NULL", "x DECIMAL(9,2)")


@pytest.fixture
def db() -> viewlet.Connection:
    found = viewlet.connect(engine="compiled")
    unread = [f"{name} {sql}{' NOT NULL' if name in ('whole', 'text') else ''}" for name, (sql, *_) in COLUMNS.items()]
    found.execute(f"CREATE STREAM s ({', '.join((*READ, *unread))})")
    found.execute("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS x FROM s GROUP BY g")
    return found


def batch(**other: Any) -> pa.Table:
    """Two rows; `other` are columns in the place of good ones."""
    made = {name: pa.array([value, value], type) for name, (_, type, value) in COLUMNS.items()}
    read = {"g": pa.array([1, 2]), "x": pa.array([Decimal("1.00"), None], pa.decimal128(9, 2))}
    return pa.table({**read, **made, **other})


def is_columnar(db: viewlet.Connection, data: Any) -> bool:
    return converted(db, data).held_columns(()) is not None


def converted(db: viewlet.Connection, data: Any) -> Change:
    with db._session.open() as database:
        return database.host.change_of(database.catalogue.find_table("s").schema, data, 1, False)


def test_they_are_not_converted(db: viewlet.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in ("_read_dates", "_read_timestamps", "_read_booleans", "_text"):
        monkeypatch.setattr(conversion, reader, lambda *given: pytest.fail("a column was converted"))
    columns = converted(db, batch()).held_columns(())
    assert columns is not None
    assert sorted(columns.words) == [0, 1]


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t.to_batches()[0], lambda t: pa.concat_tables([t, t])])
def test_every_form_of_arrow_data(db: viewlet.Connection, make: Any) -> None:
    data = make(batch())
    assert is_columnar(db, data)
    db.insert("s", data)
    times = data.num_rows // 2
    assert db.view("v").rows() == [(1, Decimal(times)), (2, None)]


NARROWER = {"whole": pa.array([1, 2], pa.int16()), "large": pa.array([1, 2], pa.uint8()), "small": pa.array([1, 2])}
OTHER_FORMS = {
    "text": pa.array(["a", "b"]).dictionary_encode(),
    "ratio": pa.array([1.0, 2.0], pa.float32()),
    "money": pa.array([Decimal("9999.99"), None], pa.decimal128(20, 2)),
    "day": pa.array([None, date(9999, 12, 31)], pa.date32()),
    "truth": pa.array([None, None], pa.bool_()),
}


@pytest.mark.parametrize("name", [*NARROWER, *OTHER_FORMS])
def test_other_types_that_hold_such_values(db: viewlet.Connection, name: str) -> None:
    assert is_columnar(db, batch(**{name: (NARROWER | OTHER_FORMS)[name]}))


REFUSED = {
    "a NULL in a NOT NULL number": ("whole", pa.array([1, None], pa.int32()), "NULL"),
    "a NULL in a NOT NULL string": ("text", pa.array(["a", None]), "NULL"),
    "a number too large": ("small", pa.array([1, 40_000]), "small"),
    "an unsigned number too large": ("whole", pa.array([1, 2**31], pa.uint32()), "whole"),
    "a decimal too large": ("money", pa.array([Decimal(1), Decimal(10_000)], pa.decimal128(20, 2)), "money"),
    "a day too late": ("day", pa.array([0, 10**8], pa.int32()).view(pa.date32()), "day"),
    "not a number": ("ratio", pa.array([1.0, float("nan")]), "ratio"),
    "an infinite number": ("real", pa.array([1.0, float("inf")], pa.float32()), "real"),
    "text for a number": ("large", pa.array(["a", "b"]), "large"),
    "a number for text": ("text", pa.array([1, 2]), "text"),
    "another column": ("other", pa.array([1, 2]), "other"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(db: viewlet.Connection, what: str) -> None:
    name, column, named = REFUSED[what]
    with pytest.raises(viewlet.ViewletError, match=named):
        db.insert("s", batch(**{name: column}))
    assert db.view("v").rows() == []
    assert db.epoch == 0


def test_a_missing_column(db: viewlet.Connection) -> None:
    with pytest.raises(viewlet.ViewletError, match="whole"):
        db.insert("s", batch().drop_columns(["whole"]))
    assert db.epoch == 0
    db.insert("s", batch().drop_columns(["moment"]))  # it may be NULL
    assert len(db.view("v").rows()) == 2
