"""Data frames of change events (Debezium), as changes of a table that are computed when their batch is applied.

Few events are read at the driver, many where they are. What an event says of a row by its key alone is looked up in the
rows that the table keeps, so that it is known only between two batches. An event that cannot be read is an error, or a
row of a table of dead letters, which is part of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from viewlet.changes import CHANGE_TYPE, CHANGE_TYPES, Changes, did_you_mean, rows_to_arrow
from viewlet.errors import DataError, SchemaError
from viewlet.spark.run.execution.frame_change import FrameChange, fetch_small, is_spark_frame
from viewlet.spark.run.load.debezium_events import (
    DELETE,
    ERROR,
    INSERT,
    REMOVE,
    UPSERT,
    EventFormat,
    Step,
    key_of,
    open_keys,
    read_events,
    resolve,
)
from viewlet.spark.run.load.debezium_values import named_encoding, zone_of
from viewlet.spark.run.load.row_frame import exact_type
from viewlet.spark.run.load.sources import spark_type
from viewlet.sqlgen.dialects import DIALECTS
from viewlet.types import Kind, Row, Table

LETTER = ("table_name", "event", "reason")
"""The columns of a table of dead letters."""
_PLACES = ("topic", "partition", "offset")
_SHOWN = 400
_ROWS_AT_ONCE = 1 << 16
_STEP = "_step"

KeptRows = Callable[[Sequence[Row]], Changes]
"""Finds the rows with some primary keys."""


class KeptTables(Protocol):
    """The tables of a database (`viewlet.hosts.catalogue.Catalogue`)."""

    def find_kept(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class ChangeEvents:
    """Events about a table, for `apply` and `stream`."""

    format: EventFormat
    frame: Any
    letters: Table | None = None

    @property
    def table(self) -> Table:
        return self.format.table


def change_events(
    table: Table, events: Any, zone: str, encodings: Mapping[str, str], full_before: bool, letters: Table | None
) -> ChangeEvents:
    """Events of Debezium, in the columns `op`, `before` and `after`, or as JSON in a column `value`."""
    names = list(events.columns if is_spark_frame(events) else events.column_names)
    wanted = ("value",) if "value" in names and "op" not in names else ("op", "before", "after")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DataError(f"{table.name}: events of Debezium have a column {missing[0]!r}; here are {names}")
    columns = {column.name: column for column in table.columns}
    for name in encodings:
        if name not in columns:
            raise DataError(f"{table.name} has no column {name!r}" + did_you_mean(name, columns))
    told = tuple((name, named_encoding(table.name, columns[name], text)) for name, text in encodings.items())
    try:
        zone_of(zone)
    except (KeyError, ValueError, OSError):
        raise DataError(
            f"the time zone {zone!r} of the session is not known here; name it like 'Europe/Paris'"
        ) from None
    if letters is not None:
        check_letters(letters)
    places = [name for name in _PLACES if name in names] if "offset" in names else []
    return ChangeEvents(EventFormat(table, zone, told, full_before), events.select([*wanted, *places]), letters)


def check_letters(table: Table) -> None:
    is_fitting = sorted(table.column_names) == sorted(LETTER) and not table.primary_key
    if not is_fitting or any(column.type.kind is not Kind.VARCHAR for column in table.columns):
        columns = ", ".join(f"{name} VARCHAR" for name in LETTER)
        raise SchemaError(f"{table.name} cannot take dead letters; CREATE TABLE {table.name} ({columns})")


@contextmanager
def opened(batch: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """A batch with changes in the place of events, and with the dead letters among them."""
    readings = {name: EventReading(data) for name, data in batch.items() if isinstance(data, ChangeEvents)}
    whole: dict[str, object] = {**batch, **{name: EventChanges(reading) for name, reading in readings.items()}}
    letters: dict[str, list[EventReading]] = {}
    for reading in readings.values():
        if reading.events.letters is not None:
            letters.setdefault(reading.events.letters.name, []).append(reading)
    for name, sources in letters.items():
        if name.lower() in {each.lower() for each in batch}:
            raise DataError(f"table {name!r} takes the dead letters of this batch, and cannot be given rows in it")
        whole[name] = DeadLetters(tuple(sources))
    try:
        yield whole
    finally:
        for reading in readings.values():
            reading.release()


class EventReading:
    """The events of one batch, read once: changes, and events that cannot be read."""

    def __init__(self, events: ChangeEvents) -> None:
        self.events, self.table = events, events.table
        self._persisted: Any = None
        self._errors: list[Step] = []
        self._changes: Any = None

    def read(self, catalogue: KeptTables) -> tuple[Any, list[Step]]:
        """Changes as Arrow or a data frame, and errors, if they are dead letters."""
        if self._changes is None:
            self._errors, self._changes = self._read(partial(_kept_rows, catalogue, self.table.name))
            if self._errors and self.events.letters is None:
                raise _unreadable(self.table, self._errors[0])
        return self._changes, self._errors

    def release(self) -> None:
        """Gives up what executors keep of the events."""
        if self._persisted is not None:
            self._persisted.unpersist()

    def _read(self, kept: KeptRows) -> tuple[list[Step], Any]:
        frame = self.events.frame
        if not is_spark_frame(frame):
            return self._read_here(frame, kept)
        change = FrameChange(self.table, frame)
        return self._read_here(change.fetch(), kept) if fetch_small([change]) else self._read_there(kept)

    def _read_here(self, rows: Any, kept: KeptRows) -> tuple[list[Step], Any]:
        steps = list(read_events(self.events.format, rows))
        changes, errors = resolve(self.table, (each for each in steps if each.kind != ERROR), kept)
        for step in steps:
            if step.kind in (INSERT, DELETE):
                changes[step.row] = changes.get(step.row, 0) + CHANGE_TYPES[step.kind]
        found = rows_to_arrow(self.table.columns, changes.items(), with_multiplicity=True)
        return [*(each for each in steps if each.kind == ERROR), *errors], found

    def _read_there(self, kept: KeptRows) -> tuple[list[Step], Any]:
        """Rows that come and go stay where they are; the driver is sent what has to be looked up."""
        from pyspark.sql import functions as f

        table, frame = self.table, self.events.frame
        self._persisted = frame.mapInArrow(ReadEvents(self.events.format), _steps_schema(table)).persist()
        special = _unpacked(self._persisted.where(f"{_STEP} IS NOT NULL").select(_STEP))
        errors = [each for each in special if each.kind == ERROR]
        whole = self._persisted.where(f"{_STEP} IS NULL")
        names = [f.col(f"c{i}").alias(name) for i, name in enumerate(table.column_names)]
        changes = whole.select(*names, f.col("kind").alias(CHANGE_TYPE))
        keys = open_keys(table, special)
        if keys:
            history = _unpacked(frame.mapInArrow(ReadHistory(self.events.format, frozenset(keys)), f"{_STEP} string"))
            resolved, more = resolve(table, history, kept)
            errors += more
            rows = _change_rows(table, [(row, weight) for row, weight in resolved.items()])
            schema = ", ".join(f"{DIALECTS['spark'].quoted(c.name)} {spark_type(c.type)}" for c in table.columns)
            changes = changes.union(frame.sparkSession.createDataFrame(rows, f"{schema}, {CHANGE_TYPE} string"))
        return errors, changes


@dataclass(frozen=True, slots=True)
class EventChanges:
    """The changes that the events of a batch say."""

    reading: EventReading

    def read(self, table: Table, catalogue: KeptTables) -> Any:
        if table.name != self.reading.table.name:
            raise DataError(f"these are events about {self.reading.table.name}, not about {table.name}")
        return self.reading.read(catalogue)[0]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The events of a batch that cannot be read."""

    readings: tuple[EventReading, ...]

    def read(self, table: Table, catalogue: KeptTables) -> Any:
        found = [
            (each.table.name, step.event, step.reason) for each in self.readings for step in each.read(catalogue)[1]
        ]
        return [dict(zip(LETTER, row, strict=True)) for row in found]


def _kept_rows(catalogue: KeptTables, table: str, keys: Sequence[Row]) -> Changes:
    return catalogue.find_kept(table).store.with_keys(keys) or {}


def _unreadable(table: Table, step: Step) -> DataError:
    text = step.event if len(step.event) <= _SHOWN else step.event[: _SHOWN - 3] + "..."
    place = f" at offset {step.place[1]} {step.place[0]}".rstrip() if step.place is not None else ""
    return DataError(f"{table.name}: an event{place} cannot be applied: {step.reason}. The event is {text}")


# -- where the events are -------------------------------------------------------------------------------------------


def _steps_schema(table: Table) -> str:
    columns = ", ".join(f"c{i} {spark_type(column.type)}" for i, column in enumerate(table.columns))
    return f"{columns}, kind string, {_STEP} string"


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """Reads events in tasks: rows that come and go as columns, other steps as text."""

    format: EventFormat

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        table = self.format.table
        for steps in _in_parts(self.format, batches):
            plain = [each for each in steps if each.kind in (INSERT, DELETE)]
            special = [each for each in steps if each.kind in (UPSERT, REMOVE, ERROR)]
            rows = [(each.row, 1) for each in plain] + [((None,) * len(table.columns), 1)] * len(special)
            columns = _columns(table, rows)
            kinds = pa.array([each.kind for each in plain] + [None] * len(special), pa.string())
            packed = pa.array([None] * len(plain) + [_packed(each) for each in special], pa.string())
            names = [*(f"c{i}" for i in range(len(columns))), "kind", _STEP]
            yield from pa.table([*columns, kinds, packed], names=names).to_batches(_ROWS_AT_ONCE)


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Reads events in tasks again: all steps about some keys."""

    format: EventFormat
    keys: frozenset[Row]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for steps in _in_parts(self.format, batches):
            found = [each for each in steps if each.kind != ERROR and key_of(self.format.table, each.row) in self.keys]
            packed = pa.array([_packed(each) for each in found], pa.string())
            yield from pa.table([packed], names=[_STEP]).to_batches()


def _in_parts(format: EventFormat, batches: Iterable[Any]) -> Iterator[list[Step]]:
    import pyarrow as pa

    for batch in batches:
        yield list(read_events(format, pa.Table.from_batches([batch])))


def _packed(step: Step) -> str:
    """A step as text: its values are numbers, texts and truth values."""
    return json.dumps([step.kind, step.row, step.unchanged, step.event, step.reason, step.place])


def _unpacked(frame: Any) -> list[Step]:
    found = (json.loads(each) for each in frame.toArrow().column(0).to_pylist())
    return [
        Step(kind, tuple(row), tuple(unchanged), event, reason, None if place is None else tuple(place))
        for kind, row, unchanged, event, reason, place in found
    ]


def _columns(table: Table, rows: Sequence[tuple[Row, int]]) -> list[Any]:
    """Rows as Arrow columns in the types that Spark has for them."""
    found = rows_to_arrow(table.columns, rows)
    return [
        part.cast(exact_type(column.type)).combine_chunks()
        for part, column in zip(found.columns, table.columns, strict=True)
    ]


def _change_rows(table: Table, changes: Sequence[tuple[Row, int]]) -> Any:
    import pyarrow as pa

    each = [(row, weight) for row, weight in changes for _ in range(abs(weight))]
    kinds = pa.array([INSERT if weight > 0 else DELETE for _, weight in each], pa.string())
    columns = _columns(table, [(row, 1) for row, _ in each])
    return pa.table([*columns, kinds], names=[*table.column_names, CHANGE_TYPE])
