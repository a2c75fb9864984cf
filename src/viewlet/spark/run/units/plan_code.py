"""A plan as code: what each worker runs block by block, and what it sends at the end of a block.

A temporary that has to be transferred leaves the workers as soon as it is computed; the driver sends it on with the
next block. If the changes of a batch are spread over the cluster, its first block usually reads nothing else. It then
runs where the changes are (`mappers`), and not in the partitions of the state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from viewlet.spark.plan.locations import RANDOM, REPLICATED, Dist
from viewlet.spark.plan.program import (
    BatchPlan,
    Block,
    Compute,
    Footprint,
    Mode,
    Move,
    Movement,
    Step,
    Temporary,
    show_reads,
)
from viewlet.triggers.program import Statement, ViewDefinition


class Place(Enum):
    DRIVER = "driver"
    EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Departure:
    """The transfer of a temporary: to the driver, to all workers, or to the partitions given by some of its keys."""

    source: str
    target: str
    to: Place | tuple[int, ...]
    copied: bool = False
    """All workers have the same contents: one of them sends."""


@dataclass(frozen=True, slots=True)
class WorkerBlock:
    """The statements of one block at a worker; `beside` are the replicated views that a mapper reads."""

    statements: tuple[Statement, ...]
    departures: tuple[Departure, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DriverBlock:
    """Statements, and temporaries that the driver sends or receives, in order."""

    steps: tuple[Statement | Departure | Receipt, ...]


@dataclass(frozen=True, slots=True)
class Receipt:
    """A temporary that the driver collects from all partitions."""

    target: str


@dataclass(frozen=True, slots=True)
class PlanCode:
    """The code of one plan; `key` names it among the plans of a unit, by how changes arrive."""

    key: str
    tables: tuple[str, ...]
    temporaries: Mapping[str, ViewDefinition]
    mappers: Mapping[str, WorkerBlock]
    blocks: tuple[WorkerBlock | DriverBlock, ...]
    differences: frozenset[str] = frozenset()
    """Temporaries that hold what has been added to views since the batch began."""


class NotMappable(Exception):  # noqa: N818 - a finding, not a failure
    """The first block cannot run where the changes are: later blocks read them again, or it needs state."""


def plan_code(plan: BatchPlan, key: str) -> PlanCode:
    spread = [table for table, arrival in plan.arrivals.items() if arrival == RANDOM]
    mappers, blocks = _mapped(plan, spread) if spread else ({}, list(plan.blocks))
    moves = [step for block in blocks for step in block.steps if isinstance(step, Move)]
    return PlanCode(
        key,
        tuple(plan.arrivals),
        {name: each.view for name, each in plan.temporaries.items()},
        {table: _mapper(steps, moves, plan) for table, steps in mappers.items()},
        tuple(_block(block, moves, plan.temporaries) for block in blocks),
        plan.differences,
    )


def _block(block: Block, moves: Sequence[Move], temporaries: Mapping[str, Temporary]) -> WorkerBlock | DriverBlock:
    if block.mode is Mode.DISTRIBUTED:
        return _worker_block(block.steps, moves, temporaries)
    steps: list[Statement | Departure | Receipt] = []
    for step in block.steps:
        if isinstance(step, Compute):
            steps.append(step.statement)
        elif step.movement is Movement.SCATTER:
            steps.append(_departure(step, temporaries))
        elif step.movement is Movement.GATHER:
            steps.append(Receipt(step.target))
    return DriverBlock(tuple(steps))


def _worker_block(steps: Sequence[Step], moves: Sequence[Move], temporaries: Mapping[str, Temporary]) -> WorkerBlock:
    statements = tuple(step.statement for step in steps if isinstance(step, Compute))
    written = {statement.view for statement in statements}
    leaving = [move for move in moves if move.source in written and move.movement is not Movement.SCATTER]
    return WorkerBlock(statements, tuple(_departure(move, temporaries) for move in leaving))


def _mapper(steps: Sequence[Step], moves: Sequence[Move], plan: BatchPlan) -> WorkerBlock:
    block = _worker_block(steps, moves, plan.temporaries)
    read = {name for step in steps for name in step.footprint.reads if name in plan.locations}
    return replace(block, beside=tuple(sorted(read)))


def _departure(move: Move, temporaries: Mapping[str, Temporary]) -> Departure:
    copied = temporaries[move.source].at == REPLICATED
    if move.to is None:
        return Departure(move.source, move.target, Place.DRIVER, copied)
    if not isinstance(move.to, Dist):
        return Departure(move.source, move.target, Place.EVERYWHERE, copied)
    keys = temporaries[move.target].view.keys
    return Departure(move.source, move.target, tuple(keys.index(var) for var in move.to.by), copied)


def _mapped(plan: BatchPlan, spread: Collection[str]) -> tuple[dict[str, list[Step]], list[Block]]:
    """What is done with each spread change where it is, and the blocks without that."""
    first, later = plan.blocks[0], list(plan.blocks[1:])
    if first.mode is not Mode.DISTRIBUTED:
        raise NotMappable("the driver begins")
    mappers: dict[str, list[Step]] = {table: [] for table in spread}
    origin: dict[str, str] = {}
    rest: list[Step] = []
    for step in first.steps:
        reads, changes = step.footprint.reads, step.footprint.changes
        tables = {*changes.intersection(spread), *(origin[name] for name in reads if name in origin)}
        if not tables:
            rest.append(step)
            continue
        beside = {name for name in reads if name not in origin}
        if len(tables) > 1 or changes - tables or any(plan.locations.get(name) != REPLICATED for name in beside):
            raise NotMappable(f"{show_reads(step.footprint)} are read together")
        (table,) = tables
        mappers[table].append(step)
        origin.update(dict.fromkeys(step.footprint.writes, table))
    _check_left_behind(spread, origin, later)
    return mappers, _put_off(rest, later)


def _check_left_behind(spread: Collection[str], origin: Collection[str], later: Sequence[Block]) -> None:
    """Nothing but moves may look at what stays with the changes; views are not written there."""
    nothing: Footprint[str] = Footprint(frozenset(), frozenset(), frozenset())
    for step in (step for block in later if block.mode is Mode.DISTRIBUTED for step in block.steps):
        read = step.footprint
        again = replace(nothing, reads=read.reads.intersection(origin), changes=read.changes.intersection(spread))
        if again != nothing:
            raise NotMappable(f"{show_reads(again)} are read again")


def _put_off(rest: Sequence[Step], later: Sequence[Block]) -> list[Block]:
    """Steps of the first block that do not look at the changes run with the next block of workers, if they can wait."""
    if not rest:
        return list(later)
    at = next((i for i, block in enumerate(later) if block.mode is Mode.DISTRIBUTED), None)
    written = {name for step in rest for name in step.footprint.writes}
    between = {name for block in later[:at] for step in block.steps for name in step.footprint.reads}
    if at is None or written & between:
        raise NotMappable("the driver needs what the state says before the changes")
    return [*later[:at], Block(Mode.DISTRIBUTED, (*rest, *later[at].steps)), *later[at + 1 :]]
