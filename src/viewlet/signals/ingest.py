"""Events as they come: sorted by group and time, and one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.batches import Array, Events, runs
from viewlet.signals.grid import FARTHEST
from viewlet.signals.nodes import Source
from viewlet.signals.order import first_clash

OVERLAPS = ("error", "mean", "sum", "min", "max")
"""What becomes of events of a group that are active at the same time."""

Describe = Callable[[int], str]
"""The key of a slot, in words."""


def no_events(source: Source) -> Events:
    """An empty batch of a source."""
    none = np.zeros(0, np.int64)
    width = 1 if source.is_complex else len(source.values)
    value = np.zeros((0, width), np.complex128 if source.is_complex else np.float64)
    return Events(none, none, value, None if source.end is None else none)


def check_times(name: str, times: Array) -> None:
    """Times leave room for sums with durations."""
    if len(times) and max(-int(times.min()), int(times.max())) >= FARTHEST:
        raise DataError(
            f"{name} is {times[np.argmax(np.abs(times.astype(np.float64)))]} in a row: a time is less than 2**62"
        )


def scaled(numbers: Array, scale: int) -> Array:
    """The values of decimals that are held as whole numbers with `scale` digits behind the point."""
    found = numbers.astype(np.float64)
    return found / 10.0**scale if scale else found


def without_overlaps(source: Source, events: Events, describe: Describe) -> Events:
    """Sorted events of which no two are active at the same time in a group, as the source's policy says."""
    ends = events.start[:0] if events.end is None else events.end
    if events.end is not None and (empty := np.flatnonzero(ends <= events.start)).size:
        row = int(empty[0])
        raise DataError(
            f"{source.table}: an event {describe(int(events.slot[row]))} ends at {ends[row]}, not after its start at "
            f"{events.start[row]}; an interval [a, b) has a < b"
        )
    row = int(first_clash(events.slot, events.start, ends))
    if row < 0:
        return events
    if source.overlap == "error":
        raise DataError(
            f"{source.table}: two events {describe(int(events.slot[row]))} overlap, at {source.time} = "
            f"{_shown(events, row)} and {_shown(events, row + 1)}: a signal has one value at a time; overlap='mean' "
            "takes their mean"
        )
    return _merged(source.overlap, events if events.end is None else _cut(events))


def _shown(events: Events, row: int) -> str:
    """The time of an event, or its interval."""
    return str(events.start[row]) if events.end is None else f"[{events.start[row]}, {events.end[row]})"


def _cut(events: Events) -> Events:
    """Intervals cut where another one of their group begins or ends: two of them are equal or apart."""
    assert events.end is not None
    first, _ = runs(events.slot)
    rows, starts, ends = list[Array](), list[Array](), list[Array]()
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        edges = np.unique(np.concatenate((events.start[begin:end], events.end[begin:end])))
        low = np.searchsorted(edges, events.start[begin:end])
        count = np.searchsorted(edges, events.end[begin:end]) - low
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
        rows.append(np.repeat(np.arange(begin, end), count))
        starts.append(edges[place])
        ends.append(edges[place + 1])
    row = np.concatenate(rows)
    return Events(events.slot[row], np.concatenate(starts), events.value[row], np.concatenate(ends))


def _merged(policy: str, events: Events) -> Events:
    """Events at equal times as one; by value, so that the order in which they came does not matter."""
    order = np.lexsort((*reversed(_parts(events.value)), events.start, events.slot))
    events = events.take(order)
    is_first = np.concatenate(([True], (events.slot[1:] != events.slot[:-1]) | (events.start[1:] != events.start[:-1])))
    first = np.flatnonzero(is_first)
    match policy:
        case "min" | "max":
            reduce: Any = np.minimum if policy == "min" else np.maximum
            value = reduce.reduceat(events.value, first)
        case _:
            value = np.add.reduceat(events.value, first)
            if policy == "mean":
                value = value / np.diff(np.append(first, len(events)))[:, None]
    end = None if events.end is None else events.end[first]
    return Events(events.slot[first], events.start[first], value, end)


def _parts(value: Array) -> list[Array]:
    """Columns of real numbers to sort by."""
    columns = list(value.T)
    return [part for each in columns for part in ((each.real, each.imag) if np.iscomplexobj(each) else (each,))]
