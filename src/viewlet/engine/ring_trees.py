"""COFACTOR and FACTORIZED views: kept by view trees over payload rings, on dictionaries or on generated code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.ring_query import CofactorPayload, FactorisedPayload, RingQuery
from viewlet.engine.contract import Engine, LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import CompiledForm, DistributedForm, Hints, Step, Subject, Tables, ViewKind
from viewlet.errors import UnsupportedError
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import UNKNOWN, Size, Statistics
from viewlet.triggers.store import UndoLog
from viewlet.view import CofactorView, FactorisedView

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.spark.run.engine import Engine as Cluster
    from viewlet.spark.run.units.tree_unit import TreeUnit
    from viewlet.viewtree.ring_plan import RingPlan

NOT_GENERATED = "no code is generated for it: it runs on the interpreter"


def plan_tree(declared: Declaration, tables: Tables, statistics: Statistics) -> RingPlan:
    """The view tree of a view over a ring."""
    from viewlet.viewtree.ring_plan import plan_ring

    query = declared.definition
    assert isinstance(query, RingQuery)
    return plan_ring(query, statistics, [name for name, table in tables.items() if not table.is_dynamic])


def reference_engine(
    declared: Declaration, sources: Sources, statistics: Statistics, log: UndoLog, movable: bool
) -> LocalEngine:
    """A tree on dictionaries."""
    from viewlet.viewtree.tree_engine import tree_engine
    from viewlet.viewtree.tree_state import reference_tree

    plan = plan_tree(declared, sources.tables, statistics)
    return tree_engine(plan, reference_tree(plan, log), sources)


@dataclass(frozen=True, slots=True)
class TreeDraft:
    """A view tree that is planned when it is built."""

    declared: Declaration
    tables: Tables
    statistics: Statistics
    obstacle = None
    is_cached = False

    def build(self, sources: Sources, dictionary: StringDictionary, step: Step, reads: bool) -> LocalEngine:
        from viewlet.codegen.not_compilable import NotCompilable
        from viewlet.codegen.rings.generated_tree import generated_tree
        from viewlet.viewtree.tree_engine import tree_engine

        plan = plan_tree(self.declared, self.tables, self.statistics)
        try:
            tree = generated_tree(plan, dictionary)
        except NotCompilable as error:
            hint = f"{error}; it runs with connect(engine='interpreter') or 'auto'"
            raise UnsupportedError(f"view {self.declared.name!r} in the compiled engine", hint, "engine") from error
        tree.compiled.warm_up(step)
        return tree_engine(plan, tree, sources)


def stages(subject: Subject) -> Stages:
    """sql -> algebra -> view-tree -> code."""
    from viewlet.algebra.printer import show_block
    from viewlet.viewtree.show_plan import draw_plan, show_plan

    declared, plan = subject.declared, subject.plan
    show = draw_plan if subject.format == "svg" else show_plan
    found: dict[str, Callable[[], str]] = {
        "sql": lambda: declared.sql,
        "algebra": lambda: f"{show_block(declared.query.expr)}\n{plan.query.payload}",
        "view-tree": lambda: show(plan, plan.stored),
        "code": lambda: NOT_GENERATED,
        "engine": lambda: subject.engine,
    }
    return found


_COMPILED = CompiledForm(
    TreeDraft,
    obstacle=lambda tables: None,  # a tree says itself when it cannot be compiled
    stays=lambda plan, watched: None,
    migrate=lambda reference, compiled: compiled.tree_state.take_over(reference.tree_state.payloads()),
)


def unit_on_spark(
    cluster: Cluster, declared: Declaration, tables: Tables, hints: Hints, facts: Mapping[str, Any]
) -> TreeUnit:
    """A view tree and how it is split; it continues in the form that it has, if it has one."""
    from viewlet.spark.plan.tree_split import split_tree
    from viewlet.viewtree.ring_plan import plan_ring

    query = declared.definition
    assert isinstance(query, RingQuery)
    plan = plan_ring(query, Statistics({name: Size(count, ()) for name, count in hints.rows.items()}))
    wanted = {
        name: [tables[name].column_names.index(column) for column in columns]
        for name, columns in hints.partition_by.items()
        if name in tables
    }
    columns = declared.partition_by or hints.partition_by.get(declared.name, ())
    split = split_tree(query, declared.query, hints.rows, columns, wanted)
    return cluster.tree_unit(declared.name, plan, split, tables, facts.get("generated"))


def engine_on_spark(cluster: Cluster, unit: TreeUnit, declared: Declaration) -> Engine:
    from viewlet.spark.run.views.tree_view import tree_view

    return tree_view(cluster, unit)


def reason_on_spark(cluster: Cluster, unit: TreeUnit) -> str:
    return f"{cluster.partitions} partitions, {unit.split}"


_DISTRIBUTED = DistributedForm(
    lambda declared, tables: plan_tree(declared, tables, UNKNOWN), unit_on_spark, engine_on_spark, reason_on_spark
)

COFACTOR_VIEWS = ViewKind(
    noun="a COFACTOR view",
    accepts=lambda definition: isinstance(definition, RingQuery) and isinstance(definition.payload, CofactorPayload),
    plan=plan_tree,
    reference=reference_engine,
    compiled=_COMPILED,
    distributed=_DISTRIBUTED,
    stages=stages,
    summary=("sql", "view-tree", "engine"),
    handle=CofactorView,
    feeds_views=False,
)
FACTORISED_VIEWS = replace(
    COFACTOR_VIEWS,
    noun="a FACTORIZED view",
    accepts=lambda definition: isinstance(definition, RingQuery) and isinstance(definition.payload, FactorisedPayload),
    handle=FactorisedView,
    unfollowed="its rows are not written out, so neither are their changes; declare the join without FACTORIZED",
)
