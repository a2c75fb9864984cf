"""How many Spark jobs and stages a batch takes (thesis, section 5.5, Table 5.1).

A stage is one block of distributed statements after fusion: the tasks of a stage run the whole block on the state of
their partition. The first stage is the one in which workers filter and sum up the changes they received; a batch that
arrives at the driver has none of that kind. Moves between workers (Repart) end a stage, and so does bringing results to
the driver (Gather), which the last stage may do for all of them at once.

A job is a chain of stages that the driver starts at once. A new one begins where the driver has to send something that
it made of what it gathered earlier in the same batch (Scatter after Gather).

As in the thesis, the numbers are those of one batch with changes of every table of the query.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.spark.plan.compile import DistributedProgram
from viewlet.spark.plan.locations import RANDOM, Arrival
from viewlet.spark.plan.program import BatchPlan, Mode, Move, Movement


@dataclass(frozen=True, slots=True)
class Complexity:
    jobs: int
    stages: int


def stages(program: DistributedProgram, table: str | None = None, arrival: Arrival = RANDOM) -> Complexity:
    """The complexity of a batch that changes one table, or all of them."""
    tables = sorted(program.program.changing) if table is None else [table]
    return complexity(program.plan(dict.fromkeys(tables, arrival)))


def complexity(plan: BatchPlan) -> Complexity:
    distributed = [i for i, block in enumerate(plan.blocks) if block.mode is Mode.DISTRIBUTED]
    if not distributed:
        return Complexity(0, 0)
    return Complexity(1 + sum(i > distributed[0] for i in _returns(plan)), len(distributed))


def _returns(plan: BatchPlan) -> list[int]:
    """The blocks in which the driver sends on what it has gathered in the same batch."""
    gathered: set[str] = set()
    found: list[int] = []
    for i, block in enumerate(plan.blocks):
        for step in block.steps:
            footprint = step.footprint
            if isinstance(step, Move) and step.movement is Movement.GATHER:
                gathered |= footprint.writes
            elif block.mode is Mode.LOCAL and not gathered.isdisjoint(footprint.reads):
                if isinstance(step, Move) and step.movement is Movement.SCATTER:
                    found.append(i)
                else:
                    gathered |= footprint.writes
    return sorted(set(found))
