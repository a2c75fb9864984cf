"""The state of a triangle query under updates (Definition 7).

Variables are numbered 0, 1, 2 (A, B, C of the paper) and so are relations: relation i has the variables i and i + 1,
modulo 3, and is partitioned on variable i. View i is the join of the heavy part of relation i with the light part of
the next one: V_RS, V_ST, V_TR. With that numbering one procedure serves updates of all three relations.

    floor(N / 4) <= |D| < N        theta_i = N ** epsilon_i        at first N = 2 * |D| + 1, partitions are strict

In linear space the second values of relation i are heavy from N ** max(epsilon_i, 1 - epsilon_i) tuples on. A view then
has at most N ** (1 - epsilon) first values and N ** min(epsilon, 1 - epsilon) last ones, and an update that a view does
not answer enumerates the tuples of a light second value, which are no more than the other lines of its sum may be.

The thresholds are a part of the state. At the ends of the range the state is that of other approaches: epsilon 0 makes
all tuples heavy and epsilon 1 all light, which is classical maintenance; (., 0, 1) keeps one view of two relations,
which is factorised maintenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from viewlet.adaptive.groups import Groups
from viewlet.adaptive.pair_view import PairView
from viewlet.adaptive.partition import Kind, Partition
from viewlet.adaptive.vertices import last_of
from viewlet.algebra.triangle_query import SHARED
from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum, Row

if TYPE_CHECKING:
    from viewlet.adaptive.choose_epsilon import Choice

T = TypeVar("T")
RELATIONS = range(3)


@dataclass(slots=True)
class Work:
    """What maintenance has cost so far: `steps` counts tuples, entries and groups that were looked at or changed."""

    updates: int = 0
    steps: int = 0
    minor: int = 0
    major: int = 0
    moved: int = 0
    """Tuples that went from one part to the other in minor rebalancing."""
    balancing: int = 0
    """Steps that were spent on rebalancing."""
    longest: int = 0
    """The most steps of rebalancing between two updates."""
    paused: int = 0
    """After how many updates there was rebalancing last."""

    def pause(self, steps: int) -> None:
        """Notes that rebalancing took so many steps after the last update."""
        self.balancing += steps
        self.longest, self.paused = max(self.longest, steps), self.updates


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From how many tuples on a value of each relation is heavy, by the place that it is in."""

    first: tuple[float, ...]
    second: tuple[float, ...]


Epsilons = tuple[float, float, float]


def thresholds_for(base: int, epsilons: Sequence[float], linear: bool) -> Thresholds:
    """The thresholds for N = `base`; those of second values are 0 unless space is to be linear."""
    first = tuple(float(base) ** epsilon for epsilon in epsilons)
    second = tuple(float(base) ** max(epsilon, 1 - epsilon) if linear else 0.0 for epsilon in epsilons)
    return Thresholds(first, second)


@dataclass(frozen=True, slots=True)
class Parts(Generic[T]):
    """What a major rebalancing replaces: N, the thresholds and their exponents, the partitions and the auxiliary views.

    `begun` are the updates and steps there were before.
    """

    base: int
    thresholds: Thresholds
    partitions: Sequence[Partition[T]]
    views: Sequence[PairView[T]]
    epsilons: Epsilons
    choice: Choice | None = None
    """Where they come from, if they are chosen."""
    begun: tuple[int, int] = (0, 0)

    @property
    def size(self) -> int:
        """|D|."""
        return sum(map(len, self.partitions))


@dataclass(slots=True)
class Shape(Generic[T]):
    """What does not change: the ring, the variables that the result is grouped by, and how exponents are found."""

    ring: Ring[T]
    epsilons: Epsilons = (0.5, 0.5, 0.5)
    """The exponents of the thresholds, at first only if they are chosen."""
    keys: tuple[int, ...] = ()
    linear: bool = False
    """Whether second values are partitioned, too, so that the views take linear space."""
    log: UndoLog = field(default_factory=UndoLog)
    chooses: bool = False
    """Whether exponents are chosen at every major rebalancing, so that the views have no more entries than `budget`."""
    budget: float | None = None
    shared: int = 0
    """How many columns all three variables share: they may be a key of their own."""

    def key(self, values: Sequence[Datum]) -> Row:
        """The group of a triangle, given by its values of the three variables; one that is no key may be missing."""
        if self.keys == (SHARED,):
            return (last_of(next(value for value in values if value is not None), self.shared),)
        return tuple(values[variable] for variable in self.keys)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The parts that relations have."""
        return tuple(Kind) if self.linear else (Kind.HEAVY, Kind.LIGHT)

    def empty_views(self, log: UndoLog) -> list[PairView[T]]:
        """View i needs witnesses if the result tells its middle variable, i + 1, apart."""
        return [PairView(self.ring, log, (i + 1) % 3 in self.keys) for i in RELATIONS]

    def empty_parts(self) -> Parts[T]:
        """The parts of an empty database."""
        partitions = [Partition.empty(self.ring, self.log) for _ in RELATIONS]
        thresholds = thresholds_for(1, self.epsilons, self.linear)
        return Parts(1, thresholds, partitions, self.empty_views(self.log), self.epsilons)


class Triangles(Generic[T]):
    """The state of one triangle query; `update` and `rebalance` change it."""

    def __init__(
        self,
        ring: Ring[T],
        epsilon: float | Epsilons = 0.5,
        keys: Sequence[int] = (),
        log: UndoLog | None = None,
        linear: bool = False,
        chooses: bool = False,
        budget: float | None = None,
        shared: int = 0,
    ) -> None:
        each = epsilon if isinstance(epsilon, tuple) else (epsilon, epsilon, epsilon)
        undo = log if log is not None else UndoLog()
        self.shape = Shape(ring, each, tuple(keys), linear, undo, chooses, budget, shared)
        self.parts: Parts[T] = self.shape.empty_parts()
        self.groups: Groups[T] = Groups(ring, self.shape.log)
        self.work = Work()

    @property
    def ring(self) -> Ring[T]:
        return self.shape.ring

    def install(self, parts: Parts[T]) -> None:
        """Replaces the parts by others, whose changes have not been logged so far."""
        before, log = self.parts, self.shape.log
        for partition in parts.partitions:
            for part in partition.parts:
                part.log = log
        for view in parts.views:
            view.log = log
        log.record(lambda: self._set_parts(before))
        self._set_parts(parts)

    def _set_parts(self, parts: Parts[T]) -> None:
        self.parts = parts

    def sizes(self) -> dict[str, int]:
        """Tuples of the parts, payloads of the views, and groups."""
        found: dict[str, int] = {}
        for name, partition in zip("RST", self.parts.partitions, strict=True):
            found |= {f"{name}_{kind.name.lower()}": len(partition.part(kind)) for kind in self.shape.kinds}
        found |= {name: len(view) for name, view in zip(("V_RS", "V_ST", "V_TR"), self.parts.views, strict=True)}
        return found | {"Q": len(self.groups)}


Update = tuple[int, Datum, Datum, Any]
"""A change of one tuple: the relation, the two values, and the payload that is added."""
Updates = Iterable[Update]
