"""The part of a plan for all tables that is needed when only some of them change.

A statement whose changes are all empty adds nothing and is left out, whatever else it reads: new minus old is zero. So
are temporaries that only such statements read. A block without statements needs no stage. Worker blocks are merged if
nothing has to be transferred between them.

| statement  | it reads                                                                        | it runs       |
|------------|---------------------------------------------------------------------------------|---------------|
| driven     | a change, or a temporary that another driven statement writes                   | yes           |
| comparing  | a view that the batch has changed and a copy of it (`differences`)              | yes           |
| assigning  | views and temporaries made from them, of which the batch has changed one        | yes           |
| looking    | the same, and writes a temporary                                                | if it is read |
| idle       | changes, or temporaries made from changes, that are empty                       | no            |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from viewlet.spark.plan.program import Compute, Mode
from viewlet.spark.run.units.plan_code import Departure, DriverBlock, PlanCode, Receipt, WorkerBlock
from viewlet.triggers.program import Statement

Block = WorkerBlock | DriverBlock
Step = Statement | Departure | Receipt


def restrict(plan: PlanCode, tables: Collection[str]) -> PlanCode:
    """The plan for a batch that changes these tables and no others."""
    if set(tables) == set(plan.tables):
        return plan
    search = _Search(plan, frozenset(tables))
    for block in (*plan.mappers.values(), *plan.blocks):
        search.forward(_steps(block))
    for block in reversed((*plan.mappers.values(), *plan.blocks)):
        search.backward(_steps(block))
    mappers = {table: search.left_of(block) for table, block in plan.mappers.items() if table in tables}
    blocks = [search.left_of(block) for block in plan.blocks]
    return replace(
        plan,
        tables=tuple(table for table in plan.tables if table in tables),
        mappers={table: block for table, block in mappers.items() if isinstance(block, WorkerBlock)},
        blocks=tuple(_fused([block for block in blocks if _steps(block)])),
    )


@dataclass(slots=True)
class _Search:
    plan: PlanCode
    tables: frozenset[str]
    """Tables whose changes have rows."""
    full: set[str] = field(default_factory=set)
    """Temporaries that may have rows because a table has changed."""
    empty: set[str] = field(default_factory=set)
    """Temporaries that depend on changes of other tables, and are empty."""
    state: set[str] = field(default_factory=set)
    """Temporaries that are made of views alone."""
    renewed: set[str] = field(default_factory=set)
    """Those of them that are not what they would have been before the batch."""
    changed: set[str] = field(default_factory=set)
    """Views that statements may have changed."""
    wanted: set[str] = field(default_factory=set)
    """Temporaries read by a statement that will run."""
    running: set[int] = field(default_factory=set)
    """The steps that run, by identity."""

    def forward(self, steps: Iterable[Step]) -> None:
        for step in steps:
            reads, changes, writes = _touched(step)
            given = reads.intersection(self.plan.temporaries)
            is_temporary = writes in self.plan.temporaries
            is_renewed = bool(reads & self.changed or given & self.renewed)
            is_difference = writes in self.plan.differences
            if changes & self.tables or given & self.full or (is_difference and is_renewed):
                self._run(step, given)
                (self.full if is_temporary else self.changed).add(writes)
            elif changes or given & self.empty or is_difference:
                if is_temporary:
                    self.empty.add(writes)
            elif is_temporary:
                self.state.add(writes)
                if is_renewed:
                    self.renewed.add(writes)
            elif is_renewed:  # an assignment
                self._run(step, given)
                self.changed.add(writes)

    def _run(self, step: Step, given: frozenset[str]) -> None:
        self.running.add(id(step))
        self.wanted |= given

    def backward(self, steps: Iterable[Step]) -> None:
        for step in reversed(list(steps)):
            reads, _, writes = _touched(step)
            if writes in self.state and writes in self.wanted and id(step) not in self.running:
                self.running.add(id(step))
                self.wanted |= reads

    def left_of(self, block: Block) -> Block:
        kept = [step for step in _steps(block) if id(step) in self.running]
        if isinstance(block, DriverBlock):
            return DriverBlock(tuple(kept))
        return replace(
            block,
            statements=tuple(step for step in kept if isinstance(step, Statement)),
            departures=tuple(step for step in kept if isinstance(step, Departure)),
        )


def _steps(block: Block) -> tuple[Step, ...]:
    return block.steps if isinstance(block, DriverBlock) else (*block.statements, *block.departures)


def _touched(step: Step) -> tuple[frozenset[str], frozenset[str], str]:
    """What a step reads, the tables whose changes it reads, and what it writes.

    A receipt reads what was sent under its own name.
    """
    if isinstance(step, Statement):
        footprint = Compute(step, Mode.LOCAL).footprint
        return footprint.reads, footprint.changes, step.view
    source = step.source if isinstance(step, Departure) else step.target
    return frozenset((source,)), frozenset(), step.target


def _fused(blocks: Iterable[Block]) -> Iterable[Block]:
    """Blocks of workers that follow each other and have nothing to send in between, as one."""
    last: Block | None = None
    for block in blocks:
        if isinstance(last, WorkerBlock) and isinstance(block, WorkerBlock) and not last.departures:
            last = replace(block, statements=(*last.statements, *block.statements))
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last
