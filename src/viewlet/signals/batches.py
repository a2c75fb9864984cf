"""What flows between operators: events or samples of many groups, as columns.

    Events    slot, start, end, value     at any time; [start, end), or at start only
    Samples   slot, index, value          at the beats of a grid

A slot is the number of a group. Rows are sorted by slot, then by time. A value has two axes, rows and components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from viewlet.signals.order import is_ordered, run_starts, scatter, slot_changes, slot_places

Array = Any
"""A NumPy array."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a non-uniform signal; without `end` they last one tick."""

    slot: Array
    start: Array
    value: Array
    end: Array | None = None

    @property
    def position(self) -> Array:
        """What rows of a group are sorted by."""
        return self.start

    def __len__(self) -> int:
        return len(self.slot)

    def take(self, rows: Array) -> Events:
        """Some rows, by number or by mask."""
        rows = _numbered(rows)
        end = None if self.end is None else self.end[rows]
        return Events(self.slot[rows], self.start[rows], self.value[rows], end)


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of a uniform signal."""

    slot: Array
    index: Array
    value: Array

    @property
    def position(self) -> Array:
        """What rows of a group are sorted by."""
        return self.index

    def __len__(self) -> int:
        return len(self.slot)

    def take(self, rows: Array) -> Samples:
        """Some rows, by number or by mask."""
        rows = _numbered(rows)
        return Samples(self.slot[rows], self.index[rows], self.value[rows])


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples of one group without a gap, from the index `first` on, for operators that need not see every index."""

    slot: Array
    first: int
    value: Array

    def __len__(self) -> int:
        return len(self.slot)

    def take(self, rows: slice) -> Samples:
        """Some rows one after the other, with their indexes."""
        begin, end, _ = rows.indices(len(self))
        index = np.arange(self.first + begin, self.first + max(end, begin))
        return Samples(self.slot[rows], index, self.value[rows])


Batch = Events | Samples
B = TypeVar("B", Events, Samples)


def with_value(batch: Batch, value: Array) -> Batch:
    """The same rows with other values."""
    return replace(batch, value=value)


def runs(slot: Array) -> tuple[Array, Array]:
    """The rows of each group: where they begin and, with the number of rows at the end, where the next ones do; and
    the slots of the groups.

    >>> first, slots = runs(np.array([4, 4, 7]))
    >>> first.tolist(), slots.tolist()
    ([0, 2, 3], [4, 7])
    """
    if not len(slot):
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    if slot.strides == (0,):  # one group, repeated
        return np.array([0, len(slot)]), slot[:1].copy()
    first = np.empty(slot_changes(slot) + 2, np.int64)
    run_starts(slot, first)
    return first, slot[first[:-1]]


def stretch_start(batch: Samples | Stretch) -> int | None:
    """The index of the first of some samples of one group without a gap; None for other samples."""
    if isinstance(batch, Stretch):
        return batch.first if len(batch) else None
    index = batch.index
    is_one = bool(len(index)) and batch.slot.strides == (0,) and int(index[-1]) - int(index[0]) == len(index) - 1
    return int(index[0]) if is_one else None


def is_sorted(slot: Array, position: Array) -> bool:
    """Rows are in order of slot, then of position."""
    if slot.strides == (0,):  # one group, repeated
        return bool((position[1:] >= position[:-1]).all())
    return bool(is_ordered(slot, position))


def in_order(batch: B, groups: int | None = None) -> B:
    """The rows sorted; those of one group with equal positions stay in the order in which they came."""
    if len(batch) < 2 or is_sorted(batch.slot, batch.position):
        return batch
    groups = int(batch.slot.max()) + 1 if groups is None else groups
    if groups < len(batch):
        batch = _by_slot(batch, groups)
        if is_sorted(batch.slot, batch.position):
            return batch
    return batch.take(np.lexsort((batch.position, batch.slot)))


def _by_slot(batch: B, groups: int) -> B:
    """The rows in order of slot, those of a slot as they came."""
    end = batch.end if isinstance(batch, Events) else None
    given = real_parts(batch.value).reshape(len(batch), -1)
    if end is not None:  # as one more value: the bits of a number pass unchanged
        given = np.column_stack((given, end.view(np.float64)))
    slot, position, value = (np.empty(each.shape, each.dtype) for each in (batch.slot, batch.position, given))
    scatter(batch.slot, slot_places(batch.slot, groups), batch.position, given, slot, position, value)
    if end is not None:
        end, value = value[:, -1].copy().view(np.int64), np.ascontiguousarray(value[:, :-1])
    value = value.view(batch.value.dtype).reshape(batch.value.shape)
    return Events(slot, position, value, end) if isinstance(batch, Events) else Samples(slot, position, value)


def repeated(events: Events, multiplicity: Array) -> Events:
    """Every event as often as its multiplicity says."""
    return events if (multiplicity == 1).all() else events.take(np.repeat(np.arange(len(events)), multiplicity))


def together(parts: Sequence[Any]) -> Any:
    """Several batches of one kind as one, sorted."""
    filled = [part for part in parts if len(part)] or parts[:1]
    return filled[0] if len(filled) == 1 else in_order(side_by_side(filled))


def side_by_side(parts: Sequence[Any]) -> Any:
    """Several batches of one kind as one, one behind the other."""
    columns = {}
    for name in parts[0].__dataclass_fields__:
        values = [getattr(part, name) for part in parts]
        columns[name] = None if values[0] is None else np.concatenate(values)
    return type(parts[0])(**columns)


def _numbered(rows: Any) -> Any:
    """A mask as the numbers of its rows: looking for them once is faster than for every column."""
    return np.flatnonzero(rows) if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ else rows


def real_parts(value: Array) -> Array:
    """Values as real numbers along the last axis, two for a complex one; a view where they are contiguous."""
    return np.ascontiguousarray(value).view(np.float64) if np.iscomplexobj(value) else value


def no_samples(width: int, is_complex: bool) -> Samples:
    """An empty batch."""
    value = np.zeros((0, width), np.complex128 if is_complex else np.float64)
    return Samples(np.zeros(0, np.int64), np.zeros(0, np.int64), value)
