"""Adaptive views over joins of four tables: paths, cycles and Loomis-Whitney joins, on the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.split_query import SplitQuery
from viewlet.engine.contract import LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Subject, Tables, ViewKind
from viewlet.engine.trigger_programs import plan_program
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.store import UndoLog

if TYPE_CHECKING:
    from viewlet.adaptive.plan import SplitPlan


def plan_split(declared: Declaration, tables: Tables, statistics: Statistics) -> SplitPlan:
    """The join, and the rest of the query as a program over its sums."""
    from viewlet.adaptive.plan import JoinPlan

    query = declared.definition
    assert isinstance(query, SplitQuery)
    rest = replace(declared, query=query.result, definition=query.result, strategy="higher-order")
    return JoinPlan(query, plan_program(rest, {query.table.name: query.table}, UNKNOWN))


def reference_engine(
    declared: Declaration, sources: Sources, statistics: Statistics, log: UndoLog, movable: bool
) -> LocalEngine:
    """Everything on dictionaries."""
    from viewlet.adaptive.split_state import SplitState
    from viewlet.engine.split_engine import SplitEngine

    plan, own = plan_split(declared, sources.tables, statistics), UndoLog()
    return SplitEngine(plan, SplitState(plan, own), sources, own)


def stages(subject: Subject) -> Stages:
    """sql -> algebra -> join -> parts, and the triggers over the sums."""
    from viewlet.adaptive.split_state import show_split
    from viewlet.triggers.show_program import show_algebra, show_triggers

    declared, plan = subject.declared, subject.plan
    found: Mapping[str, Callable[[], Any]] = {
        "sql": lambda: declared.sql,
        "algebra": lambda: show_algebra(declared.query),
        "join": lambda: show_split(plan.query),
        "parts": lambda: "none: the query is not declared as a view",
        "triggers": lambda: show_triggers(plan.result),
        "engine": lambda: subject.engine,
    }
    return found


SPLIT_VIEWS = ViewKind(
    noun="an adaptive view over four tables",
    accepts=lambda definition: isinstance(definition, SplitQuery),
    plan=plan_split,
    reference=reference_engine,
    stages=stages,
    summary=("sql", "join", "engine"),
)
