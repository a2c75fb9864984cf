"""Change events of Debezium as steps: rows that come and rows that go.

    {"op": "u", "before": {"id": 1, "price": 5}, "after": {"id": 1, "price": 7}}   ->   delete (1, 5), insert (1, 7)
    {"op": "u", "before": null, "after": {"id": 1, "price": 7}}                    ->   upsert (1, 7)
    {"op": "d", "before": {"id": 1, "price": null}, "after": null}                 ->   remove the row with the key 1

What sources log without the row that goes (PostgreSQL by default) is resolved by the rows that the table keeps, by its
primary key. Everything that cannot be read is an error step, which says why: nothing is left out or rounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from viewlet.changes import Changes, did_you_mean
from viewlet.changes.values import Misfit, too_long
from viewlet.spark.run.load.debezium_values import Encoding, field_encoding, value_reader, zone_of
from viewlet.types import Column, Datum, Row, Table, TableKind

INSERT, DELETE, UPSERT, REMOVE, ERROR = "insert", "delete", "upsert", "remove", "error"
_UNCHANGED = "__debezium_unavailable_value"
"""What PostgreSQL does not send of a large value that an update has not changed."""
_SCHEMA_FIRST = re.compile(r'\s*\{\s*"schema"\s*:\s*(?=\{)')
_JSON = json.JSONDecoder()
_EXPONENTS = 400

Readers = tuple[Callable[[object], Datum], ...]


@dataclass(frozen=True, slots=True)
class EventFormat:
    """The table that events are about, and what the user says of them."""

    table: Table
    zone: str = "UTC"
    """The time zone of the session."""
    encodings: tuple[tuple[str, Encoding], ...] = ()
    """Those of columns, for events without a schema."""
    full_before: bool = False
    """Every row in `before` is whole, even if all of it but its key is NULL."""

    @property
    def is_keyed(self) -> bool:
        """The row that an event means can be found by its key."""
        return self.table.kind is not TableKind.STREAM and bool(self.table.primary_key)


@dataclass(frozen=True, slots=True)
class Step:
    """What an event does to a row: `INSERT`, `DELETE`, `UPSERT` by key, `REMOVE` by key, or an `ERROR`."""

    kind: str
    row: Row = ()
    unchanged: tuple[int, ...] = ()
    """Positions of values that an update has not changed, and that the event does not say."""
    event: str = ""
    reason: str = ""
    place: tuple[str, int] | None = None
    """The partition of a topic, and the position in it."""


class EventReader:
    """Reads events about one table."""

    def __init__(self, format: EventFormat) -> None:
        self.format, self.table = format, format.table
        self._key = tuple(self.table.column_names.index(name) for name in self.table.primary_key)
        self._rest = tuple(i for i in range(len(self.table.columns)) if i not in self._key)
        self._required = tuple(
            not each.type.nullable or each.name in self.table.primary_key for each in self.table.columns
        )
        self._zone: tzinfo = zone_of(format.zone)
        told = dict(format.encodings)
        self._untold = self._readers([told.get(column.name) for column in self.table.columns])
        self._prefix, self._schema = "", {}  # type: tuple[str, dict[str, Readers]]
        self._matched: dict[tuple[str, ...], tuple[str | None, ...]] = {}

    def read_text(self, value: str | bytes | None, place: tuple[str, int] | None = None) -> list[Step]:
        """The steps of an event that is JSON; none for the empty one that follows a delete in Kafka."""
        if value is None:
            return []
        text = value if isinstance(value, str) else bytes(value).decode(errors="backslashreplace")
        try:
            if not isinstance(value, str):
                _check_text(value)
            payload, schema = self._parse(text)
            return [] if payload is None else self._steps(payload, schema, text, place)
        except Misfit as error:
            return [Step(ERROR, event=text, reason=str(error), place=place)]

    def read_struct(
        self, op: object, before: object, after: object, place: tuple[str, int] | None = None
    ) -> list[Step]:
        """The steps of an event that is a row of a frame."""
        if op is None and before is None and after is None:
            return []
        event = {"op": op, "before": before, "after": after}
        text = json.dumps(event, default=str)
        try:
            return self._steps(event, {}, text, place)
        except Misfit as error:
            return [Step(ERROR, event=text, reason=str(error), place=place)]

    # -- the envelope -----------------------------------------------------------------------------------------------

    def _parse(self, text: str) -> tuple[Mapping[str, object] | None, dict[str, Readers]]:
        """The payload of an event, and what reads its rows; a schema that comes again is not parsed again."""
        try:
            if self._prefix and text.startswith(self._prefix):
                found = _decoder.decode('{"schema":null' + text[len(self._prefix) :])
                schema = self._schema
            else:
                found = _decoder.decode(text)
                schema = self._schema_of(found, text)
        except (ValueError, RecursionError) as error:
            raise Misfit(f"it is no JSON ({str(error).split(': line')[0]:.80})") from None
        if found is None:
            return None, {}
        if isinstance(found, dict) and "payload" in found and "op" not in found:
            found = found["payload"]
        if found is not None and not isinstance(found, dict):
            raise Misfit("it is no object with 'op', 'before' and 'after'")
        return found, schema

    def _schema_of(self, found: object, text: str) -> dict[str, Readers]:
        """What reads `before` and `after`, by the schema that comes with an event."""
        schema = found.get("schema") if isinstance(found, dict) and "payload" in found else None
        if schema is None:
            return {}
        fields = _fields(schema)
        readers: dict[str, Readers] = {}
        for side in ("before", "after"):
            encodings = {str(each.get("field")): field_encoding(each) for each in _fields(fields.get(side)).values()}
            at = self._match(tuple(encodings))
            readers[side] = self._readers([None if name is None else encodings[name] for name in at])
        first = _SCHEMA_FIRST.match(text)
        if first is not None:
            self._prefix, self._schema = text[: _JSON.raw_decode(text, first.end())[1]], readers
        return readers

    def _readers(self, encodings: Sequence[Encoding | None]) -> Readers:
        pairs = zip(self.table.columns, encodings, strict=True)
        return tuple(value_reader(column, encoding, self._zone) for column, encoding in pairs)

    def _steps(
        self, payload: Mapping[str, object], schema: dict[str, Readers], text: str, place: tuple[str, int] | None
    ) -> list[Step]:
        op, before, after = (payload.get(name) for name in ("op", "before", "after"))
        match op:
            case "c" | "r":
                if before is not None:
                    raise Misfit("a row that comes has no 'before'")
                row, unchanged = self._after(after, schema)
                if unchanged:
                    raise Misfit(f"{self._named(unchanged[0])} has no value")
                return [Step(INSERT, row, place=place)]
            case "u":
                return [replace(step, event=text, place=place) for step in self._update(before, after, schema)]
            case "d":
                if after is not None:
                    raise Misfit("a row that goes has no 'after'")
                gone, is_whole = self._before(before, schema)
                return [Step(DELETE if is_whole else REMOVE, gone, event=text, place=place)]
            case None:
                raise Misfit("it has no 'op': events have to come whole, with 'op', 'before' and 'after'")
            case _:
                raise Misfit(f"the operation {op!r} is none of c, r, u and d, which are about rows")

    def _update(self, before: object, after: object, schema: dict[str, Readers]) -> list[Step]:
        row, unchanged = self._after(after, schema)
        if before is None:
            self._check_keyed("'before' is NULL")
            return [Step(UPSERT, row, unchanged)]
        old, is_whole = self._before(before, schema)
        if is_whole:
            whole = tuple(old[i] if i in unchanged else value for i, value in enumerate(row))
            return [Step(DELETE, old), Step(INSERT, whole)]
        if key_of(self.table, old) == key_of(self.table, row):
            return [Step(UPSERT, row, unchanged)]
        if unchanged:
            raise Misfit(f"{self._named(unchanged[0])} has no value, and the key has changed")
        return [Step(REMOVE, old), Step(INSERT, row)]

    # -- rows -------------------------------------------------------------------------------------------------------

    def _after(self, given: object, schema: dict[str, Readers]) -> tuple[Row, tuple[int, ...]]:
        """A whole row, and the positions of values that have not changed."""
        values, readers = self._values(given, "after", schema)
        row: list[Datum] = []
        unchanged: list[int] = []
        for i, value in enumerate(values):
            if value is _ABSENT:
                name, names = self.table.column_names[i], tuple(given) if isinstance(given, Mapping) else ()
                raise Misfit(f"'after' has no column {name!r}{did_you_mean(name, names)}; it may have been renamed")
            if value == _UNCHANGED and self._rest.count(i):
                unchanged.append(i)
                row.append(None)
            else:
                row.append(self._value(i, value, readers))
        return tuple(row), tuple(unchanged)

    def _before(self, given: object, schema: dict[str, Readers]) -> tuple[Row, bool]:
        """The row that goes, and whether it is whole: sources may log no more of it than its key.

        Nobody knows which columns are the key of a stream, or notices that it did not have a row: any NULL may be
        a value that was left out.
        """
        if given is None:
            raise Misfit("'before' is NULL: nothing says which row goes")
        values, readers = self._values(given, "before", schema)
        absent = [i for i, value in enumerate(values) if value is _ABSENT]
        empty = [i for i, value in enumerate(values) if value is None and self._required[i]]
        bare = [values[i] is None or value_is_absent(values[i]) for i in self._optional]
        is_bare = any(bare) if self.table.kind is TableKind.STREAM else bool(bare) and all(bare)
        if absent or empty or (is_bare and not self.format.full_before):
            missing = (absent or empty or [i for i, is_none in zip(self._optional, bare, strict=True) if is_none])[0]
            self._check_keyed(f"'before' says nothing of {self.table.columns[missing].name!r}, it may be a key alone")
            values = [value if i in self._key else None for i, value in enumerate(values)]
            key = [None if value is _ABSENT else value for value in values]
            return tuple(self._value(i, key[i], readers) if i in self._key else None for i in range(len(key))), False
        return tuple(self._value(i, value, readers) for i, value in enumerate(values)), True

    @property
    def _optional(self) -> tuple[int, ...]:
        """Columns that are NULL where a source logs a key alone."""
        return self._rest if self._key else tuple(i for i in self._rest if not self._required[i])

    def _check_keyed(self, what: str) -> None:
        if not self.format.is_keyed:
            raise Misfit(
                f"{what}, and {self.table.name} is no TABLE with a PRIMARY KEY that says which row goes: declare one, "
                "or have the source log whole rows (REPLICA IDENTITY FULL) and say full_before=True"
            )

    def _values(self, given: object, side: str, schema: dict[str, Readers]) -> tuple[list[object], Readers]:
        """What a row of an event says of each column, and what reads that."""
        if not isinstance(given, Mapping):
            raise Misfit(f"{side!r} is no row" if given is not None else f"{side!r} is NULL")
        at = self._match(tuple(given))
        return [_ABSENT if name is None else given[name] for name in at], schema.get(side, self._untold)

    def _match(self, given: tuple[str, ...]) -> tuple[str | None, ...]:
        """The given name of each column: the exact one first, then that in any case."""
        known = self._matched.get(given)
        if known is None:
            folded: dict[str, list[str]] = {}
            for name in given:
                folded.setdefault(name.lower(), []).append(name)
            found: list[str | None] = []
            for column in self.table.column_names:
                alike = [column] if column in given else folded.get(column.lower(), [])
                if len(alike) > 1:
                    raise Misfit(f"{alike[0]!r} and {alike[1]!r} are both the column {column!r}")
                found.append(alike[0] if alike else None)
            if len(self._matched) > 100:
                self._matched.clear()
            known = self._matched[given] = tuple(found)
        return known

    def _value(self, position: int, value: object, readers: Readers) -> Datum:
        column = self.table.columns[position]
        if value is None:
            if self._required[position]:
                is_key = column.name in self.table.primary_key
                reason = "a PRIMARY KEY cannot be NULL" if is_key else "the column is NOT NULL"
                raise Misfit(f"{self._named(position)}: NULL is refused: {reason}")
            return None
        try:
            datum = readers[position](value)
        except (Misfit, ValueError, TypeError, ArithmeticError) as error:
            reason = str(error) if isinstance(error, Misfit) else f"not a {column.type}"
            raise Misfit(f"{self._named(position)}: {_shown(value)} is refused: {reason}") from None
        if column.length is not None and isinstance(datum, str) and len(datum) > column.length:
            raise Misfit(f"{self._named(position)}: {_shown(value)} is refused: {too_long(column, datum)}")
        if column.name in self.table.non_negative and isinstance(datum, int | float) and datum < 0:
            raise Misfit(f"{self._named(position)}: {_shown(value)} is refused: CHECK ({column.name} >= 0)")
        return datum

    def _named(self, position: int) -> str:
        column: Column = self.table.columns[position]
        return f"{column.name} ({column.declared})"


class _Absent:
    """Stands for a column that a row does not have."""


_ABSENT: object = _Absent()


def value_is_absent(value: object) -> bool:
    return value is _ABSENT


def _shown(value: object) -> str:
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _fields(schema: object) -> dict[str, dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
        raise Misfit("its schema does not say what 'before' and 'after' are")
    return {str(each.get("field")): each for each in fields}


def _check_text(value: bytes) -> None:
    try:
        value.decode()
    except UnicodeDecodeError:
        raise Misfit("it is no JSON but bytes; decode Avro or Protobuf first, and hand in the columns") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Misfit("an object of it has a name twice")
    return found


def _decimal(text: str) -> Decimal:
    """A number of JSON, exactly; none that would be endless as a whole number."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Misfit(f"the number {text:.40} is out of range") from None
    if number and abs(number.adjusted()) > _EXPONENTS:
        raise Misfit(f"the number {text:.40} is out of range")
    return number or Decimal(0)


def _no_number(text: str) -> object:
    raise Misfit(f"{text} is no number of JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_decimal, parse_constant=_no_number)


# -- steps without the row that goes --------------------------------------------------------------------------------


def read_events(format: EventFormat, events: Any) -> Iterator[Step]:
    """The steps of events in an Arrow table: in the columns `op`, `before` and `after`, or as JSON in `value`."""
    reader, names = EventReader(format), events.column_names
    places: Iterable[tuple[str, int] | None] = [None] * events.num_rows
    if "offset" in names:
        offsets = events.column("offset").to_pylist()
        where = [events.column(name).to_pylist() for name in ("topic", "partition") if name in names]
        sources = [f"of {'/'.join(map(str, each))}" for each in zip(*where, strict=True)] or [""] * len(offsets)
        places = [None if at is None else (source, at) for source, at in zip(sources, offsets, strict=True)]
    if "op" in names:
        columns = (events.column(name).to_pylist() for name in ("op", "before", "after"))
        for op, before, after, place in zip(*columns, places, strict=True):
            yield from reader.read_struct(op, before, after, place)
    else:
        for value, place in zip(events.column("value").to_pylist(), places, strict=True):
            yield from reader.read_text(value, place)


def key_of(table: Table, row: Row) -> Row:
    names = table.column_names
    return tuple(row[names.index(name)] for name in table.primary_key)


def open_keys(table: Table, steps: Iterable[Step]) -> set[Row]:
    """The keys of rows that go, where events say no more of them."""
    return {key_of(table, step.row) for step in steps if step.kind in (UPSERT, REMOVE)}


def resolve(
    table: Table, steps: Iterable[Step], kept: Callable[[Sequence[Row]], Changes]
) -> tuple[Changes, list[Step]]:
    """What upserts and removals do to the rows that a table keeps, and which of them say nothing that can be done.

    `steps` are all steps about the keys that `open_keys` finds among them; `kept` gives the rows with some keys.
    """
    histories: dict[Row, list[Step]] = {}
    for step in steps:
        histories.setdefault(key_of(table, step.row), []).append(step)
    open_ones = {
        key: history for key, history in histories.items() if any(each.kind in (UPSERT, REMOVE) for each in history)
    }
    rows = {key_of(table, row): row for row in (kept(list(open_ones)) if open_ones else ())}
    changes: Changes = {}
    errors: list[Step] = []
    for key, history in open_ones.items():
        ordered = _ordered(history)
        if ordered is None:
            reason = (
                "the batch has other events about the same row, and their order is not known: keep the columns "
                "'partition' and 'offset' of Kafka beside 'value'"
            )
            errors += [replace(each, kind=ERROR, reason=reason) for each in history if each.kind in (UPSERT, REMOVE)]
        else:
            errors += _follow(table, rows.get(key), ordered, changes)
    return {row: weight for row, weight in changes.items() if weight}, errors


def _ordered(history: Collection[Step]) -> list[Step] | None:
    """The steps about a row in the order in which they happened, if that is known."""
    places = [each.place for each in history]
    if len(places) == 1:
        return list(history)
    known = [place for place in places if place is not None]
    if len(known) < len(places) or len({source for source, _ in known}) > 1:
        return None
    return [step for _, _, step in sorted((known[i][1], i, step) for i, step in enumerate(history))]


def _follow(table: Table, row: Row | None, history: Sequence[Step], changes: Changes) -> list[Step]:
    """Adds what upserts and removals do to a row; returns those that find none."""
    errors = []
    for step in history:
        if step.kind in (INSERT, DELETE):
            row = step.row if step.kind == INSERT else None
        elif row is None:
            errors.append(replace(step, kind=ERROR, reason=f"{table.name} has no row with this key"))
        else:
            changes[row] = changes.get(row, 0) - 1
            row = (
                tuple(row[i] if i in step.unchanged else value for i, value in enumerate(step.row))
                if step.kind == UPSERT
                else None
            )
            if row is not None:
                changes[row] = changes.get(row, 0) + 1
    return errors
