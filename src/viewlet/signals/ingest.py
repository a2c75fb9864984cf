"""Events as they come: sorted by group and time, and one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.batches import Array, Events
from viewlet.signals.nodes import Source
from viewlet.signals.order import first_clash

OVERLAPS = ("error", "mean", "sum", "min", "max")
"""What becomes of events of a group that are active at the same time."""

Describe = Callable[[int], str]
"""The key of a slot, in words."""


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
    if source.overlap == "error" or events.end is not None:
        remedy = "" if events.end is not None else "; overlap='mean' takes their mean"
        raise DataError(
            f"{source.table}: two events {describe(int(events.slot[row]))} overlap, at {source.time} = "
            f"{events.start[row]} and {events.start[row + 1]}: a signal has one value at a time{remedy}"
        )
    return _merged(source.overlap, events)


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
    return Events(events.slot[first], events.start[first], value)


def _parts(value: Array) -> list[Array]:
    """Columns of real numbers to sort by."""
    columns = list(value.T)
    return [part for each in columns for part in ((each.real, each.imag) if np.iscomplexobj(each) else (each,))]
