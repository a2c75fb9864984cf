"""Products of rings: the several aggregates of one view in one payload, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viewlet.rings.ring import Ring

Payload = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ProductRing:
    fields: tuple[Ring[Any], ...]

    @property
    def name(self) -> str:
        return " x ".join(ring.name for ring in self.fields)

    @property
    def width(self) -> int:
        return sum(ring.width for ring in self.fields)

    @property
    def zero(self) -> Payload:
        return tuple(ring.zero for ring in self.fields)

    @property
    def one(self) -> Payload:
        return tuple(ring.one for ring in self.fields)

    def add(self, left: Payload, right: Payload) -> Payload:
        return tuple(ring.add(a, b) for ring, a, b in zip(self.fields, left, right, strict=True))

    def mul(self, left: Payload, right: Payload) -> Payload:
        return tuple(ring.mul(a, b) for ring, a, b in zip(self.fields, left, right, strict=True))

    def neg(self, element: Payload) -> Payload:
        return tuple(ring.neg(a) for ring, a in zip(self.fields, element, strict=True))

    def is_zero(self, element: Payload) -> bool:
        return all(ring.is_zero(a) for ring, a in zip(self.fields, element, strict=True))
