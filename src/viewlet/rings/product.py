"""Products of rings: the several aggregates of one view in one payload, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewlet.rings.ring import Field, FlatRing, Lift, LiftingRing, Ring

Payload = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ProductRing:
    fields: tuple[Ring[Any], ...]

    @property
    def name(self) -> str:
        return " x ".join(ring.name for ring in self.fields)

    @property
    def width(self) -> int:
        """The fields side by side, where all of them have a fixed size."""
        return sum(ring.width for ring in self.fields) if all(ring.width for ring in self.fields) else 0

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

    def lift(self, variables: Sequence[str]) -> Lift[Payload]:
        lifts = [ring.lift(variables) if isinstance(ring, LiftingRing) else None for ring in self.fields]

        def lifted(values: Sequence[Any]) -> Payload:
            return tuple(
                ring.one if lift is None else lift(values) for ring, lift in zip(self.fields, lifts, strict=True)
            )

        return lifted

    @property
    def layout(self) -> tuple[Field, ...]:
        return tuple(
            replace(field, name=f"{i}.{field.name}") for i, ring in enumerate(self._flat) for field in ring.layout
        )

    def to_flat(self, element: Payload) -> tuple[Any, ...]:
        return tuple(number for ring, part in zip(self._flat, element, strict=True) for number in ring.to_flat(part))

    def from_flat(self, numbers: Sequence[Any]) -> Payload:
        parts, start = list[Any](), 0
        for ring in self._flat:
            end = start + len(ring.layout)
            parts.append(ring.from_flat(numbers[start:end]))
            start = end
        return tuple(parts)

    @property
    def _flat(self) -> tuple[FlatRing[Any], ...]:
        """The fields, where all of them have a flat form; none otherwise."""
        flat = tuple(ring for ring in self.fields if isinstance(ring, FlatRing))
        return flat if len(flat) == len(self.fields) else ()
