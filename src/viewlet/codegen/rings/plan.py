"""What a view tree looks like to the code that maintains it: which rows there are, and what a change of a leaf passes.

    V@D[C] = ⊕D T(C, D)       as it is:           C    -> payload
                              that keeps D:       C, D -> payload

Besides its rows by key, a view may have others that keep some of the variables it sums over: the sums of a categorical
variable by its categories, the values of a factorised result. These *variants* are the views of the same tree with more
free variables; where what they keep is not below a view they share it, and each is one store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from viewlet.viewtree.delta_tree import delta_tree
from viewlet.viewtree.ring_join import JoinPlan, plan_join
from viewlet.viewtree.ring_tree import IndicatorLeaf, Keys, Node, View, ViewTree, changing_leaves, materialised, walk

Groupings = Callable[[View], Iterable[Keys]]
"""The variables that a view is grouped by, beyond its keys, in each of its variants; () is the view as it is."""


def ungrouped(view: View) -> Iterable[Keys]:
    """Every view has one variant, grouped by its keys alone."""
    return ((),)


@dataclass(frozen=True, slots=True)
class Variant:
    """The rows of a node grouped by some variables beyond its keys; the others bound below it are in the payload."""

    node: str
    keys: Keys
    group_by: Keys
    summed: Keys

    @property
    def name(self) -> str:
        return self.node + (f" by {','.join(self.group_by)}" if self.group_by else "")

    def __str__(self) -> str:
        return f"{self.node}[{', '.join(self.keys)}]"


@dataclass(frozen=True, slots=True)
class Propagation:
    """How the change of one child becomes the change of a view: δ target = ⊕ lifted  δ driver ⊗ the other factors."""

    target: Variant
    factors: tuple[Variant, ...]
    driver: int
    lifted: Keys
    plan: JoinPlan

    def __str__(self) -> str:
        factors = " ⊗ ".join(f"{'δ' if i == self.driver else ''}{factor}" for i, factor in enumerate(self.factors))
        summed = f"⊕{','.join(self.lifted)} " if self.lifted else ""
        return f"δ{self.target} = {summed}{factors}"


@dataclass(frozen=True, slots=True)
class Trigger:
    """What a change of one leaf does: it passes views, lowest first; `indicators` move after it."""

    leaf: str
    keys: Keys
    is_indicator: bool
    propagations: tuple[Propagation, ...]
    indicators: tuple[IndicatorLeaf, ...]


@dataclass(frozen=True)
class TreePlan:
    """All variants of a tree that are needed, those that are stored, and the triggers of the leaves that change."""

    tree: ViewTree
    stored: tuple[Variant, ...]
    triggers: Mapping[str, Trigger]
    read: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Stored variants that are read by a part of their keys."""
    groupings: Groupings = ungrouped

    @cached_property
    def results(self) -> tuple[Variant, ...]:
        return tuple(variant for variant in self.stored if variant.node == self.tree.root.name)

    @cached_property
    def slices(self) -> Mapping[str, tuple[tuple[int, ...], ...]]:
        """The parts of the keys of each stored variant that are used for lookups."""
        found: dict[str, dict[tuple[int, ...], None]] = {variant.name: {} for variant in self.stored}
        for name, part in self.read.items():
            found[name][part] = None
        for propagation in self.propagations:
            for step in propagation.plan.steps:
                if step.at and not step.complete:
                    found[propagation.factors[step.relation].name][step.at] = None
        return {name: tuple(positions) for name, positions in found.items()}

    @property
    def propagations(self) -> list[Propagation]:
        return [propagation for trigger in self.triggers.values() for propagation in trigger.propagations]


def plan_tree(
    tree: ViewTree,
    groupings: Groupings = ungrouped,
    updatable: Set[str] | None = None,
    also: Callable[[Variant], bool] = lambda variant: False,
) -> TreePlan:
    """The plan of a tree whose views have the given variants; `also` names those to store that no change asks for."""
    updatable = tree.relations if updatable is None else updatable
    changing = changing_leaves(tree, updatable)
    indicators = [leaf for leaf in tree.indicators if leaf.name in changing]
    wanted = {*materialised(tree, updatable), *(leaf.relation for leaf in indicators)}
    variants = Variants(tree, groupings)
    triggers = {leaf: _trigger(variants, leaf, indicators) for leaf in tree.nodes if leaf in changing}
    stored = tuple(
        variant
        for node in tree.nodes.values()
        for variant in variants.of(node)
        if (node.name in wanted and _is_met(variant, triggers, tree)) or also(variant)
    )
    return TreePlan(tree, stored, triggers, groupings=groupings)


def _is_met(variant: Variant, triggers: Mapping[str, Trigger], tree: ViewTree) -> bool:
    """Whether a stored node is read in this variant: as it is always, otherwise by a propagation or as the result."""
    return (
        not variant.group_by
        or variant.node == tree.root.name
        or any(
            variant == factor and i != propagation.driver
            for trigger in triggers.values()
            for propagation in trigger.propagations
            for i, factor in enumerate(propagation.factors)
        )
    )


@dataclass(frozen=True)
class Variants:
    """The variants of the nodes of a tree."""

    tree: ViewTree
    groupings: Groupings

    def of(self, node: Node) -> list[Variant]:
        return [
            self.variant(node, group_by) for group_by in (self.groupings(node) if isinstance(node, View) else ((),))
        ]

    def variant(self, node: Node, group_by: Iterable[str]) -> Variant:
        """The variant of a node grouped by those of the variables that are bound at it or below."""
        bound = bound_below(node)
        own = tuple(name for name in self.tree.order.variables if name in bound and name in group_by)
        return Variant(node.name, node.keys + own, own, tuple(name for name in bound if name not in own))

    def propagation(self, view: View, driver: int, group_by: Keys) -> Propagation:
        target = self.variant(view, group_by)
        factors = tuple(self.variant(child, group_by) for child in view.children)
        lifted = tuple(name for name in view.bound if name not in group_by)
        plan = plan_join([factor.keys for factor in factors], driver, lifted, target.keys)
        return Propagation(target, factors, driver, lifted, plan)


def _trigger(variants: Variants, leaf: str, indicators: list[IndicatorLeaf]) -> Trigger:
    tree = variants.tree
    node = tree.nodes[leaf]
    propagations = tuple(
        variants.propagation(delta.view, delta.changed, group_by)
        for delta in delta_tree(tree, leaf)
        for group_by in variants.groupings(delta.view)
    )
    moved = tuple(found for found in indicators if found.relation == leaf)
    return Trigger(leaf, node.keys, isinstance(node, IndicatorLeaf), propagations, moved)


def bound_below(node: Node) -> Keys:
    """The variables summed at a node and below it: its own first, then those of its children in order."""
    return tuple(name for found in walk(node) if isinstance(found, View) for name in found.bound)
