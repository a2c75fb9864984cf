"""Change events of Debezium: what they say, and what is refused; without Spark."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.event_histories import play, play_damage
from viewlet import DataError, SchemaError
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run.load.debezium_events import ERROR, EventFormat, EventReader, Step
from viewlet.spark.run.load.debezium_values import named_encoding
from viewlet.spark.run.state.partition import forget
from viewlet.types import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, VARCHAR, Column, Table, TableKind, decimal

ITEMS = "(id BIGINT NOT NULL, who VARCHAR, price DECIMAL(9,2)"
LETTERS = "CREATE TABLE letters (table_name VARCHAR, event VARCHAR, reason VARCHAR)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT who, SUM(price) AS total, COUNT(*) AS n FROM items GROUP BY who"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparkConnection]:
    with connect_inline(tmp_path, 3, sync=False) as db:
        yield db
    forget()


def row(id: int, who: str | None = "ada", price: object = 5) -> dict[str, object]:
    return {"id": id, "who": who, "price": price}


def event(op: object, before: object, after: object) -> str:
    return json.dumps({"op": op, "before": before, "after": after})


def apply(db: SparkConnection, *events: str | None, offsets: bool = False, **settings: Any) -> list[tuple[object, ...]]:
    frame = pa.table({"value": pa.array(events, pa.string())})
    if offsets:
        frame = frame.append_column("offset", pa.array(range(len(events)))).take(list(range(len(events)))[::-1])
    db.apply({"items": db.debezium("items", frame, **settings)})
    return db.view("v").rows()


@pytest.mark.parametrize("seed", range(8))
def test_histories(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_events(seed: int) -> None:
    play_damage(seed)
    forget()


def test_rows_that_go_are_found_by_their_key(db: SparkConnection) -> None:
    db.execute(f"CREATE TABLE items {ITEMS}, PRIMARY KEY (id)); {VIEW}")
    assert apply(db, event("c", None, row(1)), event("r", None, row(2, "bob"))) == [("ada", 5, 1), ("bob", 5, 1)]
    assert apply(db, event("u", None, row(1, price=7))) == [("ada", 7, 1), ("bob", 5, 1)]
    assert apply(db, event("u", row(1, None, None), row(1, price=8))) == [("ada", 8, 1), ("bob", 5, 1)]
    assert apply(db, event("d", row(2, None, None), None), None) == [("ada", 8, 1)]
    assert apply(db, event("u", {"id": 1}, row(9, price=1))) == [("ada", 1, 1)]  # the key itself has changed
    assert apply(db, event("d", {"id": 9}, None)) == []
    bare = row(3, None, None)
    assert apply(db, event("c", None, bare)) == [(None, None, 1)]
    assert apply(db, event("d", bare, None)) == []
    epoch = db.epoch
    for text in (event("u", None, row(4)), event("d", {"id": 4}, None)):
        with pytest.raises(
            DataError, match=r"items: an event cannot be applied: items has no row with this key.*\"op\""
        ):
            apply(db, event("c", None, row(5)), text)
    for text, reason in (
        (event("d", None, None), "'before' is NULL: nothing says which row goes"),
        (event("d", {"who": "ada"}, None), "id .BIGINT.: NULL is refused: a PRIMARY KEY cannot be NULL"),
        (event("d", row(1, price="x"), None), "price .*'x' is refused"),
    ):
        with pytest.raises(DataError, match=reason):
            apply(db, text)
    assert db.epoch == epoch


def test_several_events_about_a_row_have_an_order(db: SparkConnection) -> None:
    db.execute(f"CREATE TABLE items {ITEMS}, PRIMARY KEY (id)); {VIEW}")
    events = [
        event("c", None, row(1)),
        event("u", None, row(1, "bob")),
        event("u", None, row(1, "cyd", "6.50")),
        event("d", {"id": 1}, None),
        event("c", None, row(1, "dan")),
        event("u", None, row(1, "eve")),
    ]
    with pytest.raises(DataError, match="their order is not known: keep the columns 'partition' and 'offset'"):
        apply(db, *events)
    assert apply(db, *events, offsets=True) == [("eve", 5, 1)]
    kafka = pa.table({"value": [event("u", None, row(1)), event("u", None, row(1, "x"))], "partition": [0, 1]})
    with pytest.raises(DataError, match="their order is not known"):
        db.apply({"items": db.debezium("items", kafka.append_column("offset", pa.array([7, 8])))})


def test_without_kept_rows_a_key_says_nothing(db: SparkConnection) -> None:
    db.execute(f"CREATE STREAM items {ITEMS}); {VIEW}")
    assert apply(db, event("c", None, row(1)), event("c", None, row(2, None, None)))[0] == ("ada", 5, 1)
    events = [event("u", None, row(1)), event("d", {"id": 1}, None), event("d", row(2, None, None), None)]
    for text in (*events, event("d", row(2, None), None), event("d", row(2, price=None), None)):
        with pytest.raises(
            DataError, match="items is no TABLE with a PRIMARY KEY that says which row goes: declare one"
        ):
            apply(db, text)
    assert apply(db, event("u", row(1), row(1, "bob")), event("d", row(1, "bob"), None)) == [(None, None, 1)]
    assert apply(db, event("d", row(2, None, None), None), full_before=True) == []


def test_a_stream_whose_columns_may_all_be_null_takes_no_key_for_a_row(db: SparkConnection) -> None:
    db.execute(f"CREATE STREAM items (id BIGINT, who VARCHAR, price DECIMAL(9,2)); {VIEW}")
    apply(db, event("c", None, row(1)), event("c", None, row(2, None)))
    for before in (row(1, None, None), row(2, None), {"id": 1}):
        for text in (event("d", before, None), event("u", before, row(1))):
            with pytest.raises(DataError, match="it may be a key alone"):
                apply(db, text)
    assert apply(db, event("d", row(2, None), None), event("d", row(1), None), full_before=True) == []


def test_values_that_postgresql_does_not_send(db: SparkConnection) -> None:
    unknown = "__debezium_unavailable_value"
    db.execute(f"CREATE TABLE items {ITEMS}, PRIMARY KEY (id)); {VIEW}")
    apply(db, event("c", None, row(1)))
    assert apply(db, event("u", None, row(1, unknown, 7))) == [("ada", 7, 1)]
    assert apply(db, event("u", row(1, price=7), row(1, unknown, 8))) == [("ada", 8, 1)]
    with pytest.raises(DataError, match=r"who \(VARCHAR\) has no value"):
        apply(db, event("c", None, row(2, unknown)))


def test_dead_letters(db: SparkConnection) -> None:
    db.execute(f"CREATE TABLE items {ITEMS}, PRIMARY KEY (id)); {VIEW}; {LETTERS}")
    events = ["{", event("c", None, row(1)), event("d", {"id": 2}, None), event("t", None, None)]
    assert apply(db, *events, dead_letters="letters") == [("ada", 5, 1)]
    assert sorted(db.table("letters").rows()) == [
        ("items", "{", "it is no JSON (Expecting property name enclosed in double quotes)"),
        ("items", events[2], "items has no row with this key"),
        ("items", events[3], "the operation 't' is none of c, r, u and d, which are about rows"),
    ]
    with pytest.raises(SchemaError, match=r"items cannot take dead letters; CREATE TABLE items \(table_name VARCHAR"):
        apply(db, dead_letters="items")
    frame = db.debezium("items", pa.table({"value": [""]}), dead_letters="letters")
    with pytest.raises(DataError, match="table 'letters' takes the dead letters of this batch"):
        db.apply({"items": frame, "letters": [("a", "b", "c")]})
    assert db.apply({"items": frame}, batch_id=1) == db.apply({"items": frame}, batch_id=1)
    assert len(db.table("letters").rows()) == 4


def test_events_are_changes_of_their_table(db: SparkConnection) -> None:
    db.execute(f"CREATE TABLE items {ITEMS}, PRIMARY KEY (id)); CREATE TABLE others {ITEMS}); {VIEW}")
    events = db.debezium("items", pa.table({"value": [event("c", None, row(1))]}))
    with pytest.raises(DataError, match="these are events about items, not about others"):
        db.apply({"others": events})
    with pytest.raises(DataError, match=r"ChangeEvents .* is not a list of rows"):
        db.insert("items", events)
    with pytest.raises(DataError, match="items has no column 'pric'; did you mean 'price'"):
        db.debezium("items", pa.table({"value": [""]}), encodings={"pric": "string"})


# -- values ---------------------------------------------------------------------------------------------------------

TYPES = {"d": decimal(9, 2), "day": DATE, "at": TIMESTAMP, "x": DOUBLE, "n": BIGINT, "s": VARCHAR, "b": BOOLEAN}
T = datetime(2026, 1, 2, 3, 4, 5)
MICROS = 1767323045000000
DAYS = 20455
D2 = {"name": "org.apache.kafka.connect.data.Decimal", "type": "bytes", "parameters": {"scale": "2"}}


def read(column: str, value: object, field: dict[str, object] | str | None, zone: str = "UTC") -> object:
    """One value by the schema of an event, by an encoding that is named, or by nothing."""
    each = Column(column, TYPES[column])
    table = Table("t", (each,), TableKind.STREAM)
    told = ((column, named_encoding("t", each, field)),) if isinstance(field, str) else ()
    text: dict[str, object] = {"payload": {"op": "c", "before": None, "after": {column: value}}}
    if isinstance(field, dict):
        side = {"type": "struct", "fields": [{"field": column, **field}]}
        text["schema"] = {"fields": [{**side, "field": "before"}, {**side, "field": "after"}]}
    reader = EventReader(EventFormat(table, zone, told))
    first, again = (reader.read_text(json.dumps(text))[0] for _ in range(2))
    assert first == again
    return first.reason if first.kind == ERROR else first.row[0]


def time(name: str, type: str = "int64") -> dict[str, object]:
    return {"type": type, "name": f"io.debezium.time.{name}"}


@pytest.mark.parametrize(
    ("column", "value", "field", "expected"),
    [
        ("d", "BBo=", D2, 1050),
        ("d", "++Y=", D2, -1050),
        ("d", "AA==", D2, 0),
        ("d", "BBo=", "Decimal", 1050),
        ("d", "BBo=", "Decimal(1)", 10500),
        ("d", {"scale": 1, "value": "aQ=="}, {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, 1050),
        ("d", {"scale": 1, "value": "aQ=="}, None, 1050),
        ("d", "10.50", None, 1050),
        ("d", "1234", "string", 123400),
        ("d", 10.5, None, 1050),
        ("d", 10.5, {"type": "double"}, 1050),
        ("x", "BBo=", D2, 10.5),
        ("n", "BBo=", {**D2, "parameters": {"scale": "0"}}, 1050),
        ("day", DAYS, None, DAYS),
        ("day", DAYS, time("Date", "int32"), DAYS),
        ("day", DAYS * 86_400_000, time("Timestamp"), DAYS),
        ("day", "2026-01-02Z", time("IsoDate", "string"), DAYS),
        ("day", "2026-01-02", None, DAYS),
        ("at", MICROS // 1000, time("Timestamp"), MICROS),
        ("at", MICROS // 1000, {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, MICROS),
        ("at", MICROS, "MicroTimestamp", MICROS),
        ("at", MICROS * 1000, "io.debezium.time.NanoTimestamp", MICROS),
        ("at", "2026-01-02T03:04:05Z", None, MICROS),
        ("at", "2026-01-02T05:04:05.000000+02:00", time("ZonedTimestamp", "string"), MICROS),
        ("at", "2026-01-02T03:04:05Z", time("IsoTimestamp", "string"), MICROS),
        ("at", "2026-01-02 03:04:05", {"type": "string"}, MICROS),
        ("n", MICROS, time("MicroTimestamp"), MICROS),
        ("s", "2026", time("ZonedTimestamp", "string"), "2026"),
        ("b", 1, {"type": "int16"}, True),
        ("b", False, None, False),
    ],
)
def test_encodings(column: str, value: object, field: dict[str, object] | str | None, expected: object) -> None:
    assert read(column, value, field) == expected


@pytest.mark.parametrize(
    ("column", "value", "field", "reason"),
    [
        ("d", "1.005", None, "more than 2 digits after the point"),
        ("d", 1.005, None, "1.005 is refused: more than 2 digits after the point"),
        ("d", "BBo=", None, r"encodings={'d': 'string'} or 'Decimal\(2\)'"),
        ("d", "1000", None, "it may be text or base64"),
        ("d", "BBo=", {"type": "bytes"}, "the schema of the event says bytes, which is not a number"),
        ("d", "B?o=", D2, "not base64"),
        ("d", "", D2, "expected the bytes of a number"),
        ("d", "BBo=", {**D2, "parameters": {}}, "names no scale"),
        ("d", "1_0", "string", "not a decimal number"),
        ("d", base64.b64encode(b"\x7f" * 100).decode(), D2, "more than 7 digits before the point"),
        ("at", MICROS, None, "the unit is not known.*'MicroTimestamp'}, 'Timestamp' .milliseconds. or"),
        ("at", MICROS, {"type": "int64"}, "the schema of the event says int64, which is not a date"),
        ("at", 1, time("MicroTime"), "says MicroTime, which is not a date or a time of one"),
        ("at", MICROS * 1000 + 1, time("NanoTimestamp"), "finer than microseconds"),
        ("at", 2**62, time("Timestamp"), "outside the years 1 to 9999"),
        ("at", "2026-01-02T03:04:05.0000001Z", None, "finer than microseconds"),
        ("at", "2026-01-02T03:04:05", time("ZonedTimestamp", "string"), "expected a time with a zone"),
        ("at", "infinity", None, "expected YYYY-MM-DD HH:MM:SS"),
        ("day", "2026-01-02T03:04:05Z", None, "a time of day does not fit a DATE"),
        ("day", 10**7, None, "outside the years"),
        ("day", True, None, "expected a date"),
        ("n", "5", None, "expected an integer"),
        ("n", 2**63, None, "out of range"),
        ("s", 5, None, "expected a string"),
        ("s", "YQ==", {"type": "bytes"}, "says bytes, which is not text"),
        ("s", "\ud800", None, "not valid Unicode"),
        ("b", 2, None, "expected True or False"),
        ("x", "1.5", None, "expected a number"),
    ],
)
def test_values_that_are_refused(column: str, value: object, field: Any, reason: str) -> None:
    import re

    found = read(column, value, field)
    assert isinstance(found, str)
    assert re.search(reason, found), found


def test_moments_in_another_time_zone() -> None:
    at, zoned = datetime(2026, 1, 2, 4, 4, 5), time("ZonedTimestamp", "string")
    micros = (at - datetime(1970, 1, 1)).total_seconds() * 1e6
    for zone in ("Europe/Paris", "+01:00", "GMT+1"):
        assert read("at", "2026-01-02T03:04:05Z", zoned, zone) == micros
        assert read("at", "2026-01-02T03:04:05Z", time("IsoTimestamp", "string"), zone) == MICROS
        assert "'ZonedTimestamp'} or 'IsoTimestamp'" in str(read("at", "2026-01-02T03:04:05Z", None, zone))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("d", "Date"),
        ("d", "Decimal(2"),
        ("at", "Decimal"),
        ("s", "string"),
        ("x", "Decimal"),
        ("at", "MicroTime"),
        ("d", 2),
    ],
)
def test_encodings_that_cannot_be_named(column: str, text: str) -> None:
    with pytest.raises(DataError, match=f"t.{column}"):
        named_encoding("t", Column(column, TYPES[column]), text)


def error(text: str | bytes) -> str:
    (step,) = EventReader(EventFormat(Table("t", (Column("n", BIGINT),), TableKind.STREAM))).read_text(text)
    assert step.kind == ERROR
    return step.reason


def test_texts_that_are_no_events() -> None:
    assert error("").startswith("it is no JSON")
    assert error(b"\x00\x00\x00\x00\x01\xff").startswith("it is no JSON but bytes; decode Avro")
    assert error("[" * 100_000).startswith("it is no JSON")
    assert error("[]") == "it is no object with 'op', 'before' and 'after'"
    assert error('{"n": 1}').startswith("it has no 'op'")
    assert error('{"op": "c", "after": {"n": 1, "n": 2}}') == "an object of it has a name twice"
    assert error('{"op": "c", "after": {"n": 1, "N": 2, "m": 1e999999999}}') == "the number 1e999999999 is out of range"
    assert error('{"op": "c", "after": {"n": NaN}}') == "NaN is no number of JSON"
    assert error('{"op": "c", "after": {"n": ' + "9" * 5000 + "}}").startswith("it is no JSON")
    assert error('{"op": "c", "after": {"N": 1, "n ": 2, "Ñ": 1}, "before": {}}') == "a row that comes has no 'before'"
    assert error('{"schema": {}, "payload": {"op": "c", "after": {"n": 1}}}').startswith("its schema does not say")
    reader = EventReader(EventFormat(Table("t", (Column("n", BIGINT),), TableKind.STREAM)))
    assert reader.read_text('{"op": "c", "after": {"N": 10e0}}') == [Step("insert", (10,))]
    for tombstone in (None, "null", '{"schema": null, "payload": null}'):
        assert reader.read_text(tombstone) == []


def test_events_as_structs() -> None:
    columns = (Column("d", decimal(9, 2)), Column("day", DATE), Column("at", TIMESTAMP))
    reader = EventReader(EventFormat(Table("t", columns, TableKind.STREAM), "Europe/Paris"))
    after = {"d": Decimal("1.50"), "day": date(1970, 1, 3), "at": T}
    assert reader.read_struct("c", None, after)[0].row == (150, 2, MICROS)
    assert reader.read_struct("c", None, {**after, "d": b"\x04\x1a"})[0].kind == ERROR
    assert reader.read_struct(None, None, after)[0].reason.startswith("it has no 'op'")
    assert reader.read_struct(None, None, None) == []
