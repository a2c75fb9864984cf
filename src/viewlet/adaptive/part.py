"""A relation over two variables: a payload for each pair, with an index on either variable.

payload of a pair       O(1)        the pairs of a value        constant delay, from either side
add, and remove at 0    O(1)        the degree of a value       O(1), from either side
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum

T = TypeVar("T")
_NOTHING: Mapping[Datum, None] = MappingProxyType({})


class Part(Generic[T]):
    """A finite map from pairs to payloads that are not zero; its size counts pairs, whatever their payloads are."""

    def __init__(self, ring: Ring[T], log: UndoLog) -> None:
        self._ring = ring
        self.log = log
        """Where changes are noted, so that they can be undone."""
        self._by_first: dict[Datum, dict[Datum, T]] = {}
        self._by_second: dict[Datum, dict[Datum, T]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def row(self, first: Datum) -> Mapping[Datum, T]:
        """The pairs with this first value, by their second."""
        return self._by_first.get(first) or _NOTHING  # type: ignore[return-value]

    def column(self, second: Datum) -> Mapping[Datum, T]:
        """The pairs with this second value, by their first."""
        return self._by_second.get(second) or _NOTHING  # type: ignore[return-value]

    def firsts(self) -> Iterator[Datum]:
        """The first values that occur."""
        return iter(self._by_first)

    def seconds(self) -> Iterator[Datum]:
        """The second values that occur."""
        return iter(self._by_second)

    def items(self) -> Iterator[tuple[Datum, Datum, T]]:
        for first, row in self._by_first.items():
            for second, payload in row.items():
                yield first, second, payload

    def add(self, first: Datum, second: Datum, payload: T) -> None:
        """payload[first, second] += payload."""
        old = self.row(first).get(second)
        new = payload if old is None else self._ring.add(old, payload)
        size = self._size
        self.log.record(lambda: self._restore(first, second, old, size))
        if self._ring.is_zero(new):
            if old is not None:
                self._put(first, second, None)
                self._size = size - 1
        else:
            self._put(first, second, new)
            self._size = size + (old is None)

    def _restore(self, first: Datum, second: Datum, payload: T | None, size: int) -> None:
        """Makes a pair what it was, whether or not its change has reached both indexes."""
        self._put(first, second, payload)
        self._size = size

    def _put(self, first: Datum, second: Datum, payload: T | None) -> None:
        for index, value, other in ((self._by_first, first, second), (self._by_second, second, first)):
            if payload is not None:
                index.setdefault(value, {})[other] = payload
            elif (held := index.get(value)) is not None:
                held.pop(other, None)
                if not held:
                    del index[value]
