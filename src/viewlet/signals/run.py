"""A query over a finished table: the program of a view, fed with everything there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.batches import Array, Batch, Events, Samples, Stretch, in_order, runs, together
from viewlet.signals.errors import SignalError
from viewlet.signals.form import Form, form_of
from viewlet.signals.groups import Groups
from viewlet.signals.idle import restart_idle
from viewlet.signals.ingest import Describe, check_times, no_events, scaled, without_overlaps
from viewlet.signals.nodes import Sample, Shift, Signal, Source, is_causal, sources, walk
from viewlet.signals.order import comes_in_order, key_places, key_range
from viewlet.signals.program import Program, samples_events
from viewlet.signals.rows import all_finite, arrow_times, arrow_values, times_of, value_columns
from viewlet.signals.state import NEVER
from viewlet.visible import described

CHUNK = 1 << 16
"""Events that run together: what is between operators then stays in the cache."""
FEW = 1 << 5
"""Groups of which a piece of the events as they come still has long runs."""


def run(query: Signal, history: Any, flush: bool, workers: int = 1) -> Any:
    """The samples of the query, as an Arrow table; as an array if one is given."""
    import scipy.fft

    flush = flush or not is_causal(query)
    if isinstance(history, np.ndarray):
        with scipy.fft.set_workers(workers):
            return _run_array(query, history, flush)
    program = Program(query)
    keys = _Keys(len(program.sources[0].key))
    tables = {source: _table(source, history, len(program.sources)) for source in program.sources}
    arrived = [_events(source, tables[source], keys) for source in program.sources]
    if idle := program.sources[0].idle:
        (events,) = arrived
        events = without_overlaps(program.sources[0], in_order(events, keys.groups.count), keys.describe)
        never = np.full(keys.groups.count, NEVER)
        events, keys.groups, _ = restart_idle(events, never, idle, keys.groups)
        arrived = [events]
    if workers == 1 or keys.groups.count <= 1:
        found = _run_groups(program, arrived, keys.groups.count, keys.describe, flush)
    else:
        with ThreadPoolExecutor(workers) as pool:
            shares = _shares(arrived, keys.groups.count, workers)
            tasks = [pool.submit(_run_share, query, share, keys, flush) for share in shares]
            found = [each for task in tasks for each in task.result()]
    return _arrow(query, found if _follow(found) else [together(found)], keys)


def _run_groups(program: Program, arrived: list[Events], groups: int, describe: Describe, flush: bool) -> list[Batch]:
    """The samples of all events, in pieces."""
    program.reserve(groups)
    found = [program.run(chunk) for chunk in _chunks(program.sources, arrived, groups, describe)]
    rest = None
    if flush:
        rest = program.flush()
    elif program.last_value_sources:
        program.show_all()
        rest = program.run([no_events(source) for source in program.sources])
    return found if rest is None else [*found, rest]


@dataclass(frozen=True, slots=True)
class _Share:
    """The events of the slots from `begin` to `end`, which are numbered from 0."""

    begin: int
    end: int
    events: list[Events]


def _shares(arrived: list[Events], groups: int, workers: int) -> Iterator[_Share]:
    """Neighbouring groups with about as many events for each worker."""
    rows = np.cumsum(sum(np.bincount(each.slot, minlength=groups) for each in arrived))
    cuts = np.searchsorted(rows, np.arange(1, workers) * (rows[-1] / workers)).tolist()
    for begin, end in pairwise([0, *cuts, groups]):
        parts = [each.take((each.slot >= begin) & (each.slot < end)) for each in arrived]
        yield _Share(begin, end, [replace(each, slot=each.slot - begin) for each in parts])


def _run_share(query: Signal, share: _Share, keys: _Keys, flush: bool) -> list[Batch]:
    program = Program(query)
    groups = share.end - share.begin
    found = _run_groups(program, share.events, groups, lambda slot: keys.describe(slot + share.begin), flush)
    return [replace(each, slot=each.slot + share.begin) for each in found]


def _follow(parts: Sequence[Batch]) -> bool:
    """Sorted batches that are sorted one behind the other too."""
    ends = [(part.slot[[0, -1]], part.position[[0, -1]]) for part in parts if len(part)]
    return all(
        (int(slot[1]), int(position[1])) <= (int(next_slot[0]), int(next_position[0]))
        for (slot, position), (next_slot, next_position) in pairwise(ends)
    )


def _chunks(
    sources: Sequence[Source], arrived: list[Events], groups: int, describe: Describe
) -> Iterator[list[Events]]:
    """The events of all sources in pieces, each sorted.

    Few groups whose events come in order of time are cut as they come, so that sorting a piece stays in the cache.
    """
    if groups <= FEW and all(_comes_in_order(each, groups) for each in arrived):
        yield from _chunks_as_they_come(arrived, groups)
        return
    ready = [
        without_overlaps(source, in_order(events, groups), describe)
        for source, events in zip(sources, arrived, strict=True)
    ]
    yield from _chunks_by_group(ready, groups)


def _comes_in_order(events: Events, groups: int) -> bool:
    none = events.start[:0]
    ends = none if events.end is None else events.end
    if events.end is not None and bool((ends <= events.start).any()):
        return False
    return bool(comes_in_order(events.slot, events.start, ends, np.full(groups, np.iinfo(np.int64).min)))


def _chunks_as_they_come(events: list[Events], groups: int) -> Iterator[list[Events]]:
    """Pieces with the same share of the rows of each source."""
    count = max(1, *(-(-len(each) // CHUNK) for each in events))
    cuts = [np.linspace(0, len(each), count + 1).astype(np.int64).tolist() for each in events]
    for number in range(count):
        yield [
            in_order(each.take(slice(cut[number], cut[number + 1])), groups)
            for each, cut in zip(events, cuts, strict=True)
        ]


def _chunks_by_group(events: list[Events], groups: int) -> Iterator[list[Events]]:
    """Pieces of sorted events, which end at the same slot and time in each source."""
    widest = max(events, key=len)
    # What waits for another signal is looked at in every piece: at most some samples of each group.
    step = CHUNK if len(events) == 1 else max(CHUNK, 4 * groups)
    done = [0] * len(events)
    for end in range(step, len(widest), step):
        stops = [_rows_before(each, int(widest.slot[end]), int(widest.start[end])) for each in events]
        yield [each.take(slice(begin, stop)) for each, begin, stop in zip(events, done, stops, strict=True)]
        done = stops
    yield [each.take(slice(begin, None)) for each, begin in zip(events, done, strict=True)]


def _rows_before(events: Events, slot: int, start: int) -> int:
    """How many sorted events come before a slot and time."""
    begin, end = np.searchsorted(events.slot, [slot, slot + 1])
    return int(begin + np.searchsorted(events.start[begin:end], start))


def _check_array(query: Signal) -> None:
    """Samples can be given for the events of a query: there is one signal with one grid, and an event is a number."""
    read, hint = sources(query), "give run() a table with the columns of the source"
    if len(read) != 1 or read[0].key:
        raise SignalError(f"arrays are of one signal without a key; {hint}")
    (source,) = read
    if source.idle:
        raise SignalError("an array has no times after which a signal is idle; give run() a table")
    if source.function or len(source.values) != 1 + source.is_complex:
        what = "arguments of a function" if source.function else f"{len(source.values)} components"
        raise SignalError(f"an array has one number for each sample, and an event of the signal has {what}; {hint}")
    parts = list(walk(query))
    if len({part.grid for part in parts if isinstance(part, Sample) and samples_events(part)}) > 1:
        raise SignalError(
            f"an array has samples at the beats of one grid, and the signal is sampled at several; {hint}"
        )
    if any(isinstance(part, Shift) and form_of(part.source).grid is None for part in parts):
        raise SignalError("the samples of an array have no times to shift(): sample() the signal first")


class ArrayRun:
    """A query over one signal without a key, whose samples come as arrays: at the beats 0, 1, ... of its grid."""

    def __init__(self, query: Signal) -> None:
        _check_array(query)
        self._program = Program(query)
        self._is_complex = self._program.sources[0].is_complex
        self._program.reserve(1)
        self._done = 0

    def push(self, x: Any) -> Array:
        """The samples, or arrays, of the query that follow from more samples; missing ones are NaN."""
        values = np.asarray(x)
        if values.ndim != 1 or values.dtype.kind not in "iufc":
            raise SignalError(f"samples are an array of numbers with one axis, not {x!r:.60}")
        if np.iscomplexobj(values) and not self._is_complex:
            raise SignalError(
                "samples are complex, and the signal is real: make it with is_complex=True, or give .real"
            )
        values = values.astype(np.complex128 if self._is_complex else np.float64, copy=False)
        batch: Samples | Stretch = Stretch(np.broadcast_to(np.int64(0), len(values)), self._done, values.reshape(-1, 1))
        self._done += len(values)
        if not all_finite(values):
            present = np.isfinite(values)
            batch = batch.take(slice(None)).take(present)
            batch = Samples(np.broadcast_to(np.int64(0), len(batch)), batch.index, batch.value)
        return _values(self._program.run_samples(batch))

    def show_all(self) -> Array | None:
        """Those that would wait for the last value of another signal; None if none ever do."""
        if not self._program.last_value_sources:
            return None
        self._program.show_all()
        none = np.zeros(0, np.int64)
        value = np.zeros((0, 1), np.complex128 if self._is_complex else np.float64)
        return _values(self._program.run_samples(Samples(none, none, value)))

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
    parts = (made.push(x[begin : begin + step]) for begin in range(0, max(len(x), 1), max(step, 1)))
    if step == len(x):
        found = next(parts)
    else:
        found = _collected(parts, len(x))
    rest = made.flush() if flush else made.show_all()
    return found if rest is None else np.concatenate((found, rest))


def _collected(parts: Iterator[Array], expected: int) -> Array:
    """Arrays one behind the other, each copied while it is in the cache."""
    first = next(parts)
    whole, count = np.empty((max(expected, len(first)), *first.shape[1:]), first.dtype), len(first)
    whole[:count] = first
    for part in parts:
        if count + len(part) > len(whole):
            whole = np.concatenate((whole[:count], np.empty((count + len(part), *part.shape[1:]), part.dtype)))
        whole[count : count + len(part)] = part
        count += len(part)
    return whole[:count] if 2 * count > len(whole) else whole[:count].copy()


# -- tables -----------------------------------------------------------------------------------------------------------


class _Keys:
    """The groups of a finished table: values of key columns by code, and slots by codes."""

    def __init__(self, columns: int) -> None:
        self.groups = Groups.of(columns)
        self._values: list[Any] = [None] * columns
        """The distinct values of each column, as Arrow."""
        self._types: list[Any] = [None] * columns
        """The type of each column of the first table, which is that of the answer."""

    def slots(self, columns: Mapping[str, Any], rows: int) -> Array:
        """The slots of the keys of a table, by the names of their columns."""
        import pyarrow as pa

        codes = []
        for number, (name, column) in enumerate(columns.items()):
            column, shown = _key_column(name, column)
            known = self._values[number]
            if known is not None and pa.types.is_null(known.type):
                known = known.cast(column.type)
            elif known is not None and pa.types.is_null(column.type):
                column = column.cast(known.type)
            elif known is not None and known.type != column.type:
                raise SignalError(
                    f"the key {name!r} is {column.type}, and that of the other signal {known.type}: groups of two "
                    "signals meet by keys of the same type"
                )
            if self._types[number] is None or pa.types.is_null(self._types[number]):
                self._types[number] = shown
            found, self._values[number] = _coded(column, known)
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

        values, words = self._values[number], self.groups.words[number]
        if pa.types.is_integer(values.type) and not values.null_count:
            first, places = runs(slots)
            found = pa.array(np.repeat(values.to_numpy()[words[places]], np.diff(first)), values.type)
        else:
            found = values.take(pa.array(words[slots]))
        return found if found.type == self._types[number] else found.cast(self._types[number])

    def describe(self, slot: int) -> str:
        if not self._values:
            return "of the signal"
        return "of " + ", ".join(str(self.values(i, np.array([slot]))[0].as_py()) for i in range(len(self._values)))


def _key_column(name: str, column: Any) -> tuple[Any, Any]:
    """A column of keys in the one type by which keys of its kind are compared, and the type in which they are shown."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_nested(kind):
        raise SignalError(f"the key {name!r} is {kind}: groups go by single values that are exactly equal")
    if pa.types.is_integer(kind):
        return _cast(column, pa.int64(), name), kind
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _cast(column, pa.string(), name), kind
    if pa.types.is_timestamp(kind):
        return _cast(column, pa.timestamp("us", kind.tz), name), kind
    if pa.types.is_decimal(kind):
        return _cast(column, pa.decimal128(38, kind.scale), name), kind
    return column, kind


def _cast(column: Any, kind: Any, name: str) -> Any:
    """A column as another type, to which every value has to go without a loss."""
    import pyarrow as pa

    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{name} is {column.type}, and has to go to {kind}: {error}") from error


def _coded(column: Any, known: Any) -> tuple[Array, Any]:
    """The codes of keys, and the distinct keys in the order of their codes: those that are known, then new ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_signed_integer(column.type) and len(column) and not column.null_count:
        keys = column.to_numpy(zero_copy_only=False)
        held = np.zeros(0, np.int64) if known is None else known.to_numpy(zero_copy_only=False)
        if held.dtype.kind == "i" and (found := _dense_codes(keys, held)) is not None:
            kind = column.type if known is None else known.type
            return found[0], pa.array(found[1]).cast(kind)
    if known is not None:
        known = pc.unique(pa.concat_arrays([known, pc.unique(column)]))
        return pc.index_in(column, known).to_numpy(zero_copy_only=False).astype(np.int64), known
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _dense_codes(keys: Array, known: Array) -> tuple[Array, Array] | None:
    """The same for numbers that lie close enough for a table instead of hashing."""
    keys, known = keys.astype(np.int64, copy=False), known.astype(np.int64, copy=False)
    least, largest = key_range(keys)
    if len(known):
        least, largest = min(least, int(known.min())), max(largest, int(known.max()))
    span = largest - least + 1
    if span > 2 * (len(keys) + len(known)):
        return None
    places, is_there = np.empty(len(keys), np.int64), np.zeros(span, np.bool_)
    key_places(keys, least, places, is_there)
    code = np.full(span, -1, np.int64)
    code[known - least] = np.arange(len(known))
    fresh = np.flatnonzero(is_there & (code < 0))
    code[fresh] = np.arange(len(known), len(known) + len(fresh))
    codes = places if np.array_equal(code, np.arange(span)) else code[places]
    return codes, np.concatenate((known, fresh + least))


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
        try:
            history = pa.table(dict(history))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"run() takes columns of equal lengths, each of values of one type: {error}") from error
    elif isinstance(history, pa.RecordBatch):
        history = pa.Table.from_batches([history])
    if not isinstance(history, pa.Table):
        given = described(history, 60)
        raise SignalError(f"run() takes a table (Arrow, pandas, Polars, a handle) or an array, not {given}")
    return history


def _events(source: Source, table: Any, keys: _Keys) -> Events:
    """The events of a table, in the order of its rows; those without a value are left out."""
    import pyarrow as pa

    def column(name: str) -> Any:
        if name not in table.column_names:
            raise SignalError(f"the table has no column {name!r}, only {', '.join(table.column_names)}")
        found = table.column(name)
        return found.chunk(0) if found.num_chunks == 1 else pa.concat_arrays(found.chunks or [pa.array([], found.type)])

    slots = keys.slots({name: column(name) for name in source.key}, table.num_rows)
    start = _times(source, column(source.time), source.time)
    end = None if source.end is None else _times(source, column(source.end), source.end)
    values = [_numbers(column(name), name) for name in source.values]
    value = values[0].reshape(-1, 1) if len(values) == 1 else np.stack(values, axis=1)
    if source.is_complex:
        value = value[:, :1] + 1j * value[:, 1:]
    events = Events(slots, start, value, end)
    return events if all_finite(value) else events.take(np.isfinite(value).all(axis=1))


def _times(source: Source, column: Any, name: str) -> Array:
    """Ticks. A column without a row, or with NULLs only, may have no type yet."""
    import pyarrow as pa

    if column.null_count:
        raise DataError(f"{name} is NULL in a row: an event needs a time")
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = _cast(column, pa.timestamp("us", kind.tz), name)
    elif not pa.types.is_integer(kind) and not pa.types.is_null(kind):
        wanted = "a timestamp" if source.is_timestamp else "a whole number or a timestamp"
        raise DataError(f"{name} is {kind}, and the time of a signal is {wanted}")
    times = _cast(column, pa.int64(), name).to_numpy(zero_copy_only=False)
    check_times(name, times)
    return times


def _numbers(column: Any, name: str) -> Array:
    """Values, to the bits that a view computes with; NaN for NULL."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_decimal128(kind) and kind.scale >= 0:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)[column.offset : column.offset + len(column)]
        if (is_null | (words[:, 1] == words[:, 0] >> 63)).all():  # whole numbers of 64 bits, as most decimals are
            return np.where(is_null, np.nan, scaled(words[:, 0], kind.scale))
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)):
        raise DataError(f"{name} is {kind}, and the value of a signal is a number")
    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _arrow(query: Signal, batches: Sequence[Batch], keys: _Keys) -> Any:
    """Batches one behind the other as one table; nothing is copied together."""
    import pyarrow as pa

    form = form_of(query)
    filled = [each for each in batches if len(each)] or batches[:1]
    return pa.concat_tables([_part(form, each, keys) for each in filled])


def _part(form: Form, batch: Batch, keys: _Keys) -> Any:
    import pyarrow as pa

    times, ends = times_of(form, batch)
    source = form.source
    columns: dict[str, Any] = {name: keys.values(i, batch.slot) for i, name in enumerate(source.key)}
    columns[source.time] = arrow_times(form, times)
    if ends is not None:
        columns[source.end or "end"] = arrow_times(form, ends)
    for each in value_columns(form):
        columns[each.name] = arrow_values(each, batch.value)
    return pa.table(columns)
