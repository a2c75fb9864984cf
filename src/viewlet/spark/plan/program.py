"""Distributed programs: what one batch does, as blocks that run at the driver or at every worker.

    plan    ::= block ...
    block   ::= (local | distributed) step ...
    step    ::= statement                            an ordinary statement over local contents
              | temporary := Repart[p](temporary)    moves, made by the driver
              | temporary := Scatter[p](temporary)
              | temporary := Gather(temporary)

Every statement of a distributed block reads and writes views, changes and temporaries of its own worker only, so that
code generated for one process runs it unchanged. A temporary is a view that lives for one batch; its fields are plain
sums, none of which stands for the presence of a key.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from viewlet.algebra.nodes import Delta, View
from viewlet.algebra.traverse import walk
from viewlet.spark.plan.locations import LOCAL, Arrival, Dist, Location, Replicated, ViewLocation
from viewlet.triggers.program import Statement, ViewDefinition

Name = TypeVar("Name", bound=Hashable)


class Mode(Enum):
    LOCAL = "local"
    DISTRIBUTED = "distributed"


class Movement(Enum):
    REPART = "Repart"
    SCATTER = "Scatter"
    GATHER = "Gather"


@dataclass(frozen=True, slots=True)
class Footprint(Generic[Name]):
    """What a step, or a block, touches: the views and temporaries, and the tables whose changes it reads."""

    reads: frozenset[Name]
    writes: frozenset[Name]
    replaces: frozenset[Name]
    """The written names whose old contents are replaced."""
    changes: frozenset[str] = frozenset()

    def union(self, other: Footprint[Name]) -> Footprint[Name]:
        return Footprint(
            self.reads | other.reads,
            self.writes | other.writes,
            self.replaces | other.replaces,
            self.changes | other.changes,
        )


Owned = tuple[str, str]
"""A trigger's own temporary: the table of the trigger, and the name."""


def owned_by(table: str, names: Collection[str], footprint: Footprint[str]) -> Footprint[str | Owned]:
    """The footprint with some names as those of the trigger of one table."""

    def own(part: frozenset[str]) -> frozenset[str | Owned]:
        return frozenset((table, name) if name in names else name for name in part)

    return Footprint(own(footprint.reads), own(footprint.writes), own(footprint.replaces), footprint.changes)


def show_reads(footprint: Footprint[str]) -> list[str]:
    """The names of everything that is read, changes as `Δtable`."""
    return sorted([*footprint.reads, *(f"Δ{table}" for table in footprint.changes)])


@dataclass(frozen=True, slots=True)
class Compute:
    """A statement, run where its target is."""

    statement: Statement
    mode: Mode

    @property
    def footprint(self) -> Footprint[str]:
        nodes = [node for update in self.statement.updates for node in walk(update.expr)]
        reads = frozenset(node.name for node in nodes if isinstance(node, View))
        changes = frozenset(node.name for node in nodes if isinstance(node, Delta))
        written = frozenset((self.statement.view,))
        return Footprint(reads, written, written if self.statement.replaces else frozenset(), changes)


@dataclass(frozen=True, slots=True)
class Move:
    """Brings the contents of one temporary to another; `to` names workers by the target's keys."""

    target: str
    source: str
    movement: Movement
    to: Dist | Replicated | None = None

    @property
    def footprint(self) -> Footprint[str]:
        written = frozenset((self.target,))
        return Footprint(frozenset((self.source,)), written, written)

    @property
    def mode(self) -> Mode:
        return Mode.LOCAL


Step = Compute | Move


@dataclass(frozen=True, slots=True)
class Block:
    mode: Mode
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Temporary:
    view: ViewDefinition
    at: Location


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What a batch that changes some tables does; `order` is the order in which their triggers take effect."""

    order: tuple[str, ...]
    arrivals: Mapping[str, Arrival]
    locations: Mapping[str, ViewLocation]
    temporaries: Mapping[str, Temporary]
    blocks: tuple[Block, ...]
    unfused: tuple[Block, ...]
    """The same program, one block per step, as it was before blocks were fused."""
    differences: frozenset[str] = frozenset()
    """Temporaries that hold what has been added to views since the batch began."""


def mode_of(at: Location) -> Mode:
    return Mode.LOCAL if at == LOCAL else Mode.DISTRIBUTED


def state_moves(plan: BatchPlan) -> int:
    """How many moves of a batch send what is stored, whatever the batch changes: no change limits their size."""
    driven: set[str] = set()
    found = 0
    for block in plan.unfused:
        for step in block.steps:
            touched = step.footprint
            if touched.changes or not driven.isdisjoint(touched.reads):
                driven |= touched.writes.intersection(plan.temporaries)
            elif isinstance(step, Move) and plan.temporaries[step.source].view.keys:
                found += 1
    return found
