"""The origins of a tree on dictionaries: what the sums of its next rows are about (`rings/origins.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from viewlet.rings.origins import next_origin, shared_origin
from viewlet.rings.ring import CentringRing
from viewlet.types import Row


class TreeOrigins:
    """The origins of the variables that have had values; `ring` is None where there are none.

    Payloads know what their own sums are about, so these may change at any time, and need not be rolled back.
    """

    def __init__(self, ring: CentringRing[Any] | None) -> None:
        self.ring = ring
        self.values: dict[str, float] = {}

    def look_at(self, schema: Sequence[str], rows: Iterable[Row]) -> bool:
        """Looks at rows that arrive; says whether an origin changes."""
        centred = () if self.ring is None else self.ring.centred
        changes = False
        for place, name in enumerate(schema):
            known = self.values.get(name)
            if name not in centred or known == 0.0:
                continue
            column: list[Any] = [row[place] for row in rows]
            origin = next_origin(known, min(column), max(column)) if column else known
            if origin != known and origin is not None and all(map(isfinite, column)):
                self.values[name] = origin
                changes = True
        return changes

    def continue_from(self, payloads: Iterable[Any]) -> None:
        """Takes the origins that payloads have."""
        self.values.clear()
        names = () if self.ring is None else self.ring.centred
        for payload in payloads if names else ():
            for variable in payload.variables:
                own, name = payload.origin(variable), names[variable]
                self.values[name] = shared_origin(self.values.get(name, own), own)
