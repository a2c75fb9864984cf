"""Which of several programs for the same query is cheapest on a cluster.

A batch of Spark takes a time that hardly depends on its size for every stage, and the more state a program keeps the
longer it takes to load, to write to snapshots, and to change. What should not grow with the state comes first: reading
all of it for the result, and moving it in a batch (`DistributedProgram.burden`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viewlet.spark.plan.compile import DistributedProgram
from viewlet.triggers.cost import Sizes, view_size
from viewlet.triggers.sizes import FEW_VALUES, complete
from viewlet.triggers.statistics import UNKNOWN, Size
from viewlet.types import Table

ROWS_PER_STAGE = 1_000_000.0
"""So many rows of state cost as much as a stage of every batch.

A stage takes 0.06 s. A row takes 4 µs to load, here over a hundred batches, and batches take as much again for changing
the views that it is in.
"""
ADVANTAGE = 0.9
"""Another program is chosen if its cost is below this part of the first one's: estimates are rough."""


def cheapest(candidates: Sequence[DistributedProgram], rows: Mapping[str, float]) -> DistributedProgram:
    """The first program, or the cheapest of the others if that is much cheaper and no burden.

    `rows` says how many rows tables have, and how many values columns (`table.column`).
    """
    first = candidates[0]
    others = [each for each in candidates[1:] if each.burden <= first.burden]
    if not others:
        return first
    best = min(others, key=lambda each: weight(each, rows))
    return best if weight(best, rows) < ADVANTAGE * weight(first, rows) else first


def is_measured(tables: Mapping[str, Table], rows: Mapping[str, float]) -> bool:
    """All sizes are known that a choice depends on."""
    return all(name in rows for name in tables)


def weight(distributed: DistributedProgram, rows: Mapping[str, float]) -> float:
    """The cost of a program in stages of a batch."""
    return distributed.stages() + state_rows(distributed, rows) / ROWS_PER_STAGE


def state_rows(distributed: DistributedProgram, rows: Mapping[str, float]) -> float:
    """About how many rows the views of a program have."""
    facts = distributed.facts
    guessed = complete(UNKNOWN, distributed.program.query, facts.tables).sizes
    sizes = Sizes({name: _size(table, guessed[name], rows) for name, table in facts.tables.items()})
    total = 0.0
    for view in distributed.program.views:
        bound = facts.bound(view)
        estimated = view_size(view, sizes).rows
        total += estimated if bound is None else min(bound, estimated)
    return total


def _size(table: Table, guessed: Size, rows: Mapping[str, float]) -> Size:
    """The size of a table of so many rows; the values of columns that nothing is said of grow with it."""
    count = rows.get(table.name, guessed.rows)

    def values(name: str, guess: float) -> float:
        if table.primary_key == (name,):
            return count
        grown = guess if guess <= FEW_VALUES else guess * count / guessed.rows
        return min(count, rows.get(f"{table.name}.{name}", grown))

    return Size(count, tuple(map(values, table.column_names, guessed.distinct)))
