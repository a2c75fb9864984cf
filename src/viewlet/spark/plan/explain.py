"""Distributed programs as text.

block 2, at the driver
    change_of_customer_here := Repart[c_custkey](change_of_customer)
block 3, at every worker: stage 2
    q_customer[c_custkey].count += change_of_customer_here.sum_1[c_custkey]
"""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.algebra.nodes import Delta, Expr
from viewlet.algebra.printer import show, show_block
from viewlet.algebra.scope import outputs
from viewlet.spark.plan.locations import Dist, Location
from viewlet.spark.plan.nodes import Gather, Moved, Repart, Transformer, as_expr, rebuild, strip
from viewlet.spark.plan.program import BatchPlan, Block, Compute, Mode, Move, Step, show_reads
from viewlet.spark.plan.stages import complexity

_MARK = "\0"


def show_plan(plan: BatchPlan) -> str:
    """What a batch does, block by block, and where views live."""
    return "\n".join(_lines(plan))


def _lines(plan: BatchPlan) -> Iterator[str]:
    total = complexity(plan)
    yield f"batch of {', '.join(plan.order)}: {_count(total.jobs, 'job')}, {_count(total.stages, 'stage')}"
    for name, location in plan.locations.items():
        yield f"    {name} {_place(location)}"
    for block, title in zip(plan.blocks, titles(plan), strict=True):
        yield title
        for step in block.steps:
            yield from ("    " + line for line in show_step(step))


def titles(plan: BatchPlan) -> list[str]:
    """A heading for every block; distributed ones are numbered as stages."""
    found, stage = [], 0
    for number, block in enumerate(plan.blocks, start=1):
        stage += block.mode is Mode.DISTRIBUTED
        found.append(f"block {number}, {_where(block)}" + (f": stage {stage}" if _is_stage(block) else ""))
    return found


def show_step(step: Step, width: int = 110) -> list[str]:
    if isinstance(step, Move):
        return [f"{step.target} := {step.movement.value}{_brackets(step.to)}({step.source})"]
    lines: list[str] = []
    statement, sign = step.statement, ":=" if step.statement.replaces else "+="
    for update in statement.updates:
        head = f"{statement.view}[{', '.join(arg.name for arg in statement.args)}].{update.field} {sign}"
        text = show(update.expr)
        if len(head) + 1 + len(text) <= width:
            lines.append(f"{head} {text}")
        else:
            lines += [head, *("    " + line for line in show_block(update.expr, width - 4).split("\n"))]
    return lines


def summary(step: Step) -> str:
    """A step in a few words: what it writes, and from what."""
    if isinstance(step, Compute):
        sign = ":=" if step.statement.replaces else "+="
        return f"{step.statement.view} {sign} {' * '.join(show_reads(step.footprint)) or '...'}"
    return show_step(step)[0]


def show_moved(moved: Moved) -> str:
    """One line of text for a distributed expression.

    Repart[orderkey](Sum[orderkey](Δlineitem(orderkey, price) * price))
    """
    found: list[str] = []

    def named(part: Moved) -> Moved:
        if not isinstance(part, Transformer):
            return rebuild(part, named)
        found.append(f"{_opening(part)}({show_moved(part.body)})")
        args = tuple(sorted(outputs(strip(part)), key=lambda var: var.name))
        return Delta(f"{_MARK}{len(found) - 1}{_MARK}", args)

    expr: Expr = as_expr(named(moved))
    text = show(expr)
    for number, inner in enumerate(found):
        before, _, after = text.partition(f"Δ{_MARK}{number}{_MARK}(")
        text = before + inner + after.partition(")")[2]
    return text


def _opening(transformer: Transformer) -> str:
    match transformer:
        case Gather():
            return "Gather"
        case Repart(to, _):
            return f"Repart{_brackets(to)}"
        case _:
            return f"Scatter{_brackets(transformer.to)}"


def _brackets(to: Location | None) -> str:
    if to is None:
        return ""
    return str(to) if isinstance(to, Dist) else "[all]"


def _place(location: Location) -> str:
    return f"partitioned by {location}" if isinstance(location, Dist) else str(location)


def _where(block: Block) -> str:
    return "at the driver" if block.mode is Mode.LOCAL else "at every worker"


def _is_stage(block: Block) -> bool:
    return block.mode is Mode.DISTRIBUTED


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
