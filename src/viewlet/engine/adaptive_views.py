"""Views over the triangles of three relations, kept by heavy/light maintenance: `WITH (strategy = 'adaptive')`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from viewlet.algebra.triangle_query import TriangleQuery
from viewlet.engine.contract import LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Subject, Tables, ViewKind
from viewlet.engine.trigger_programs import plan_program
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.store import UndoLog

if TYPE_CHECKING:
    from viewlet.adaptive.plan import AdaptivePlan

NOT_RUNNING = "none: the query is not declared as a view"


def plan_adaptive(declared: Declaration, tables: Tables, statistics: Statistics) -> AdaptivePlan:
    """The triangle, and the rest of the query as a program over its groups."""
    from viewlet.adaptive.plan import AdaptivePlan

    query = declared.definition
    assert isinstance(query, TriangleQuery)
    rest = replace(declared, query=query.result, definition=query.result, strategy="higher-order")
    return AdaptivePlan(query, plan_program(rest, {query.table.name: query.table}, UNKNOWN))


def reference_engine(
    declared: Declaration, sources: Sources, statistics: Statistics, log: UndoLog, movable: bool
) -> LocalEngine:
    """Everything on dictionaries."""
    from viewlet.adaptive.reference import ReferenceState
    from viewlet.engine.adaptive_engine import AdaptiveEngine

    plan, own = plan_adaptive(declared, sources.tables, statistics), UndoLog()
    return AdaptiveEngine(plan, ReferenceState(plan, own), sources, own)


def stages(subject: Subject) -> Stages:
    """sql -> algebra -> triangle -> parts, and the triggers over the groups."""
    from viewlet.adaptive.plan import show_triangle
    from viewlet.triggers.show_program import show_algebra, show_triggers, show_views

    declared, plan = subject.declared, subject.plan
    found: dict[str, Callable[[], str]] = {
        "sql": lambda: declared.sql,
        "algebra": lambda: show_algebra(declared.query),
        "triangle": lambda: show_triangle(plan.query),
        "parts": lambda: NOT_RUNNING,
        "views": lambda: show_views(plan.result),
        "triggers": lambda: show_triggers(plan.result),
        "engine": lambda: subject.engine,
    }
    return found


ADAPTIVE_VIEWS = ViewKind(
    noun="an adaptive view",
    accepts=lambda definition: isinstance(definition, TriangleQuery),
    plan=plan_adaptive,
    reference=reference_engine,
    stages=stages,
    summary=("sql", "triangle", "engine"),
)
