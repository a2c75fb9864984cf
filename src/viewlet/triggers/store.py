"""Stores of the reference interpreter: a dictionary from keys to payloads, with indexes made when first asked for.

All stores of one connection share an `UndoLog`, so that a batch that fails half-way leaves no trace. An exception may
come between any two instructions (Ctrl-C does). The undo step of a change is therefore logged before the change is
made, and undoing restores rows and indexes however far the change got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, itemgetter
from typing import Any, Protocol
from weakref import ref

from viewlet.changes import Change, RowChange
from viewlet.errors import InternalError
from viewlet.triggers.statistics import Size, measured_size
from viewlet.types import Row

Payload = tuple[Any, ...]
_ONCE = (1,)
"""The payload of nearly all rows of tables: one for all of them."""


class RowStore(Protocol):
    """The protocol of stores that hold the rows of a table or view, each with its multiplicity."""

    def __len__(self) -> int:
        """How many distinct rows there are."""

    def get(self, key: Row) -> Payload | None: ...

    def keys(self) -> Iterable[Row]: ...

    def items(self) -> Iterable[tuple[Row, Payload]]: ...

    def slice(self, positions: tuple[int, ...], part: Row) -> Iterator[Row]: ...

    def field_index(self, name: str) -> int: ...

    def add(self, key: Row, values: Payload) -> None: ...

    def change(self) -> Change:
        """All rows, as the change that inserts them."""

    def size(self, width: int) -> Size:
        """The number of rows, and of distinct values in each of `width` columns, estimated from a sample."""


class UndoLog:
    """Records how to undo every change since `begin`.

    A step restores a value, so it may run twice, and even before the change that it undoes. A rollback that was
    interrupted is completed by calling it again.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] | None = None

    @property
    def active(self) -> bool:
        return self._undo is not None

    def begin(self) -> None:
        if self._undo is not None:
            raise InternalError("a batch is already under way")
        self._undo = []

    def record(self, undo: Callable[[], None]) -> None:
        if self._undo is not None:
            self._undo.append(undo)

    def commit(self) -> None:
        self._undo = None

    def rollback(self) -> None:
        steps = self._undo or []
        while steps:
            steps[-1]()
            steps.pop()
        self._undo = None


class MapStore:
    """A finite map from keys to payloads with one number per field.

    With a `presence` field a key leaves when that field becomes zero, whatever the sums are; without one, when all
    fields are zero.
    """

    def __init__(
        self,
        fields: Sequence[str] = ("count",),
        presence: str | None = "count",
        log: UndoLog | None = None,
    ) -> None:
        self.fields = tuple(fields)
        self._presence = self.fields.index(presence) if presence is not None else None
        self._log = log if log is not None else UndoLog()
        self._rows: dict[Row, Payload] = {}
        self._indexes: dict[tuple[int, ...], _Index] = {}
        self._touched: set[Row] | None = None
        self._followers: tuple[ref[set[Row]], ...] = ()
        """The keys that others want to know of, who read the store of another engine."""

    @staticmethod
    def of_rows(rows: Mapping[Row, int]) -> MapStore:
        """A store of rows with their multiplicities, none of them zero."""
        store = MapStore()
        store._rows = {row: (count,) for row, count in rows.items()}
        return store

    def copy(self) -> MapStore:
        """The same rows in a store that nobody else changes."""
        found = MapStore(self.fields, None if self._presence is None else self.fields[self._presence])
        found._rows = dict(self._rows)
        return found

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def touched(self) -> set[Row]:
        """Keys whose payload changed since the set was last cleared; tracked from its first use on."""
        if self._touched is None:
            self._touched = set()
        return self._touched

    def follow(self) -> set[Row]:
        """A set like `touched` of the caller's own; the store forgets it when the caller does."""
        keys = set[Row]()
        self._followers = (*(each for each in self._followers if each() is not None), ref(keys))
        return keys

    def _touch(self, keys: Iterable[Row]) -> None:
        if self._touched is not None:
            self._touched.update(keys)
        for each in self._followers:
            if (followed := each()) is not None:
                followed.update(keys)

    def get(self, key: Row) -> Payload | None:
        return self._rows.get(key)

    def keys(self) -> Iterable[Row]:
        return self._rows.keys()

    def items(self) -> Iterable[tuple[Row, Payload]]:
        return self._rows.items()

    def payloads(self) -> Iterable[Payload]:
        return self._rows.values()

    def multiplicities(self) -> dict[Row, int]:
        """Key -> multiplicity, for stores that hold rows."""
        return {key: payload[0] for key, payload in self._rows.items()}

    def change(self) -> Change:
        """All rows, as the change that inserts them, in a store that holds rows."""
        return RowChange(self.multiplicities())

    def size(self, width: int) -> Size:
        """How large it is, in a store that holds rows of `width` columns."""
        return measured_size(self._rows, len(self), width)

    def field_index(self, name: str) -> int:
        return self.fields.index(name)

    def slice(self, positions: tuple[int, ...], part: Row) -> Iterator[Row]:
        """The keys that have `part` at `positions`."""
        index = self._indexes.get(positions)
        if index is None:
            index = self._build_index(positions)
        return iter(index.keys_with(part))

    def add(self, key: Row, values: Payload) -> None:
        """payload[key] += values."""
        old = self._rows.get(key)
        new = values if old is None else tuple(map(add, old, values))
        self._set(key, old, None if self._vanishes(new) else new)

    def add_rows(self, rows: Mapping[Row, int]) -> None:
        """Adds multiplicities, in a store that holds rows, with one entry of the log for all of them."""
        held, indexes = self._rows, self._indexes
        before = {row: held[row] for row in rows if row in held}
        self._log.record(lambda: self._restore_rows(rows, before))
        self._touch(rows)
        for row, weight in rows.items():
            count = weight + before[row][0] if row in before else weight
            payload = _ONCE if count == 1 else (count,)
            if indexes:
                self._put(row, payload if count else None)
            elif count:
                held[row] = payload
            else:
                held.pop(row, None)

    def _restore_rows(self, rows: Iterable[Row], before: Mapping[Row, Payload]) -> None:
        """Makes rows what they were, however far their change got; indexes are built again when asked for."""
        self._indexes = {}
        for row in rows:
            if row in before:
                self._rows[row] = before[row]
            else:
                self._rows.pop(row, None)

    def assign(self, contents: dict[Row, Payload]) -> None:
        """Replaces everything by `contents`, touching only what differs."""
        for key in [key for key in self._rows if key not in contents]:
            self._set(key, self._rows[key], None)
        for key, new in contents.items():
            old = self._rows.get(key)
            if old != new and not self._vanishes(new):
                self._set(key, old, new)

    def replace(self, contents: dict[Row, Payload]) -> None:
        """Like `assign`, in one step and with one entry of the log: for contents that have little in common."""
        kept = {key: payload for key, payload in contents.items() if not self._vanishes(payload)}
        self._touch({**self._rows, **kept})
        before = self._rows
        self._log.record(lambda: self._set_all(before))
        self._set_all(kept)

    def forget(self) -> None:
        """Empties the store outside a batch; may be done again after an exception."""
        self._set_all({})
        if self._touched is not None:
            self._touched.clear()

    def _set_all(self, rows: dict[Row, Payload]) -> None:
        self._indexes = {}
        self._rows = rows

    def _vanishes(self, payload: Payload) -> bool:
        return not (any(payload) if self._presence is None else payload[self._presence])

    def _set(self, key: Row, old: Payload | None, new: Payload | None) -> None:
        if old is None and new is None:
            return
        if self._touched is not None:
            self._touched.add(key)
        if self._followers:
            self._touch((key,))
        if self._log.active:
            self._log.record(lambda: self._restore(key, old))
        self._put(key, new)

    def _put(self, key: Row, payload: Payload | None) -> None:
        if payload is None:
            if self._rows.pop(key, None) is not None:
                for index in self._indexes.values():
                    index.remove(key)
            return
        if key not in self._rows:
            for index in self._indexes.values():
                index.add(key)
        self._rows[key] = payload

    def _restore(self, key: Row, payload: Payload | None) -> None:
        """Makes a row what it was, whether or not its change has reached the rows and each of the indexes."""
        if payload is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = payload
        for index in self._indexes.values():
            if payload is None:
                index.remove(key)
            else:
                index.add(key)

    def _build_index(self, positions: tuple[int, ...]) -> _Index:
        index = _Index(positions)
        for key in self._rows:
            index.add(key)
        self._indexes[positions] = index  # complete: an index that misses rows would stay
        return index


class _Index:
    """The keys of a store by a part of them: a tuple of one key, or a dictionary of several, which takes much more."""

    __slots__ = ("_buckets", "_only", "_part")

    def __init__(self, positions: tuple[int, ...]) -> None:
        self._only = len(positions) == 1
        self._part: Callable[[Row], Any] = itemgetter(*positions) if positions else part_of(positions)
        self._buckets: dict[Any, tuple[Row] | dict[Row, None]] = {}

    def keys_with(self, part: Row) -> Iterable[Row]:
        return self._buckets.get(part[0] if self._only else part, ())

    def add(self, key: Row) -> None:
        part = self._part(key)
        bucket = self._buckets.get(part)
        if bucket is None:
            self._buckets[part] = (key,)
        elif not isinstance(bucket, tuple):
            bucket[key] = None
        elif bucket[0] != key:
            self._buckets[part] = {bucket[0]: None, key: None}

    def remove(self, key: Row) -> None:
        """Removes a key, which may not be there."""
        part = self._part(key)
        bucket = self._buckets.get(part)
        if isinstance(bucket, dict):
            bucket.pop(key, None)
        if not bucket or bucket == (key,):
            self._buckets.pop(part, None)


def part_of(positions: tuple[int, ...]) -> Callable[[Row], Row]:
    """The function that takes the values at these positions out of a row."""
    if len(positions) > 1:
        return itemgetter(*positions)
    if positions:
        (only,) = positions
        return lambda row: (row[only],)
    return lambda row: ()
