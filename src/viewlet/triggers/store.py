"""Stores of the reference interpreter: a dictionary from keys to payloads, with indexes made when first asked for.

All stores of one connection share an `UndoLog`, so that a batch that fails half-way leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from viewlet.errors import InternalError
from viewlet.types import Row

Payload = tuple[Any, ...]


class UndoLog:
    """Remembers how to take back every change since `begin`."""

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
        steps, self._undo = self._undo or [], None
        for undo in reversed(steps):
            undo()


class MapStore:
    """A finite map from keys to payloads with one number per field.

    With a `presence` field a key leaves when that field becomes zero, whatever the sums are; without one, when all fields
    are zero.
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
        self._indexes: dict[tuple[int, ...], dict[Row, dict[Row, None]]] = {}
        self.touched: set[Row] = set()
        """Keys whose payload changed since someone last cleared the set."""

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: Row) -> Payload | None:
        return self._rows.get(key)

    def keys(self) -> Iterable[Row]:
        return self._rows.keys()

    def items(self) -> Iterable[tuple[Row, Payload]]:
        return self._rows.items()

    def multiplicities(self) -> dict[Row, int]:
        """Key -> multiplicity, for stores that hold rows."""
        return {key: payload[0] for key, payload in self._rows.items()}

    def field_index(self, name: str) -> int:
        return self.fields.index(name)

    def slice(self, positions: tuple[int, ...], part: Row) -> Iterator[Row]:
        """The keys that have `part` at `positions`."""
        index = self._indexes.get(positions)
        if index is None:
            index = self._build_index(positions)
        return iter(index.get(part, ()))

    def add(self, key: Row, values: Payload) -> None:
        """payload[key] += values."""
        old = self._rows.get(key)
        new = values if old is None else tuple(a + b for a, b in zip(old, values, strict=True))
        self._set(key, old, None if self._vanishes(new) else new)

    def assign(self, contents: dict[Row, Payload]) -> None:
        """Replaces everything by `contents`, touching only what differs."""
        for key in [key for key in self._rows if key not in contents]:
            self._set(key, self._rows[key], None)
        for key, new in contents.items():
            old = self._rows.get(key)
            if old != new and not self._vanishes(new):
                self._set(key, old, new)

    def _vanishes(self, payload: Payload) -> bool:
        return not (any(payload) if self._presence is None else payload[self._presence])

    def _set(self, key: Row, old: Payload | None, new: Payload | None) -> None:
        if old is None and new is None:
            return
        self.touched.add(key)
        self._log.record(lambda: self._put(key, old))
        self._put(key, new)

    def _put(self, key: Row, payload: Payload | None) -> None:
        was_there = key in self._rows
        if payload is None:
            if was_there:
                del self._rows[key]
                for positions, index in self._indexes.items():
                    self._unindex(index, tuple(key[i] for i in positions), key)
            return
        self._rows[key] = payload
        if not was_there:
            for positions, index in self._indexes.items():
                index.setdefault(tuple(key[i] for i in positions), {})[key] = None

    @staticmethod
    def _unindex(index: dict[Row, dict[Row, None]], part: Row, key: Row) -> None:
        bucket = index[part]
        del bucket[key]
        if not bucket:
            del index[part]

    def _build_index(self, positions: tuple[int, ...]) -> dict[Row, dict[Row, None]]:
        index: dict[Row, dict[Row, None]] = {}
        for key in self._rows:
            index.setdefault(tuple(key[i] for i in positions), {})[key] = None
        self._indexes[positions] = index
        return index
