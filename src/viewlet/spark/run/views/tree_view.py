"""COFACTOR and FACTORIZED views whose trees a cluster runs, as engines (`engine/contract.py`): read like local ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viewlet.algebra.query import Query
from viewlet.algebra.ring_query import FactorisedPayload
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.units.tree_unit import TreeUnit, deletes_are_checked
from viewlet.spark.run.units.unit import unit_stats
from viewlet.spark.run.units.unit_result import ResultKey
from viewlet.spark.run.views.scan import ViewScan
from viewlet.spark.run.views.spread_tree import SpreadTree
from viewlet.viewtree.show_plan import draw_plan, show_plan
from viewlet.viewtree.tree_engine import CofactorEngine, FactorisedEngine, TreeEngine

IN_FILES = "every partition has its own tree on generated code, in files that the processes of its machine share"
IN_PROCESSES = "every partition has its own tree on dictionaries, in the process of a worker"


class SpreadView(TreeEngine):
    """What `stats` and `explain` tell of a tree on a cluster."""

    unit: TreeUnit

    def stats(self) -> dict[str, object]:
        return unit_stats(self.unit)

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        """The tree that every partition has, and by what rows are sent to partitions."""
        plan = self.plan
        if format == "svg":
            return dict.fromkeys(("spark", "view-tree"), lambda: draw_plan(plan, plan.stored))
        return {
            **super().stages(format),
            "spark": self._show_split,
            "view-tree": lambda: f"view tree {self.unit.split}\n{show_plan(plan, plan.stored)}",
        }

    def _show_split(self) -> str:
        split, locations = self.unit.split, self.unit.locations
        lines = [f"{relation.name}: {locations[relation.name]}" for relation in self.plan.query.relations]
        last = "a batch: rows are split where they are, then one stage of all partitions"
        return "\n".join([f"view tree {split}", *lines, last])


class SpreadCofactor(SpreadView, CofactorEngine):
    def __init__(self, unit: TreeUnit, tree: SpreadTree) -> None:
        self.unit = unit
        CofactorEngine.__init__(self, unit.plan, tree)


class SpreadRows(SpreadView, FactorisedEngine):
    """Its rows are listed by tasks where Spark reads them, and at the driver where the driver does."""

    def __init__(self, cluster: Engine, unit: TreeUnit, tree: SpreadTree) -> None:
        self.unit, self._cluster = unit, cluster
        FactorisedEngine.__init__(self, unit.plan, tree)

    def scan(self, query: Query) -> ViewScan | None:
        """How tasks list the rows of the query."""
        key = ResultKey(self.unit.name)
        context = self._cluster.scan(key)
        return None if context is None else ViewScan(context, key, query, self._adds_up)

    @property
    def _adds_up(self) -> bool:
        """Partitions may have a row less than zero times that others have too."""
        is_apart = set(self.unit.split.by) <= set(self._variables)
        return not is_apart and not deletes_are_checked(self.plan, self.unit.sources)

    def keep_changes(self, name: str, query: Query) -> bool:
        """Nobody knows the changes of rows that are not written out."""
        return False


def tree_view(cluster: Engine, unit: TreeUnit) -> SpreadView:
    """What reads a tree of the cluster."""
    source = IN_FILES if unit.generated else IN_PROCESSES
    if isinstance(unit.plan.query.payload, FactorisedPayload):
        return SpreadRows(cluster, unit, SpreadTree(cluster, unit.name, None, source))
    return SpreadCofactor(unit, SpreadTree(cluster, unit.name, unit.plan.ring, source))
