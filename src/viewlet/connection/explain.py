"""What `explain` prints: each stage a view went through, in order.

sql -> algebra -> passes -> views -> triggers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
    from viewlet.triggers.printer import show_passes

    return show_passes(program)


def _views(declared: Declaration, program: Program) -> str:
    from viewlet.triggers.printer import show_views

    return show_views(program)


def _triggers(declared: Declaration, program: Program) -> str:
    from viewlet.triggers.printer import show_triggers

    return show_triggers(program)


STAGES: dict[str, Callable[[Declaration, Program], str]] = {
    "sql": _sql,
    "algebra": _algebra,
    "passes": _passes,
    "views": _views,
    "triggers": _triggers,
}
