"""COFACTOR and FACTORIZED views whose trees are spread over a Spark cluster: read like those in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from viewlet.algebra.ring_query import FactorisedPayload
from viewlet.changes import Change
from viewlet.connection.maintained import Declaration, Running
from viewlet.connection.tree_engine import CofactorEngine, FactorisedEngine, TreeEngine
from viewlet.errors import UnsupportedError
from viewlet.spark.plan.tree_split import TreeSplit, split_tree
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.tree_reading import SpreadTree
from viewlet.spark.run.tree_unit import TreeUnit
from viewlet.triggers.statistics import Size, Statistics
from viewlet.types import Table
from viewlet.viewtree.keepers import Keeper, KeepsRows
from viewlet.viewtree.ring_plan import RingPlan, plan_ring
from viewlet.viewtree.show_plan import draw_plan, show_plan

IN_PROCESSES = "every partition has its own tree, in the process of a worker"


@dataclass(frozen=True, slots=True)
class TreeOnSpark(Running):
    """A spread view tree."""

    split: TreeSplit | None = None

    def own_stage(self, stage: str, format: str) -> str | None:
        """The tree that every partition has, and by what rows are sent to partitions."""
        if stage not in ("spark", "view-tree") or self.split is None or self.tree is None:
            return None
        plan = self.tree.plan
        if format == "svg":
            return draw_plan(plan, plan.stored)
        lines = [f"view tree {self.split}"]
        if stage == "spark":
            homes = self.split.homes()
            lines += [f"{relation.name}: {homes[relation.name]}" for relation in plan.query.relations]
            return "\n".join([*lines, "a batch: rows are split where they are, then one stage of all partitions"])
        return "\n".join([*lines, show_plan(plan, plan.stored)])


class SpreadCofactor(CofactorEngine):
    def apply(self, table: str, change: Change) -> None:
        """The engine has run the batch: any group may have changed."""
        self._touch(None)


class SpreadRows(FactorisedEngine):
    def apply(self, table: str, change: Change) -> None:
        """The engine has run the batch."""


def plan_on_spark(
    engine: Engine,
    declared: Declaration,
    tables: Mapping[str, Table],
    rows: Mapping[str, float],
    partition_by: Mapping[str, Sequence[str]],
    generated: bool | None,
) -> TreeUnit:
    """The view tree of a view over a ring, and how it is split."""
    ring = declared.ring
    assert ring is not None
    plan = plan_ring(ring, Statistics({name: Size(count, ()) for name, count in rows.items()}))
    wanted = {
        name: [tables[name].column_names.index(column) for column in columns]
        for name, columns in partition_by.items()
        if name in tables
    }
    columns = declared.partition_by or partition_by.get(declared.name, ())
    split = split_tree(ring, declared.query, rows, columns, wanted)
    return engine.tree_unit(declared.name, declared.query, plan, split, tables, generated)


def tree_over_view(view: str) -> UnsupportedError:
    """Views have no rows of their own on Spark that a tree could be fed with."""
    hint = f"let it read the tables under {view!r}"
    return UnsupportedError(f"a COFACTOR or FACTORIZED view over view {view!r} on Spark", hint, "engine")


def tree_running(engine: Engine, unit: TreeUnit) -> Running:
    """A spread tree as a view reads it."""
    reason = f"{engine.partitions} partitions, {unit.split}"
    return TreeOnSpark(unit.program, _engine(unit.plan, _spread(engine, unit)), reason, split=unit.split)


def _spread(engine: Engine, unit: TreeUnit) -> SpreadTree:
    factorised = isinstance(unit.plan.query.payload, FactorisedPayload)
    return SpreadTree(engine, unit.name, None if factorised else unit.plan.ring, IN_PROCESSES)


def _engine(plan: RingPlan, keeper: SpreadTree) -> TreeEngine:
    if isinstance(plan.query.payload, FactorisedPayload):
        return SpreadRows(plan, cast(KeepsRows, keeper), None)
    return SpreadCofactor(plan, cast(Keeper, keeper), None)
