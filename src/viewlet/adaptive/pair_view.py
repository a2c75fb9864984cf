"""An auxiliary view: the paths of a heavy tuple and a light one, added up by their ends (Figure 2).

    V_RS(a, c) = Sum over b of  R_h(a, b) * S_l(b, c)

Where the result has groups by the value in the middle, or lists it, a sum over all of them is not enough: payloads may
even cancel to zero though there are paths. The view then keeps a witness list, the payload of every path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum

T = TypeVar("T")
Ends = tuple[Datum, Datum]


class PairView(Generic[T]):
    """Payloads of paths by their ends; with `witnesses`, those of every value in the middle."""

    def __init__(self, ring: Ring[T], log: UndoLog, witnesses: bool) -> None:
        self.witnesses = witnesses
        self._ring = ring
        self.log = log
        self._entries: dict[Ends, dict[Datum, T]] = {}
        self._size = 0

    def __len__(self) -> int:
        """How many payloads it keeps."""
        return self._size

    def at(self, ends: Ends) -> Iterable[tuple[Datum, T]]:
        """Payloads of the paths with these ends, each with its middle; one for all, with None, without witnesses."""
        return self._entries.get(ends, {}).items()

    def items(self) -> Iterator[tuple[Ends, Datum, T]]:
        for ends, middles in self._entries.items():
            for middle, payload in middles.items():
                yield ends, middle, payload

    def add(self, first: Datum, middle: Datum, last: Datum, payload: T) -> None:
        """Adds paths from `first` to `last` through `middle`."""
        ends, middle = (first, last), middle if self.witnesses else None
        old = self._entries.get(ends, {}).get(middle)
        new = payload if old is None else self._ring.add(old, payload)
        kept, size = None if self._ring.is_zero(new) else new, self._size
        self.log.record(lambda: self._put(ends, middle, old, size))
        self._put(ends, middle, kept, size + (kept is not None) - (old is not None))

    def _put(self, ends: Ends, middle: Datum, payload: T | None, size: int) -> None:
        if payload is not None:
            self._entries.setdefault(ends, {})[middle] = payload
        elif (held := self._entries.get(ends)) is not None:
            held.pop(middle, None)
            if not held:
                del self._entries[ends]
        self._size = size
