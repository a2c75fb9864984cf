"""The result: a payload for every group, and what a batch has changed of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Row

T = TypeVar("T")


class Groups(Generic[T]):
    """Payloads by group; a group whose payload is zero is not there. Without keys the only group is ()."""

    def __init__(self, ring: Ring[T], log: UndoLog) -> None:
        self._ring = ring
        self._log = log
        self._payloads: dict[Row, T] = {}
        self._before: dict[Row, T | None] = {}
        """The groups that have changed since `take_changes`, as they were."""

    def __len__(self) -> int:
        return len(self._payloads)

    def get(self, key: Row) -> T:
        return self._payloads.get(key, self._ring.zero)

    def items(self) -> Iterator[tuple[Row, T]]:
        return iter(self._payloads.items())

    def add(self, key: Row, payload: T) -> None:
        old = self._payloads.get(key)
        new = payload if old is None else self._ring.add(old, payload)
        self._log.record(lambda: self._put(key, old))
        if key not in self._before:
            self._before[key] = old
        self._put(key, None if self._ring.is_zero(new) else new)

    def _put(self, key: Row, payload: T | None) -> None:
        if payload is None:
            self._payloads.pop(key, None)
        else:
            self._payloads[key] = payload

    def replace(self, payloads: Mapping[Row, T]) -> None:
        """Makes these, none of them zero, all groups."""
        for key in [key for key in self._payloads if key not in payloads]:
            self.add(key, self._ring.neg(self._payloads[key]))
        for key, payload in payloads.items():
            self.add(key, self._ring.add(payload, self._ring.neg(self.get(key))))

    def changes(self) -> dict[Row, tuple[T, T]]:
        """What the groups that have changed since `forget_changes` were and are; zero stands for no group."""
        zero = self._ring.zero
        found = {key: (zero if old is None else old, self.get(key)) for key, old in self._before.items()}
        return {key: (old, new) for key, (old, new) in found.items() if old != new}

    def forget_changes(self) -> None:
        self._before = {}
