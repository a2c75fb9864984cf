"""A relation as a heavy and a light part, by the degrees of its first variable (Definition 6).

heavy part: degree >= theta / 2      light part: degree < 3 * theta / 2      no value is in both
strict:     degree >= theta                      degree < theta
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from viewlet.adaptive.part import Part
from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Partition(Generic[T]):
    """The parts of a relation. The degree of a value is the number of its tuples, not of their multiplicities."""

    heavy: Part[T]
    light: Part[T]

    @staticmethod
    def empty(ring: Ring[T], log: UndoLog) -> Partition[T]:
        return Partition(Part(ring, log), Part(ring, log))

    def __len__(self) -> int:
        return len(self.heavy) + len(self.light)

    def part(self, heavy: bool) -> Part[T]:
        return self.heavy if heavy else self.light

    def of(self, first: Datum) -> Part[T]:
        """The part that has the tuples of a value."""
        return self.heavy if self.heavy.row(first) else self.light

    def items(self) -> Iterator[tuple[Datum, Datum, T]]:
        yield from self.heavy.items()
        yield from self.light.items()


def strict_partition(tuples: Iterable[tuple[Datum, Datum, T]], threshold: float, ring: Ring[T]) -> Partition[T]:
    """The strict partition of a relation, which is unique, in time linear in its size."""
    rows: dict[Datum, list[tuple[Datum, T]]] = {}
    for first, second, payload in tuples:
        rows.setdefault(first, []).append((second, payload))
    made = Partition.empty(ring, UndoLog())
    for first, row in rows.items():
        part = made.part(len(row) >= threshold)
        for second, payload in row:
            part.add(first, second, payload)
    return made
