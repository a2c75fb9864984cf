"""Relations over a ring: finite maps from rows to payloads, with the indexes that joins ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Generic, TypeVar

from viewlet.rings.ring import GrowingRing, Ring, SettlingRing
from viewlet.triggers.store import UndoLog

T = TypeVar("T")
Row = tuple[Any, ...]
Positions = tuple[int, ...]


class RingRelation(Generic[T]):
    """A relation that changes are merged into; an index over some columns is kept after its first use.

    While `log` is active, it is told how to undo every change before it is made.
    """

    __slots__ = ("_indexes", "_log", "_own", "_settle", "entries", "ring", "schema", "sum_into")

    def __init__(
        self, schema: Sequence[str], ring: Ring[T], entries: Mapping[Row, T] | None = None, log: UndoLog | None = None
    ) -> None:
        self.schema = tuple(schema)
        self.ring = ring
        self.entries: dict[Row, T] = {}
        self.sum_into = summing(ring)
        self._settle: Callable[[T], T | None] = ring.settle if isinstance(ring, SettlingRing) else self._without_zero
        self._own: Callable[[T], T] | None = ring.own if isinstance(ring, GrowingRing) else None
        self._indexes: dict[Positions, dict[Row, dict[Row, None]]] = {}
        self._log: UndoLog | None = None
        if entries:
            self.merge(entries)
        self._log = log

    def __len__(self) -> int:
        return len(self.entries)

    def merge(self, change: Mapping[Row, T]) -> list[tuple[Row, int]]:
        """Add a change; returns the rows that appeared (1) and those that went (-1)."""
        moved: list[tuple[Row, int]] = []
        entries = self.entries
        if self._log is not None and self._log.active:
            for row in change:
                self._log.record(self._undo(row))
        for row, payload in change.items():
            known = row in entries
            self.sum_into(entries, row, payload)
            settled = self._settle(entries[row])
            if settled is None:
                del entries[row]
            if known != (settled is not None):
                moved.append((row, -1 if known else 1))
        for positions, index in self._indexes.items():
            self._reindex(index, positions, moved)
        return moved

    def matching(self, positions: Positions, values: Row) -> Iterable[Row]:
        """The rows with given values at some positions (ascending); all of them where there are none."""
        if not positions:
            return self.entries
        index = self._indexes.get(positions)
        if index is None:
            index = {}
            self._reindex(index, positions, [(row, 1) for row in self.entries])
            self._indexes[positions] = index  # complete: an index that misses rows would stay
        return index.get(values, ())

    def _undo(self, row: Row) -> Callable[[], None]:
        """How to make a row what it is now."""
        known = self.entries.get(row)
        payload = self._own(known) if self._own is not None and known is not None else known

        def restore() -> None:
            if payload is None:
                self.entries.pop(row, None)
            else:
                self.entries[row] = payload
            for positions, index in self._indexes.items():
                rows = index.setdefault(tuple(row[i] for i in positions), {})
                if payload is None:
                    rows.pop(row, None)
                else:
                    rows[row] = None

        return restore

    @staticmethod
    def _reindex(index: dict[Row, dict[Row, None]], positions: Positions, moved: Iterable[tuple[Row, int]]) -> None:
        for row, sign in moved:
            part = tuple(row[i] for i in positions)
            if sign > 0:
                index.setdefault(part, {})[row] = None
                continue
            rows = index[part]
            del rows[row]
            if not rows:
                del index[part]

    def _without_zero(self, payload: T) -> T | None:
        return None if self.ring.is_zero(payload) else payload


def summing(ring: Ring[T]) -> Callable[[MutableMapping[Row, T], Row, T], None]:
    """How a payload is added to what a map has for a row: in place where the ring's payloads grow."""
    if isinstance(ring, GrowingRing):
        growing: GrowingRing[T] = ring

        def grow(entries: MutableMapping[Row, T], row: Row, payload: T) -> None:
            known = entries.get(row)
            entries[row] = growing.own(payload) if known is None else growing.accumulate(known, payload)

        return grow

    def add(entries: MutableMapping[Row, T], row: Row, payload: T) -> None:
        known = entries.get(row)
        entries[row] = payload if known is None else ring.add(known, payload)

    return add


def without_zeros(ring: Ring[T], entries: dict[Row, T]) -> dict[Row, T]:
    """The rows whose payload is not zero."""
    return {row: payload for row, payload in entries.items() if not ring.is_zero(payload)}
