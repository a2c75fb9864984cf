"""The reference engine of view trees over rings: dictionaries of payloads, kept fresh change by change.

It is the definition of what a view tree means; `evaluate` says what the views should hold, `update` keeps them so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from typing import Generic, TypeVar

from viewlet.errors import SchemaError
from viewlet.rings.ring import CentringRing, Lift, LiftingRing, Ring, product, times
from viewlet.triggers.store import UndoLog
from viewlet.viewtree.delta_tree import DeltaView, delta_tree
from viewlet.viewtree.indicator import IndicatorCounts
from viewlet.viewtree.origins import TreeOrigins
from viewlet.viewtree.product_propagation import pass_view
from viewlet.viewtree.product_update import ProductUpdate, expand, product_update
from viewlet.viewtree.ring_join import Meter, plan_join, run_join
from viewlet.viewtree.ring_relation import RingRelation, Row, summing, without_zeros
from viewlet.viewtree.ring_tree import IndicatorLeaf, Node, View, ViewTree, changing_leaves, materialised

T = TypeVar("T")
Entries = Mapping[Row, T]


class MaintainedTree(Generic[T]):
    """A view tree with the contents of its stored views.

    `lifts` has the lifts of single variables; without it the ring's own are used, and variables that neither knows
    contribute 1. `updatable` are the stored relations that may change, all by default; `database` the contents to start
    from. More than the materialisation choice asks for is stored where `also` names it. While `log` is active, changes
    can be undone by it.
    """

    def __init__(
        self,
        tree: ViewTree,
        ring: Ring[T],
        lifts: Mapping[str, Lift[T]] | None = None,
        updatable: Set[str] | None = None,
        database: Mapping[str, Entries[T]] | None = None,
        also: Iterable[str] = (),
        log: UndoLog | None = None,
    ) -> None:
        self.tree, self.ring = tree, ring
        self._log = log
        self.updatable = tree.relations if updatable is None else frozenset(updatable)
        self.meter = Meter()
        self._lifts = lifts
        self._lift_of = cache(self._make_lift)
        self._origins = TreeOrigins(ring if lifts is None and isinstance(ring, CentringRing) else None)
        changing = changing_leaves(tree, self.updatable)
        self._deltas = {leaf: delta_tree(tree, leaf) for leaf in changing}
        self._plans = {leaf: [delta.plan() for delta in path] for leaf, path in self._deltas.items()}
        self._indicators = [leaf for leaf in tree.indicators if leaf.name in changing]
        wanted = {*materialised(tree, self.updatable), *also, *(leaf.relation for leaf in self._indicators)}
        self.stored = tuple(name for name in tree.nodes if name in wanted)
        self.load(database or {})

    def load(self, database: Mapping[str, Entries[T]]) -> None:
        """Resets the tree to the given relations; those not named are empty."""
        if unknown := [name for name in database if name not in self.tree.relations]:
            raise SchemaError(f"{unknown[0]!r} is not a relation of the join")
        self.stores: dict[str, RingRelation[T]] = {}
        self._origins.values.clear()
        for name, entries in database.items():
            for instance in self.tree.instances(name):
                self._look_at(self.tree.order.relations[instance], entries)
        self._evaluate(self.tree.root, database)
        self._count_indicators()

    def _count_indicators(self) -> None:
        self._counts: dict[str, IndicatorCounts] = {}
        for leaf in self._indicators:
            relation = self.stores[leaf.relation]
            counts = IndicatorCounts(tuple(relation.schema.index(key) for key in leaf.keys))
            counts.move((row, 1) for row in relation.entries)
            counts.log = self._log
            self._counts[leaf.name] = counts

    def restore(self, contents: Mapping[str, Entries[T]]) -> None:
        """Go on from what the stored nodes, by their names, held once."""
        self.stores = {}
        for name in self.stored:
            self.stores[name] = RingRelation(self.tree.nodes[name].keys, self.ring, contents[name], self._log)
        self._origins.continue_from(element for store in self.stores.values() for element in store.entries.values())
        self._lift_of.cache_clear()
        self._count_indicators()

    def _evaluate(self, node: Node, database: Mapping[str, Entries[T]]) -> RingRelation[T]:
        """The contents of a node, from the relations below it; kept where the node is stored."""
        found = RingRelation(node.keys, self.ring, self._contents(node, database), self._log)
        if node.name in self.stored:
            self.stores[node.name] = found
        return found

    def _contents(self, node: Node, database: Mapping[str, Entries[T]]) -> Entries[T]:
        if isinstance(node, View):
            relations = [self._evaluate(child, database) for child in node.children]
            driver = min(range(len(relations)), key=lambda i: len(relations[i]))
            plan = plan_join([child.keys for child in node.children], driver, node.bound, node.keys)
            driving = relations[driver].entries.items()
            return run_join(plan, driving, relations, self.ring, self._lift_of(plan.lift_of), Meter())
        rows = database.get(self.tree.source(node.relation), {})
        if not isinstance(node, IndicatorLeaf):
            return rows
        schema = list(self.tree.order.relations[node.relation])
        return {tuple(row[schema.index(key)] for key in node.keys): self.ring.one for row in rows}

    def apply(self, changes: Mapping[str, Iterable[tuple[Row, int]]]) -> dict[Row, T]:
        """Insert and delete rows, given with multiplicities; returns the change of the result."""
        found: dict[Row, T] = {}
        sum_into = summing(self.ring)
        for relation, rows in changes.items():
            counted: dict[Row, int] = {}
            for row, multiplicity in rows:
                counted[row] = counted.get(row, 0) + multiplicity
            delta = {row: times(self.ring, count) for row, count in counted.items() if count}
            for row, payload in self.update(relation, delta).items():
                sum_into(found, row, payload)
        return without_zeros(self.ring, found)

    def update(self, relation: str, change: Entries[T]) -> dict[Row, T]:
        """Add a change to a relation, wherever the join has it; returns the change of the result."""
        found: dict[Row, T] = {}
        for instance in self._changing(relation):
            self._look_at(self.tree.order.relations[instance], change)
            self._move_indicators(instance, self._propagate(instance, change, found), found)
        return without_zeros(self.ring, found)

    def update_products(self, relation: str, change: Sequence[ProductUpdate[T]]) -> list[ProductUpdate[T]]:
        """Add a union of products to a relation; returns the change of the result, products where they still are.

        Products are multiplied out only where a view that has to be stored keeps more than one factor of them. Of a
        relation that the join has several times, the factors name the variables of its first occurrence.
        """
        found: list[ProductUpdate[T]] = []
        instances = self._changing(relation)
        schema = tuple(self.tree.order.relations[instances[0]])
        if wrong := [update for update in change if update.variables != frozenset(schema)]:
            raise SchemaError(
                f"the factors of a change of {relation!r} have {sorted(wrong[0].variables)}, not {schema}"
            )
        for instance in instances:
            names = dict(zip(schema, self.tree.order.relations[instance], strict=True))
            renamed = [update.renamed(names) for update in change]
            for factor in (factor for update in renamed for factor in update.factors):
                self._look_at(factor.schema, factor.entries)
            moved = self._propagate_products(instance, renamed, found)
            changed: dict[Row, T] = {}
            self._move_indicators(instance, moved, changed)
            if changed := without_zeros(self.ring, changed):
                found.append(product_update((self.tree.root.keys, changed)))
        return found

    @property
    def result(self) -> RingRelation[T]:
        return self.stores[self.tree.root.name]

    @property
    def payload(self) -> T:
        """The result of a query without free variables."""
        return self.result.entries.get((), self.ring.zero)

    def _changing(self, relation: str) -> tuple[str, ...]:
        if relation not in self.updatable:
            raise SchemaError(f"relation {relation!r} is not among those that may change: {sorted(self.updatable)}")
        return self.tree.instances(relation)

    def _make_lift(self, variables: tuple[str, ...]) -> Lift[T] | None:
        if self._lifts is not None:
            single = [(i, self._lifts[name]) for i, name in enumerate(variables) if name in self._lifts]
            return (lambda values: product(self.ring, (lift(values[i]) for i, lift in single))) if single else None
        if not variables or not isinstance(self.ring, LiftingRing):
            return None
        if self._origins.ring is not None:
            return self._origins.ring.lift_about(variables, self._origins.values)
        return self.ring.lift(variables)

    def forget_origins(self) -> None:
        """Once all rows are gone, the next ones choose new origins."""
        if self._origins.values and not any(map(len, self.stores.values())):
            self._origins.values.clear()
            self._lift_of.cache_clear()

    def _look_at(self, schema: Sequence[str], rows: Iterable[Row]) -> None:
        """Before rows of some variables are lifted."""
        if self._origins.look_at(schema, rows):
            self._lift_of.cache_clear()

    def _propagate(self, leaf: str, change: Entries[T], result: dict[Row, T]) -> list[tuple[Row, int]]:
        """Carry a change from a leaf to the root: all changes first, from views as they were, then all stores."""
        changed: list[tuple[str, Entries[T]]] = [(leaf, change)]
        for delta, plan in zip(self._deltas[leaf], self._plans[leaf], strict=True):
            if not change:
                break
            siblings = self._siblings(delta)
            lift = self._lift_of(plan.lift_of)
            change = run_join(plan, change.items(), siblings, self.ring, lift, self.meter)
            changed.append((delta.view.name, change))
        return self._merge(changed, result)

    def _merge(self, changed: Iterable[tuple[str, Entries[T]]], result: dict[Row, T]) -> list[tuple[Row, int]]:
        """Add changes to the stores; returns the rows that the leaf among them gained and lost, where it is stored."""
        moved: list[tuple[Row, int]] = []
        sum_into = summing(self.ring)
        for name, change in changed:
            if name in self.stores:
                gained_and_lost = self.stores[name].merge(change)
                if name not in self.tree.parents:
                    for row, payload in change.items():
                        sum_into(result, row, payload)
                elif name in self._deltas:
                    moved = gained_and_lost
        return moved

    def _siblings(self, delta: DeltaView) -> list[RingRelation[T] | None]:
        return [None if i == delta.changed else self.stores[child.name] for i, child in enumerate(delta.view.children)]

    def _propagate_products(
        self, leaf: str, updates: Sequence[ProductUpdate[T]], result: list[ProductUpdate[T]]
    ) -> list[tuple[Row, int]]:
        changes: dict[str, list[ProductUpdate[T]]] = {leaf: list(updates)}
        for update in updates:
            for delta in self._deltas[leaf]:
                siblings = [relation for relation in self._siblings(delta) if relation is not None]
                passed = pass_view(delta.view, update, siblings, self.ring, self._lift_of, self.meter)
                if passed is None:
                    break
                changes.setdefault(delta.view.name, []).append(passed)
                update = passed
        result += changes.get(self.tree.root.name, [])
        nodes = self.tree.nodes
        expanded = (
            (name, expand(parts, nodes[name].keys, self.ring)) for name, parts in changes.items() if name in self.stores
        )
        return self._merge(expanded, {})

    def _move_indicators(self, instance: str, moved: list[tuple[Row, int]], result: dict[Row, T]) -> None:
        """After a relation, its indicators: what it gained and lost may change them too."""
        for leaf in self._indicators:
            if leaf.relation == instance:
                signs = self._counts[leaf.name].move(moved)
                self._propagate(leaf.name, {key: times(self.ring, sign) for key, sign in signs.items()}, result)
