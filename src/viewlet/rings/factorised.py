"""Factorised payloads: of a join, each view keeps the values of its own variables only.

    lift("C")("c1") = {c1 -> 1} at C        {c1 -> 1} at C * {d1 -> 1, d2 -> 1} at D = {c1 -> 2} at C

Section 6.3 of "Incremental View Maintenance with Triple Lock Factorization Benefits" (M. Nikolic and D. Olteanu): a
product keeps the values of the variable that is higher in the variable order, multiplied by how many rows there are
below, and drops the lower ones, for the views below have them. The payloads of all views together, linked by the views'
keys, are the whole result (`viewlet.viewtree.factorised` enumerates it).

As a ring: sums of single choices, where the product of two choices is the higher of both, by variable first and by
value among those of one variable. The higher of two is associative and commutative, so all laws of a ring hold. In a
view tree every variable is lifted once, and the second rule is never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.rings.ring import Lift

Level = int
"""The place of a variable in the order, from the top; a choice of nothing is below all."""
NOTHING: Level = 1 << 30


@dataclass(slots=True)
class Choices:
    """How many rows there are for each value, by level; totals are kept, so that products need not count."""

    blocks: dict[Level, dict[Any, int]]
    totals: dict[Level, int]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(self.totals.values())

    @property
    def size(self) -> int:
        """How many values are stored."""
        return sum(map(len, self.blocks.values()))


@dataclass(frozen=True, slots=True)
class FactorisedRing:
    """The ring of choices: `levels` has the free variables, higher ones with smaller numbers; others count rows.

    Free variables that are lifted together make one choice, at the level of the highest, whose value is the tuple of
    theirs.
    """

    levels: Mapping[str, Level]
    name: str = "factorised"
    width: int = 0
    joint: bool = True
    """Lifting several variables is not multiplying their lifts."""

    @property
    def zero(self) -> Choices:
        return Choices({}, {})

    @property
    def one(self) -> Choices:
        return Choices({NOTHING: {(): 1}}, {NOTHING: 1})

    def add(self, left: Choices, right: Choices) -> Choices:
        return self.accumulate(self.own(left), right)

    def own(self, element: Choices) -> Choices:
        return Choices({level: dict(block) for level, block in element.blocks.items()}, dict(element.totals))

    def accumulate(self, total: Choices, element: Choices) -> Choices:
        for level, block in element.blocks.items():
            known = total.blocks.setdefault(level, {})
            for value, times in block.items():
                if changed := known.get(value, 0) + times:
                    known[value] = changed
                else:
                    known.pop(value, None)
            total.totals[level] = total.totals.get(level, 0) + element.totals[level]
            if not known:
                del total.blocks[level], total.totals[level]
        return total

    def mul(self, left: Choices, right: Choices) -> Choices:
        if len(left.blocks) == len(right.blocks) == 1:
            ((a, a_block),), ((b, b_block),) = left.blocks.items(), right.blocks.items()
            if a != b:
                return (
                    _scaled(a, a_block, left, right.totals[b]) if a < b else _scaled(b, b_block, right, left.totals[a])
                )
        found = self.zero
        for a, a_block in left.blocks.items():
            for b, b_block in right.blocks.items():
                if a == b:
                    part = _highest(a, a_block, b_block)
                elif a < b:
                    part = _scaled(a, a_block, left, right.totals[b])
                else:
                    part = _scaled(b, b_block, right, left.totals[a])
                found = self.accumulate(found, part)
        return found

    def neg(self, element: Choices) -> Choices:
        return Choices(
            {level: {value: -times for value, times in block.items()} for level, block in element.blocks.items()},
            {level: -times for level, times in element.totals.items()},
        )

    def is_zero(self, element: Choices) -> bool:
        return not element.blocks

    def lift(self, variables: Sequence[str]) -> Lift[Choices]:
        sources = [i for i, name in enumerate(variables) if name in self.levels]
        if not sources:
            return lambda values: self.one
        level = min(self.levels[variables[i]] for i in sources)
        return lambda values: Choices({level: {tuple(values[i] for i in sources): 1}}, {level: 1})


def _scaled(level: Level, block: dict[Any, int], element: Choices, times: int) -> Choices:
    if not times:
        return Choices({}, {})
    if times == 1:
        return Choices({level: dict(block)}, {level: element.totals[level]})
    return Choices({level: {value: n * times for value, n in block.items()}}, {level: element.totals[level] * times})


def _highest(level: Level, left: dict[Any, int], right: dict[Any, int]) -> Choices:
    """Both sides chose at the same level: the greater of two values, by their printed form, wins."""
    found: dict[Any, int] = {}
    for a, n in left.items():
        for b, m in right.items():
            value = a if a == b else max(a, b, key=repr)
            found[value] = found.get(value, 0) + n * m
    kept = {value: times for value, times in found.items() if times}
    return Choices({level: kept} if kept else {}, {level: sum(kept.values())} if kept else {})
