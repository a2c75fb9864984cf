"""What `explain` prints: statements, triggers with ranks and operations, and what a run does with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from viewlet.linalg.expression import shape
from viewlet.linalg.machine import NOMINAL
from viewlet.linalg.operations import operations, trigger_operations, update_operations
from viewlet.linalg.program import Program, Statement, Statements, sizes_of
from viewlet.linalg.strategy import choose, plan_statements
from viewlet.linalg.trigger import Trigger

if TYPE_CHECKING:
    from viewlet.linalg.maintained import MaintainedMatrices


def explain_program(program: Program, rank: int, sizes: Mapping[str, int], *, cholesky: bool = True) -> str:
    """The statements and the trigger of every dynamic input."""
    values = sizes_of(program, sizes)
    source = plan_statements(program, values, NOMINAL, "incremental", cholesky=cholesky)
    counted = operations(statement.body for statement in source.views)
    lines = [*(_statement(each, source) for each in source.views), f"-- {counted} operations", ""]
    for each in source.inputs:
        if each.dynamic:
            plan = choose(source, {each: rank}, values, NOMINAL, "incremental")
            lines += [explain_trigger(plan.trigger), ""]
    return "\n".join(lines).rstrip()


def _statement(statement: Statement, source: Statements) -> str:
    return f"{statement}  -- a Cholesky factor" if statement.target in source.factored else str(statement)


def explain_trigger(trigger: Trigger) -> str:
    """A trigger as in Example 4.6, with the rank of every update and the operations of every line."""
    changes = ", ".join(f"{each.name} BY ({u.name}, {v.name})" for each, (u, v) in trigger.factors.items())
    counted: set[object] = set()
    rows = [(f"  {each}", str(operations([each.body], counted))) for each in trigger.assignments]  # type: ignore[arg-type]
    rows += [(f"  {each}", f"{update_operations(each)}, rank {each.rank}") for each in trigger.updates]
    rows += [(f"  {each}", str(operations([each.body], counted))) for each in trigger.recomputed]  # type: ignore[arg-type]
    width = max(len(code) for code, _ in rows)
    lines = [f"{code:{width}}  -- {note}" for code, note in rows]
    return "\n".join([f"ON UPDATE {changes}:", *lines, f"  -- {trigger_operations(trigger)} operations"])


def explain_run(matrices: MaintainedMatrices) -> str:
    """The sizes, the memory, and the plan of the last update."""
    sizes = ", ".join(f"{name} = {value:,}" for name, value in sorted(matrices.sizes.items()))
    lines = [f"{matrices.strategy} on {matrices.backend.name}, {matrices.backend.dtype}; {sizes}"]
    for each in matrices.stored:
        rows, columns = (side.whole(matrices.sizes) for side in shape(each))
        views = (_statement(one, matrices.statements) for one in matrices.statements.views if one.target is each)
        body = next(views, f"input {each.name}")
        body += ", " if each in matrices.statements.factored else "  -- "
        lines.append(f"  {body}{rows:,} × {columns:,}, {_bytes(rows * columns * matrices.backend.dtype.itemsize)}")
    done = matrices.statistics
    lines.append(
        f"{done.updates:,} updates, {done.operations:,.0f} operations, "
        f"{1e3 * done.seconds / max(1, done.updates):.3g} ms for an update with what was deferred; "
        f"all views evaluated {done.recomputed} times, {done.ill_conditioned} of them for ill-conditioned updates"
    )
    if matrices.last is not None:
        lines += [
            "the last update:",
            str(matrices.last.trigger),
            f"  -- estimated {matrices.last.seconds * 1e3:.3g} ms",
        ]
    return "\n".join(lines)


def _bytes(count: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"
