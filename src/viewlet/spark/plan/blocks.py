"""Steps packed into as few blocks as their dependencies allow (thesis, section 5.3.2, Figure 5.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from viewlet.spark.plan.program import Block, Footprint, Mode, Name, Step

NAMES: frozenset[str] = frozenset()


def commute(first: Footprint[Name], second: Footprint[Name]) -> bool:
    """Neither reads what the other writes; both may add to one view, but not replace it."""
    return (
        first.writes.isdisjoint(second.reads)
        and second.writes.isdisjoint(first.reads)
        and first.replaces.isdisjoint(second.writes)
        and second.replaces.isdisjoint(first.writes)
    )


@dataclass(frozen=True, slots=True)
class _Open:
    """A block that may still grow, with what its steps read and write."""

    block: Block
    footprint: Footprint[str]

    def merged(self, other: _Open) -> _Open:
        block = Block(self.block.mode, self.block.steps + other.block.steps)
        return _Open(block, self.footprint.union(other.footprint))


def merge_into_head(head: _Open, tail: Sequence[_Open]) -> tuple[_Open, list[_Open]]:
    """The head with every later block of its mode that can move up to it, and the others."""
    passed: list[_Open] = []
    between = Footprint(NAMES, NAMES, NAMES)
    for block in tail:
        if block.block.mode is head.block.mode and commute(between, block.footprint):
            head = head.merged(block)
        else:
            passed.append(block)
            between = between.union(block.footprint)
    return head, passed


def fuse(blocks: Sequence[Block]) -> list[Block]:
    """The block-fusion algorithm: merges into the head while that makes it grow, then continues behind it."""
    fused: list[Block] = []
    remaining = [_Open(block, footprint_of(block.steps)) for block in blocks]
    while remaining:
        head, rest = merge_into_head(remaining[0], remaining[1:])
        if len(rest) == len(remaining) - 1:
            fused.append(head.block)
            remaining = rest
        else:
            remaining = [head, *rest]
    return fused


def footprint_of(steps: Iterable[Step]) -> Footprint[str]:
    return reduce(Footprint.union, (step.footprint for step in steps))


def one_by_one(steps: Iterable[Step]) -> list[Block]:
    """One block for every step."""
    return [Block(step.mode, (step,)) for step in steps]


def levels(steps: Iterable[tuple[Mode, Footprint[Name]]]) -> list[int]:
    """The block each step can run in, if even blocks are distributed and odd ones local.

    It takes time linear in the number of steps, where fusion takes quadratic: this is how orders of tables are
    compared.
    """
    found: list[int] = []
    written: dict[Name, int] = {}
    read: dict[Name, int] = {}
    replaced: dict[Name, int] = {}
    for mode, step in steps:
        conflicts = [(step.reads, written), (step.writes, read), (step.writes, replaced), (step.replaces, written)]
        level = max((last[name] for names, last in conflicts for name in names if name in last), default=0)
        level += (level + (mode is Mode.LOCAL)) % 2
        found.append(level)
        for names, last in ((step.reads, read), (step.writes, written), (step.replaces, replaced)):
            for name in names:
                last[name] = max(last.get(name, 0), level)
    return found


def stage_count(steps: Iterable[tuple[Mode, Footprint[Name]]]) -> int:
    """How many distributed blocks the steps need."""
    return len({level for level in levels(steps) if level % 2 == 0})
