"""What `explain` prints: each stage a view went through, in order.

sql -> algebra -> passes -> views -> triggers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from viewlet.changes import did_you_mean
from viewlet.errors import SqlError

if TYPE_CHECKING:
    from viewlet.connection.maintained import MaintainedView

SUMMARY = ("sql", "algebra", "views", "triggers")


def explain_view(view: MaintainedView, stage: str | None = None) -> str:
    """One stage, or without `stage` the ones that say what the view is and how it is maintained."""
    if stage is None:
        head = f"view {view.name} ({view.program.strategy})"
        return "\n\n".join([head, *(f"-- {name}\n{STAGES[name](view)}" for name in SUMMARY)])
    if stage.lower() not in STAGES:
        hint = did_you_mean(stage, STAGES)
        raise SqlError(f"there is no stage {stage!r} to explain; the stages are {', '.join(STAGES)}{hint}")
    return STAGES[stage.lower()](view)


def _sql(view: MaintainedView) -> str:
    return view.sql


def _algebra(view: MaintainedView) -> str:
    from viewlet.algebra.printer import show

    query = view.query
    lines = [f"{column.name} = {column.var.name}: {column.var.type}" for column in query.columns]
    if query.order:
        keys = (f"{key.var.name}{' descending' if key.descending else ''}" for key in query.order)
        lines.append(f"order by {', '.join(keys)}")
    if query.limit is not None:
        lines.append(f"limit {query.limit}")
    if query.offset:
        lines.append(f"offset {query.offset}")
    return "\n".join([show(query.expr), *lines])


def _passes(view: MaintainedView) -> str:
    from viewlet.triggers.printer import show_passes

    return show_passes(view.program)


def _views(view: MaintainedView) -> str:
    from viewlet.triggers.printer import show_views

    return show_views(view.program)


def _triggers(view: MaintainedView) -> str:
    from viewlet.triggers.printer import show_triggers

    return show_triggers(view.program)


STAGES: dict[str, Callable[[MaintainedView], str]] = {
    "sql": _sql,
    "algebra": _algebra,
    "passes": _passes,
    "views": _views,
    "triggers": _triggers,
}
