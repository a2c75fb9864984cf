"""A unit that is a view tree over a ring, for COFACTOR and FACTORIZED views: every partition keeps a whole tree.

    rows of tables ──► rows of relations, where the changes are ──► partitions (or all of them) ──► trees

Every batch has one stage at the workers, whatever it changes. The views of a tree on generated code are arrays in
mapped files, like those of trigger programs; those of one on dictionaries are in the worker processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Var
from viewlet.errors import UnsupportedError
from viewlet.spark.plan.locations import ViewLocation
from viewlet.spark.plan.result_location import ResultLocation
from viewlet.spark.plan.tree_split import TreeSplit
from viewlet.spark.run.units.node import SharedNode
from viewlet.spark.run.units.one_stage import OneStageCode, change_name, one_stage_plans
from viewlet.spark.run.units.plan_code import Departure, Place, PlanCode
from viewlet.spark.run.units.table_unit import Check
from viewlet.spark.run.units.tree_node import TreeNode
from viewlet.spark.run.units.unit import digest_of
from viewlet.triggers.program import ViewDefinition
from viewlet.types import SqlType, Table, TableKind
from viewlet.viewtree.ring_plan import RingPlan

if TYPE_CHECKING:
    from viewlet.codegen.rings.generated_tree import GeneratedTree
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.runtime.memory import Memories


@dataclass(frozen=True, kw_only=True)
class TreeCode(OneStageCode):
    """The code of a view tree, as sent to workers; `stores` has the tree's own names of the views in `views`."""

    tree: RingPlan
    stores: Mapping[str, str]
    is_generated: bool

    def evaluated(self, views: Mapping[str, ViewDefinition]) -> TreeNode:
        if not self.is_generated:
            return TreeNode(self.tree, self.stores, self._never_negative)
        from viewlet.spark.run.units.flat_tree_node import FlatTreeNode

        return FlatTreeNode(self.tree, self.stores, self._never_negative)

    @property
    def _never_negative(self) -> bool:
        return deletes_are_checked(self.tree, self.tables)

    @property
    def is_mapped(self) -> bool:
        return self.is_generated

    def mapped(self, dictionary: StringDictionary, memory: Memories) -> SharedNode:
        from viewlet.spark.run.units.flat_tree_node import FlatTreeNode

        node = FlatTreeNode(self.tree, self.stores, self._never_negative, dictionary, memory)
        node.attach()
        return node

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_restricted": {}, "tree": replace(self.tree)}  # without what it has compiled


@dataclass(frozen=True)
class TreeUnit:
    """A view tree and how it is split; `generated` is the form of its state, which never changes."""

    name: str
    plan: RingPlan
    split: TreeSplit
    sources: Mapping[str, Table]
    generated: bool
    reading = ResultLocation.PARTITIONS
    checks: tuple[Check, ...] = ()
    stored: tuple[ViewDefinition, ...] = ()
    may_generate = False
    is_loadable = False
    is_movable = False
    strategy = None

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset(relation.table for relation in self.plan.query.relations)

    @property
    def facts(self) -> Mapping[str, object]:
        return {"generated": self.generated}

    @property
    def locations(self) -> Mapping[str, ViewLocation]:
        """Where the rows of the relations go."""
        return self.split.locations()

    @cached_property
    def digest(self) -> str:
        return digest_of((self.plan.digest, self.split.by, self.generated))

    @cached_property
    def plans(self) -> dict[str, PlanCode]:
        tables = sorted(self.tables)
        return one_stage_plans({table: [self._departure(name) for name in self._relations(table)] for table in tables})

    def _relations(self, table: str) -> list[str]:
        return [relation.name for relation in self.plan.query.relations if relation.table == table]

    def _departure(self, relation: str) -> Departure:
        (found,) = (each for each in self.plan.query.relations if each.name == relation)
        positions = self.split.positions(found)
        name = change_name(relation)
        return Departure(name, name, Place.EVERYWHERE if positions is None else positions)

    def code(self, generated: bool) -> TreeCode:
        """The form of the state does not change with what other units do."""
        tree = _generated(self.plan) if self.generated else None
        keys = reference_stores(self.plan) if tree is None else generated_stores(self.plan, tree)
        stores = {f"{self.name}/{store}": store for store in keys}
        views = {name: ViewDefinition(name, keys[store], ()) for name, store in stores.items()}
        return TreeCode(
            self.name,
            digest_of((self.digest, self.name, None if tree is None else tree.source)),
            views,
            {},
            self.sources,
            self.plans,
            tree=self.plan,
            stores=stores,
            is_generated=self.generated,
        )


def deletes_are_checked(plan: RingPlan, tables: Mapping[str, Table]) -> bool:
    """No row of the join is there less than zero times."""
    return all(tables[relation.table].kind is not TableKind.STREAM for relation in plan.query.relations)


def form_of(plan: RingPlan, wanted: bool | None) -> bool:
    """Whether a tree runs generated code: as it is `wanted`, or if it can."""
    if wanted is False:
        return False
    from viewlet.codegen.not_compilable import NotCompilable

    try:
        _generated(plan)
    except NotCompilable as error:
        if wanted is None:
            return False
        hint = f"{error}; it runs with connect(engine='interpreter') or 'auto'"
        raise UnsupportedError("the view in the compiled engine", hint, "engine") from error
    return True


def reference_stores(plan: RingPlan) -> dict[str, tuple[Var, ...]]:
    """The stored views of a tree on dictionaries, with their keys."""
    types = _types(plan)
    return {name: tuple(Var(key, types[key]) for key in plan.tree.nodes[name].keys) for name in plan.stored}


def _generated(plan: RingPlan) -> GeneratedTree:
    from viewlet.codegen.rings.generated_tree import generated_tree
    from viewlet.runtime.dictionary import StringDictionary

    return generated_tree(plan, StringDictionary())


def generated_stores(plan: RingPlan, tree: GeneratedTree) -> dict[str, tuple[Var, ...]]:
    """Those of a tree on flat arrays."""
    from viewlet.codegen.rings.portable import store_keys

    types = _types(plan)
    keys = store_keys(tree.compiled)
    return {store: tuple(Var(key, types[key]) for key in names) for store, names in keys.items()}


def _types(plan: RingPlan) -> dict[str, SqlType]:
    return {each.name: each.scalar.type for relation in plan.query.relations for each in relation.variables}
