"""Random histories of a source table as Debezium would tell them, in every encoding; the table itself is the oracle.

`python -m tests.spark.event_histories --histories 2000` looks for a difference in many of them.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from viewlet.connection.spark_facade import SparkConnection, connect_inline

EPOCH = datetime(1970, 1, 1)
SCALES = {"price": 2, "wide": 10}
COLUMNS = {
    "id": "BIGINT NOT NULL",
    "part": "VARCHAR NOT NULL",
    "name": "VARCHAR",
    "price": "DECIMAL(15,2)",
    "wide": "DECIMAL(38,10)",
    "small": "SMALLINT",
    "number": "INTEGER",
    "rate": "DOUBLE",
    "open": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
    "moment": "TIMESTAMP",
}
KEYS = ("id", "part")
VIEW = (
    "SELECT part, COUNT(*) AS n, COUNT(name) AS named, SUM(price) AS price, MIN(day) AS day, MAX(at) AS at FROM items"
)


@dataclass
class Modes:
    """How a source encodes values, and what it logs."""

    with_schema: bool
    decimals: str
    times: str
    is_full: bool
    is_stream: bool

    @classmethod
    def drawn(cls, rnd: random.Random) -> Modes:
        is_full = rnd.random() < 0.5
        return cls(
            rnd.random() < 0.6,
            rnd.choice(["precise", "string", "variable"]),
            rnd.choice(["milliseconds", "microseconds", "nanoseconds", "connect", "isostring"]),
            is_full,
            is_full and rnd.random() < 0.4,
        )

    def field(self, column: str) -> dict[str, Any]:
        """The schema of a column."""
        known: dict[str, Any] = {"field": column, "optional": column not in KEYS}
        match COLUMNS[column].split("(")[0].split()[0]:
            case "DECIMAL":
                scale = SCALES[column]
                if self.decimals == "precise":
                    name = "org.apache.kafka.connect.data.Decimal"
                    return {**known, "type": "bytes", "name": name, "version": 1, "parameters": {"scale": str(scale)}}
                if self.decimals == "variable":
                    return {**known, "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
                return {**known, "type": "string"}
            case "DATE":
                name = {"connect": "org.apache.kafka.connect.data.Date", "isostring": "io.debezium.time.IsoDate"}
                type = "string" if self.times == "isostring" else "int32"
                return {**known, "type": type, "name": name.get(self.times, "io.debezium.time.Date")}
            case "TIMESTAMP":
                if column == "moment":
                    return {**known, "type": "string", "name": "io.debezium.time.ZonedTimestamp"}
                name = {
                    "milliseconds": "io.debezium.time.Timestamp",
                    "microseconds": "io.debezium.time.MicroTimestamp",
                    "nanoseconds": "io.debezium.time.NanoTimestamp",
                    "connect": "org.apache.kafka.connect.data.Timestamp",
                    "isostring": "io.debezium.time.IsoTimestamp",
                }
                type = "string" if self.times == "isostring" else "int64"
                return {**known, "type": type, "name": name[self.times]}
            case kind:
                types = {"BIGINT": "int64", "VARCHAR": "string", "SMALLINT": "int16", "INTEGER": "int32"}
                return {**known, "type": {**types, "DOUBLE": "double", "BOOLEAN": "boolean"}[kind]}

    def encode(self, column: str, value: Any) -> Any:
        if isinstance(value, Decimal):
            unscaled = int(value.scaleb(SCALES[column]))
            digits = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
            text = base64.b64encode(digits).decode()
            if self.decimals == "variable":
                return {"scale": SCALES[column], "value": text}
            return text if self.decimals == "precise" else str(value)
        if isinstance(value, datetime):
            if column == "moment":
                zone = timezone(timedelta(hours=self.offset))
                return value.replace(tzinfo=UTC).astimezone(zone).isoformat().replace("+00:00", "Z")
            micros = (value - EPOCH) // timedelta(microseconds=1)
            match self.times:
                case "isostring":
                    return value.isoformat() + "Z"
                case "microseconds":
                    return micros
                case "nanoseconds":
                    return micros * 1000
                case _:
                    return micros // 1000
        if isinstance(value, date):
            return f"{value}Z" if self.times == "isostring" else (value - EPOCH.date()).days
        return value

    offset: int = 0

    @property
    def told(self) -> dict[str, str]:
        """What has to be said of events that come without a schema."""
        if self.with_schema:
            return {}
        decimals = {"precise": ("Decimal(2)", "Decimal"), "string": ("string",) * 2}.get(self.decimals, ())
        found = dict(zip(("price", "wide"), decimals, strict=False))
        name = self.field("at")["name"].rpartition(".")[2]
        return found if self.times == "isostring" else {**found, "at": name}


@dataclass
class Source:
    """The table that is captured, and the events about it."""

    rnd: random.Random
    modes: Modes
    rows: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)

    def value(self, column: str) -> Any:
        rnd = self.rnd
        if column == "id":
            return rnd.randrange(12)
        if column == "part":
            return rnd.choice(["a", "b", "ü"])
        if rnd.random() < 0.25:
            return None
        match column:
            case "name":
                return rnd.choice(["", "x", '"quoted" \n', "漢字", "12.50", "2026-01-01"])
            case "price":
                return (
                    Decimal(rnd.choice([0, 1, -1, 1050, -128, 127, 32768, rnd.randrange(-(10**15) + 1, 10**15)])) / 100
                )
            case "wide":
                return Decimal(rnd.randrange(-(10**38) + 1, 10**38)).scaleb(-10)
            case "small":
                return rnd.choice([0, -(2**15), 2**15 - 1])
            case "number":
                return rnd.choice([0, -(2**31), 2**31 - 1])
            case "rate":
                return rnd.choice([0.0, 0.1, -1e300, 5e-324, 1.5, 3.0])
            case "open":
                return rnd.random() < 0.5
            case "day":
                return date(1, 1, 1) + timedelta(days=rnd.randrange(3652058))
            case _:
                finest = 1000 if self.modes.times in ("milliseconds", "connect") and column == "at" else 1
                micros = rnd.randrange(-(10**16), 10**16) if rnd.random() < 0.8 else rnd.choice([0, 1, -1])
                return EPOCH + timedelta(microseconds=micros // finest * finest)

    def events(self, count: int) -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = []
        for _ in range(count):
            key = (self.value("id"), self.value("part"))
            before = self.rows.get(key)
            if before is None:
                row = {**{column: self.value(column) for column in COLUMNS}, "id": key[0], "part": key[1]}
                self.rows[key] = row
                found.append(self.event(self.rnd.choice("cr"), None, row))
            elif self.rnd.random() < 0.6:
                row = {
                    **before,
                    **{each: self.value(each) for each in COLUMNS if each not in KEYS and self.rnd.random() < 0.5},
                }
                self.rows[key] = row
                found.append(self.event("u", before if self.modes.is_full else None, row))
            else:
                del self.rows[key]
                gone = (
                    before if self.modes.is_full else {each: before[each] if each in KEYS else None for each in before}
                )
                found += [self.event("d", gone, None), None]
        return found

    def event(self, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
        rows = [
            row and {c: None if v is None else self.modes.encode(c, v) for c, v in row.items()}
            for row in (before, after)
        ]
        payload = {"before": rows[0], "after": rows[1], "source": {"table": "items"}, "op": op, "ts_ms": 1}
        if not self.modes.with_schema:
            return payload if self.rnd.random() < 0.5 else {"payload": payload}
        fields = [self.modes.field(column) for column in COLUMNS]
        sides = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
        schema = {"type": "struct", "fields": [*sides, {"type": "string", "field": "op"}], "name": "items.Envelope"}
        return {"schema": schema, "payload": payload}


def opened(folder: str, modes: Modes) -> SparkConnection:
    """A database with a copy of the source table."""
    db = connect_inline(folder, 2, sync=False)
    declare(db, modes)
    return db


def declare(db: SparkConnection, modes: Modes) -> None:
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    key = "" if modes.is_stream else f", PRIMARY KEY ({', '.join(KEYS)})"
    db.execute(f"CREATE {'STREAM' if modes.is_stream else 'TABLE'} items ({columns}{key})")
    shown = ", ".join(f"{name} AS c{i}" for i, name in enumerate(COLUMNS))
    db.execute(f"CREATE MATERIALIZED VIEW copy AS SELECT {shown} FROM items")
    db.execute(f"CREATE MATERIALIZED VIEW totals AS {VIEW} GROUP BY part")


def texts(events: list[dict[str, Any] | None]) -> Any:
    """Events as Kafka's columns, in any order."""
    values = [None if each is None else json.dumps(each, ensure_ascii=False).encode() for each in events]
    return pa.table(
        {"value": pa.array(values, pa.binary()), "partition": [0] * len(values), "offset": range(len(values))}
    )


def play(seed: int, batches: int = 3, count: int = 12) -> None:
    """Applies a history batch by batch, and compares the copy with the source after each."""
    rnd = random.Random(seed)
    modes = Modes.drawn(rnd)
    modes.offset = rnd.choice([0, 2, -5])
    source = Source(rnd, modes)
    with tempfile.TemporaryDirectory() as folder, opened(folder, modes) as db:
        for _ in range(batches):
            frame = texts(source.events(count))
            order = list(range(len(frame)))
            rnd.shuffle(order)
            events = db.debezium("items", frame.take(order), encodings=modes.told, full_before=modes.is_full)
            db.apply({"items": events})
            expected = sorted((tuple(row.values()) for row in source.rows.values()), key=repr)
            assert sorted(db.view("copy").rows(), key=repr) == expected, (seed, modes)
            counts: dict[str, int] = {}
            for row in source.rows.values():
                counts[row["part"]] = counts.get(row["part"], 0) + 1
            assert {part: n for part, n, *_ in db.view("totals").rows()} == counts, (seed, modes)


def damaged(rnd: random.Random, event: dict[str, Any]) -> str | None:
    """The text of an event that nobody should be able to apply; None if it cannot be damaged this way."""
    payload = event.get("payload", event)
    side = payload["after"]
    if side is None:
        return None
    column = rnd.choice([c for c in COLUMNS if c not in KEYS])
    match rnd.randrange(9):
        case 0:
            del side[column]
        case 1:
            side[f"{column}_new"] = side.pop(column)
        case 2:
            payload["op"] = rnd.choice(["t", "m", "x", None, 1, ["c"]])
        case 3:
            text = json.dumps(event)
            return text[: rnd.randrange(1, len(text))]
        case 4:
            side[column] = [] if column in ("price", "wide") else {"a": 1}
        case 5:
            side["id"] = rnd.choice([None, "one", 1.5, 2**63, True])
        case 6:
            payload["after"] = rnd.choice([None, [], "row", 1])
        case 7:
            side[rnd.choice(["day", "at", "moment"])] = rnd.choice(["soon", 1.5, 10**30, True, "2026-13-01T00:00:00Z"])
        case _:
            side[rnd.choice(["price", "wide", "number", "small"])] = rnd.choice(
                ["1.2.3", "NaN", True, "١٢", 10**40, "1_0"]
            )
    return json.dumps(event)


def play_damage(seed: int) -> None:
    """A batch with one event that is damaged is refused as a whole, or leaves that one event to the dead letters."""
    import pytest

    from viewlet import DataError

    rnd = random.Random(seed)
    modes = Modes.drawn(rnd)
    source = Source(rnd, modes)
    with tempfile.TemporaryDirectory() as folder, opened(folder, modes) as db:
        db.execute("CREATE TABLE letters (table_name VARCHAR, event VARCHAR, reason VARCHAR)")
        events = source.events(4)
        row = {**{column: source.value(column) for column in COLUMNS}, "id": 99}
        text = damaged(rnd, source.event("c", None, row))
        assert text is not None
        values = [*(each and json.dumps(each) for each in events)]
        values.insert(rnd.randrange(len(values) + 1), text)
        frame = pa.table({"value": values, "offset": range(len(values))})
        settings = {"encodings": modes.told, "full_before": modes.is_full}
        with pytest.raises(DataError, match=r"items: an event at offset \d+ cannot be applied"):
            db.apply({"items": db.debezium("items", frame, **settings)})
        assert (db.epoch, db.view("copy").rows()) == (0, []), (seed, text)
        db.apply({"items": db.debezium("items", frame, dead_letters="letters", **settings)})
        expected = sorted((tuple(row.values()) for row in source.rows.values()), key=repr)
        assert sorted(db.view("copy").rows(), key=repr) == expected, (seed, text)
        assert [row[:2] for row in db.table("letters").rows()] == [("items", text)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=1000)
    for number in range(parser.parse_args().histories):
        play(number)
        play_damage(number)
    print("no difference")
