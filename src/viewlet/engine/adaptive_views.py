"""Views over the triangles of three relations, kept by heavy/light maintenance: `WITH (strategy = 'adaptive')`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.triangle_query import SHARED, TriangleQuery
from viewlet.engine.contract import Engine, LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import CompiledForm, DistributedForm, Hints, Step, Subject, Tables, ViewKind
from viewlet.engine.trigger_programs import plan_program
from viewlet.errors import UnsupportedError
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.store import UndoLog
from viewlet.triggers.wide_numbers import wide_values
from viewlet.types import Kind
from viewlet.view import TriangleView

if TYPE_CHECKING:
    from viewlet.adaptive.plan import AdaptivePlan
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.spark.run.engine import Engine as Cluster
    from viewlet.spark.run.units.partitioned_unit import PartitionedUnit

NOT_RUNNING = "none: the query is not declared as a view"
_ENTRIES = ("run", "insert", "partition", "build_view")
"""The functions of the kernel that a view needs to start."""


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


@dataclass(frozen=True, slots=True)
class AdaptiveDraft:
    """A view whose kernel is the same for all: compiled once, and then read from the disk cache."""

    plan: AdaptivePlan

    @property
    def obstacle(self) -> str | None:
        return kernel_obstacle(self.plan)

    @property
    def is_cached(self) -> bool:
        return is_kernel_cached()

    def build(self, sources: Sources, dictionary: StringDictionary, step: Step, reads: bool) -> LocalEngine:
        from viewlet.adaptive.flat_state import FlatState
        from viewlet.engine.adaptive_engine import AdaptiveEngine

        triangles = FlatState(self.plan, sources.tables, dictionary)
        triangles.warm_up()
        return AdaptiveEngine(self.plan, triangles, sources, UndoLog())


def is_kernel_cached() -> bool:
    """Whether the kernel need not be compiled: another view has had that done, in any process of this machine."""
    from viewlet.adaptive import kernel
    from viewlet.codegen.module_cache import is_cached
    from viewlet.runtime.jit import ENABLED

    return not ENABLED or all(is_cached(kernel, name) for name in _ENTRIES)


def other_groups(plan: AdaptivePlan) -> str | None:
    """Why the kernel cannot keep the groups of a view: its groups are by whole variables."""
    if SHARED in plan.query.keys:
        return "it is grouped by a column that all three tables share"
    if plan.query.carried:
        return "it is grouped by columns that are none of the join"
    return None


def kernel_obstacle(plan: AdaptivePlan) -> str | None:
    """Why `auto` leaves a view to the reference form: sums of decimals may have 38 digits."""
    if reason := other_groups(plan):
        return reason
    for column in plan.query.table.columns[plan.query.key_columns :]:
        if column.type.kind is Kind.DECIMAL:
            return f"{column.name!r}, a {column.type}, need not fit 64 bits"
    return None


def draft_adaptive(declared: Declaration, tables: Tables, statistics: Statistics) -> AdaptiveDraft:
    plan = plan_adaptive(declared, tables, statistics)
    if reason := other_groups(plan):
        hint = f"{reason}; it runs with connect(engine='interpreter') or 'auto'"
        raise UnsupportedError(f"view {declared.name!r} in the compiled engine", hint, "engine")
    return AdaptiveDraft(plan)


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


def unit_on_spark(
    cluster: Cluster, declared: Declaration, tables: Tables, hints: Hints, facts: Mapping[str, Any]
) -> PartitionedUnit:
    from viewlet.engine.adaptive_on_spark import share_unit

    return share_unit(cluster, declared, plan_adaptive(declared, tables, UNKNOWN), tables, hints, facts)


def engine_on_spark(cluster: Cluster, unit: PartitionedUnit, declared: Declaration) -> Engine:
    from viewlet.engine.adaptive_on_spark import AdaptiveOnSpark

    return AdaptiveOnSpark(plan_adaptive(declared, unit.sources, UNKNOWN), cluster, unit)


def reason_on_spark(cluster: Cluster, unit: PartitionedUnit) -> str:
    from viewlet.engine.adaptive_on_spark import show_reason

    return show_reason(cluster, unit)


ADAPTIVE_VIEWS = ViewKind(
    noun="an adaptive view",
    accepts=lambda definition: isinstance(definition, TriangleQuery),
    plan=plan_adaptive,
    reference=reference_engine,
    compiled=CompiledForm(
        draft_adaptive,
        obstacle=lambda tables: wide_values(tables.values()),
        stays=lambda plan, watched: kernel_obstacle(plan),
        migrate=lambda reference, compiled: compiled.take_over(reference),
    ),
    distributed=DistributedForm(
        lambda declared, tables: plan_adaptive(declared, tables, UNKNOWN),
        unit_on_spark,
        engine_on_spark,
        reason_on_spark,
    ),
    stages=stages,
    summary=("sql", "triangle", "engine"),
    handle=TriangleView,
)
