"""What `explain` prints: each stage a view went through, in order.

sql -> algebra -> passes -> views -> triggers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Var
from viewlet.changes import did_you_mean
from viewlet.errors import SqlError
from viewlet.triggers.program import Program

if TYPE_CHECKING:
    from viewlet.connection.maintained import Declaration, MaintainedView

SUMMARY = ("sql", "algebra", "views", "triggers")


def explain_view(view: MaintainedView, stage: str | None = None) -> str:
    """One stage of a view, or without `stage` the ones that say what it is and how it is maintained."""
    return explain_query(view.declared, view.program, stage)


def explain_query(declared: Declaration, program: Program, stage: str | None = None) -> str:
    """The same for a query that is compiled but not maintained."""
    if stage is None:
        head = f"view {declared.name} ({program.strategy})"
        return "\n\n".join([head, *(f"-- {name}\n{STAGES[name](declared, program)}" for name in SUMMARY)])
    if stage.lower() not in STAGES:
        hint = did_you_mean(stage, STAGES)
        raise SqlError(f"there is no stage {stage!r} to explain; the stages are {', '.join(STAGES)}{hint}")
    return STAGES[stage.lower()](declared, program)


def _sql(declared: Declaration, program: Program) -> str:
    return declared.sql


def _algebra(declared: Declaration, program: Program) -> str:
    from viewlet.algebra.printer import show

    query = declared.query
    lines = [f"{column.name} = {column.var.name}: {column.var.type}" for column in query.columns]
    if query.order:
        keys = (f"{key.var.name}{' descending' if key.descending else ''}" for key in query.order)
        lines.append(f"order by {', '.join(keys)}")
    if query.limit is not None:
        lines.append(f"limit {query.limit}")
    if query.offset:
        lines.append(f"offset {query.offset}")
    return "\n".join([show(query.expr), *lines])


def _passes(declared: Declaration, program: Program) -> str:
    """What each pass of the compiler made of what it was given."""
    from viewlet.algebra.printer import show

    steps = ((step.name, step.subject, show(step.before), show(step.after)) for step in program.passes)
    return "\n".join(f"{name} [{subject}]\n    {before}\n -> {after}" for name, subject, before, after in steps)


def _views(declared: Declaration, program: Program) -> str:
    """view[keys].field = definition, and the result over the views."""
    from viewlet.algebra.printer import show

    lines = [
        f"{view.name}[{_names(view.keys)}].{field.name} = {show(field.definition)}"
        for view in program.views
        for field in view.fields
    ]
    return "\n".join([*lines, f"{declared.name} = {show(program.result)}"])


def _triggers(declared: Declaration, program: Program) -> str:
    """on table: view[keys].field += change."""
    from viewlet.algebra.printer import show

    lines: list[str] = []
    for trigger in program.triggers:
        lines.append(f"on {trigger.table}:")
        for statement in trigger.statements:
            target, sign = f"{statement.view}[{_names(statement.args)}]", ":=" if statement.replaces else "+="
            lines += [f"    {target}.{update.field} {sign} {show(update.expr)}" for update in statement.updates]
    return "\n".join(lines)


def _names(variables: tuple[Var, ...]) -> str:
    return ", ".join(var.name for var in variables)


STAGES: dict[str, Callable[[Declaration, Program], str]] = {
    "sql": _sql,
    "algebra": _algebra,
    "passes": _passes,
    "views": _views,
    "triggers": _triggers,
}
