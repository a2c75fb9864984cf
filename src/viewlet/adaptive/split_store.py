"""A map from tuples to payloads with indexes on some of their places, for parts and views of split joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Row

T = TypeVar("T")
Places = tuple[int, ...]
_NOTHING: Mapping[Row, None] = MappingProxyType({})


class SplitStore(Generic[T]):
    """Payloads that are not zero, by tuple; a slice is enumerated in constant time for each of its tuples."""

    def __init__(self, ring: Ring[T], log: UndoLog, indexes: frozenset[Places]) -> None:
        self._ring = ring
        self.log = log
        """Where changes are noted, so that they can be undone."""
        self._payloads: dict[Row, T] = {}
        self._slices: dict[Places, dict[Row, dict[Row, T]]] = {places: {} for places in indexes}

    def __len__(self) -> int:
        return len(self._payloads)

    def get(self, key: Row) -> T | None:
        return self._payloads.get(key)

    def items(self) -> Iterator[tuple[Row, T]]:
        return iter(self._payloads.items())

    def slice(self, places: Places, values: Row) -> Mapping[Row, T]:
        """The tuples with these values at some places, which there is an index on."""
        return self._slices[places].get(values, _NOTHING)  # type: ignore[arg-type]

    def add(self, key: Row, payload: T) -> None:
        """payload[key] += payload."""
        old = self._payloads.get(key)
        new = payload if old is None else self._ring.add(old, payload)
        self.log.record(lambda: self._put(key, old))
        self._put(key, None if self._ring.is_zero(new) else new)

    def _put(self, key: Row, payload: T | None) -> None:
        if payload is None:
            self._payloads.pop(key, None)
        else:
            self._payloads[key] = payload
        for places, index in self._slices.items():
            values = tuple([key[place] for place in places])
            if payload is not None:
                index.setdefault(values, {})[key] = payload
            elif (held := index.get(values)) is not None:
                held.pop(key, None)
                if not held:
                    del index[values]
