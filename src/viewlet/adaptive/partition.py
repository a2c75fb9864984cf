"""A relation as a heavy and a light part, by the degrees of its first variable (Definition 6).

heavy part: degree >= theta / 2      light part: degree < 3 * theta / 2      no value is in both
strict:     degree >= theta                      degree < theta

In linear space (section 5) the degrees of the second variable count, too: a tuple whose second value is light as well
is not in the light part but in the *sparse* one, which no view is kept over. The second values of the light part and of
the sparse one are told apart by the same bounds, with a threshold of their own. A threshold of 0 leaves the sparse part
empty: that is the partition by the first variable alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from viewlet.adaptive.part import Part
from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum

T = TypeVar("T")


class Kind(IntEnum):
    """The part that a tuple is in: its first value is heavy; only its second is; neither is."""

    HEAVY = 0
    LIGHT = 1
    SPARSE = 2


@dataclass(frozen=True, slots=True)
class Partition(Generic[T]):
    """The parts of a relation. The degree of a value is the number of its tuples, not of their multiplicities."""

    heavy: Part[T]
    light: Part[T]
    sparse: Part[T]

    @staticmethod
    def empty(ring: Ring[T], log: UndoLog) -> Partition[T]:
        return Partition(Part(ring, log), Part(ring, log), Part(ring, log))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def parts(self) -> tuple[Part[T], Part[T], Part[T]]:
        """All parts, in the order of `Kind`."""
        return self.heavy, self.light, self.sparse

    def part(self, kind: Kind) -> Part[T]:
        return self.parts[kind]

    def degree(self, first: Datum) -> int:
        """The tuples of a first value."""
        return sum(len(part.row(first)) for part in self.parts)

    def second_degree(self, second: Datum) -> int:
        """The tuples of a second value."""
        return sum(len(part.column(second)) for part in self.parts)

    def light_kind(self, second: Datum, threshold: float) -> Kind:
        """The part that a tuple with a light first value comes to: that of its second value, if it is in one."""
        if self.light.column(second):
            return Kind.LIGHT
        if self.sparse.column(second):
            return Kind.SPARSE
        return Kind.LIGHT if self.second_degree(second) >= threshold else Kind.SPARSE

    def items(self) -> Iterator[tuple[Datum, Datum, T]]:
        for part in self.parts:
            yield from part.items()


def strict_partition(
    tuples: Iterable[tuple[Datum, Datum, T]], threshold: float, second_threshold: float, ring: Ring[T]
) -> Partition[T]:
    """The strict partition of a relation, which is unique, in time linear in its size."""
    held = list(tuples)
    degrees, second_degrees = Counter(first for first, _, _ in held), Counter(second for _, second, _ in held)
    made = Partition.empty(ring, UndoLog())
    for first, second, payload in held:
        if degrees[first] >= threshold:
            kind = Kind.HEAVY
        else:
            kind = Kind.LIGHT if second_degrees[second] >= second_threshold else Kind.SPARSE
        made.part(kind).add(first, second, payload)
    return made
