"""A query over a finished table: the program of a view, fed with everything there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.batches import Array, Batch, Events, Samples, together
from viewlet.signals.errors import SignalError
from viewlet.signals.form import form_of
from viewlet.signals.groups import Groups
from viewlet.signals.ingest import sorted_events, without_overlaps
from viewlet.signals.nodes import Signal, Source, is_causal
from viewlet.signals.program import Program
from viewlet.signals.rows import arrow_times, arrow_values, times_of, value_columns

CHUNK = 1 << 16
"""Events that run together: what is between operators then stays in the cache."""


def run(query: Signal, history: Any, flush: bool) -> Any:
    """The samples of the query, as an Arrow table; as an array if one is given."""
    flush = flush or not is_causal(query)
    if isinstance(history, np.ndarray):
        return _run_array(query, history, flush)
    program = Program(query)
    keys = _Keys(len(program.sources[0].key))
    tables = {source: _table(source, history, len(program.sources)) for source in program.sources}
    arrived = [_events(source, tables[source], keys) for source in program.sources]
    groups = keys.groups.count
    program.reserve(groups)
    ready = []
    for source, events in zip(program.sources, arrived, strict=True):
        ready.append(without_overlaps(source, sorted_events(events, groups), keys.describe))
    found = [program.run(chunk) for chunk in _chunks(ready)]
    if flush and (rest := program.flush()) is not None:
        found.append(rest)
    return _arrow(query, together(found), keys)


def _chunks(events: list[Events]) -> Iterator[list[Events]]:
    """A single source in pieces; several go together, because a group needs all of its events."""
    if len(events) > 1:
        yield events
        return
    (only,) = events
    for begin in range(0, max(len(only), 1), CHUNK):
        yield [only.take(slice(begin, begin + CHUNK))]


class ArrayRun:
    """A query over one signal without a key, whose samples come as arrays: at the beats 0, 1, ... of its grid."""

    def __init__(self, query: Signal) -> None:
        self._program = Program(query)
        if len(self._program.sources) != 1 or self._program.sources[0].key:
            raise SignalError(
                "arrays are of one signal without a key; give run() a table with the columns of the source"
            )
        self._program.reserve(1)
        self._done = 0

    def push(self, x: Any) -> Array:
        """The samples, or arrays, of the query that follow from more samples; missing ones are NaN."""
        values = np.asarray(x)
        if values.ndim != 1 or values.dtype.kind not in "iufc":
            raise SignalError(f"samples are an array of numbers with one axis, not {x!r:.60}")
        values = values if np.iscomplexobj(values) else values.astype(np.float64, copy=False)
        index = np.arange(self._done, self._done + len(values))
        self._done += len(values)
        if not np.isfinite(values.sum()):  # otherwise all are there
            present = np.isfinite(values)
            values, index = values[present], index[present]
        slot = np.broadcast_to(np.int64(0), len(values))
        return _values(self._program.run_samples(Samples(slot, index, values.reshape(-1, 1))))

    def flush(self) -> Array | None:
        """Those that would wait for more; None if none ever do."""
        rest = self._program.flush()
        return None if rest is None else _values(rest)


def _values(batch: Batch) -> Array:
    value = batch.value
    return value[:, 0] if value.shape[1] == 1 else value


def _run_array(query: Signal, x: Array, flush: bool) -> Array:
    made = ArrayRun(query)
    # Samples in pieces, so that what is between operators stays in the cache; arrays at once, for they are large.
    step = CHUNK if form_of(query).size is None else len(x)
    found = [made.push(x[begin : begin + step]) for begin in range(0, max(len(x), 1), max(step, 1))]
    rest = made.flush() if flush else None
    parts = [*found, *(() if rest is None else (rest,))]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


# -- tables -----------------------------------------------------------------------------------------------------------


class _Keys:
    """The groups of a finished table: values of key columns by code, and slots by codes."""

    def __init__(self, columns: int) -> None:
        self.groups = Groups.of(columns)
        self._values: list[Any] = [None] * columns
        """The distinct values of each column, as Arrow."""

    def slots(self, columns: list[Any], rows: int) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        codes = []
        for number, column in enumerate(columns):
            known = self._values[number]
            if known is None:
                found, self._values[number] = _coded(column)
            else:
                added = pc.unique(column).cast(known.type)
                self._values[number] = pc.unique(pa.concat_arrays([known, added]))
                found = pc.index_in(column.cast(known.type), self._values[number])
                found = found.to_numpy(zero_copy_only=False).astype(np.int64)
            codes.append(found)
        if len(columns) == 1:  # codes are the slots
            count = len(self._values[0])
            self.groups = replace(self.groups, words=(np.arange(count),), count=count)
            return codes[0]
        slots, self.groups = self.groups.find(tuple(codes), rows)
        return slots

    def values(self, number: int, slots: Array) -> Any:
        """The key of each row in one column."""
        import pyarrow as pa

        return self._values[number].take(pa.array(self.groups.words[number][slots]))

    def describe(self, slot: int) -> str:
        if not self._values:
            return "of the signal"
        return "of " + ", ".join(str(self.values(i, np.array([slot]))[0].as_py()) for i in range(len(self._values)))


def _coded(column: Any) -> tuple[Array, Any]:
    """The codes of keys, and the distinct keys in the order of their codes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type) and len(column) and not column.null_count:
        keys = column.to_numpy(zero_copy_only=False)
        least, span = int(keys.min()), int(keys.max()) - int(keys.min()) + 1
        if span <= 2 * len(keys):  # few enough for a table instead of hashing
            is_there = np.zeros(span, np.bool_)
            places = keys - least
            is_there[places] = True
            distinct = np.flatnonzero(is_there)
            codes = np.cumsum(is_there) - 1
            return codes[places], pa.array(distinct + least).cast(column.type)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _table(source: Source, history: Any, sources: int) -> Any:
    """The Arrow table of a source."""
    import pyarrow as pa

    if isinstance(history, Mapping) and (sources > 1 or source.table in history):
        if source.table not in history:
            raise SignalError(f"run() needs a table for {source.table!r}: {{{source.table!r}: ...}}")
        history = history[source.table]
    elif sources > 1:
        raise SignalError("the query reads several tables: give run() a mapping from their names")
    if hasattr(history, "to_arrow"):
        history = history.to_arrow()
    elif type(history).__module__.startswith("pandas"):
        history = pa.Table.from_pandas(history, preserve_index=False)
    elif isinstance(history, Mapping):
        history = pa.table(dict(history))
    elif isinstance(history, pa.RecordBatch):
        history = pa.Table.from_batches([history])
    if not isinstance(history, pa.Table):
        raise SignalError(f"run() takes a table (Arrow, pandas, Polars, a handle) or an array, not {history!r:.60}")
    return history


def _events(source: Source, table: Any, keys: _Keys) -> Events:
    """The events of a table, in the order of its rows; those without a value are left out."""

    def column(name: str) -> Any:
        if name not in table.column_names:
            raise SignalError(f"the table has no column {name!r}, only {', '.join(table.column_names)}")
        found = table.column(name).combine_chunks()
        return found.chunk(0) if hasattr(found, "chunks") else found

    slots = keys.slots([column(name) for name in source.key], table.num_rows)
    start = _times(column(source.time), source.time)
    end = None if source.end is None else _times(column(source.end), source.end)
    value = np.stack([_numbers(column(name)) for name in source.values], axis=1)
    if source.is_complex:
        value = value[:, :1] + 1j * value[:, 1:]
    events = Events(slots, start, value, end)
    present = np.isfinite(value).all(axis=1)
    return events if present.all() else events.take(present)


def _times(column: Any, name: str) -> Array:
    import pyarrow as pa

    if column.null_count:
        raise DataError(f"{name} is NULL in a row: an event needs a time")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    return column.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _numbers(column: Any) -> Array:
    import pyarrow as pa

    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _arrow(query: Signal, batch: Batch, keys: _Keys) -> Any:
    import pyarrow as pa

    form = form_of(query)
    times, ends = times_of(form, batch)
    source = form.source
    columns: dict[str, Any] = {name: keys.values(i, batch.slot) for i, name in enumerate(source.key)}
    columns[source.time] = arrow_times(form, times)
    if ends is not None:
        columns[source.end or "end"] = arrow_times(form, ends)
    for each in value_columns(form):
        columns[each.name] = arrow_values(each, batch.value)
    return pa.table(columns)
