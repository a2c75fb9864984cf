"""What a change that is a product of factors does to a view tree, without multiplying it out.

    δR(A, B) = f(A) ⊗ g(B)       δV@B[A] = f(A) ⊗ (⊕B g(B) ⊗ S(B))       two parts: one over A, one over nothing

The change of a view is a product of *parts* over disjoint variables. Parts of the change below that meet in a sibling
become one; a variable is summed away in the part that has it. Parts are multiplied out where a view has to be stored,
and nowhere else (section 5 of the paper; `viewtree.product_propagation` does the same on dictionaries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewlet.codegen.rings.plan import Groupings, Propagation, Variant, Variants
from viewlet.triggers.hypergraph import components
from viewlet.viewtree.ring_join import plan_join
from viewlet.viewtree.ring_tree import Keys, Node, View, ViewTree

Shape = tuple[Keys, ...]
"""The variables of each factor."""


@dataclass(frozen=True, slots=True)
class PartPropagation:
    """How parts become one of the view above: `propagation` starts from every combination of their rows."""

    parts: tuple[Variant, ...]
    propagation: Propagation


@dataclass(frozen=True, slots=True)
class Expansion:
    """A stored view changes by the product of some parts."""

    view: Variant
    parts: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class ProductPlan:
    leaf: str
    factors: tuple[Variant, ...]
    steps: tuple[PartPropagation | Expansion, ...]


def plan_product(
    tree: ViewTree, groupings: Groupings, leaf: str, shape: Shape, changing: Sequence[Variant]
) -> ProductPlan:
    """`changing` are the variants that a change of the leaf is added to."""
    return _Planner(tree, Variants(tree, groupings), leaf, shape).plan(changing)


class _Planner:
    def __init__(self, tree: ViewTree, variants: Variants, leaf: str, shape: Shape) -> None:
        self._tree, self._variants, self._leaf = tree, variants, leaf
        self._factors = tuple(Variant(f"{leaf}/{i}", keys, (), ()) for i, keys in enumerate(shape))
        self._steps: list[PartPropagation | Expansion] = []
        self._known: dict[Variant, tuple[Variant, ...]] = {}
        self._made: set[Variant] = set()

    def plan(self, changing: Sequence[Variant]) -> ProductPlan:
        below: Node = self._tree.nodes[self._leaf]
        for view in self._tree.path(self._leaf):
            for group_by in self._variants.groupings(view):
                self._parts_of(view, below, group_by)
            below = view
        for variant in changing:
            parts = self._factors if variant.node == self._leaf else self._known[variant]
            self._steps.append(Expansion(variant, parts))
        return ProductPlan(self._leaf, self._factors, tuple(self._steps))

    def _parts_of(self, view: View, below: Node, group_by: Keys) -> None:
        own = self._variants.variant(view, group_by)
        parts = self._factors if below.name == self._leaf else self._known[self._variants.variant(below, group_by)]
        siblings = [self._variants.variant(child, group_by) for child in view.children if child.name != below.name]
        found: list[Variant] = []
        for number, (mine, met) in enumerate(_groups(parts, siblings)):
            has_bound = any(name in view.bound for part in mine for name in part.keys)
            if len(mine) == 1 and not met and not has_bound:
                found.append(mine[0])
            else:
                found.append(self._joined(view, own, f"{view.name}/{number}", mine, met))
        self._known[own] = tuple(found)

    def _joined(
        self, view: View, own: Variant, name: str, parts: tuple[Variant, ...], siblings: tuple[Variant, ...]
    ) -> Variant:
        together = tuple(key for part in parts for key in part.keys)
        inside = {*together, *(key for sibling in siblings for key in sibling.keys)}
        keys = tuple(key for key in own.keys if key in inside)
        lifted = tuple(key for key in view.bound if key in inside and key not in own.group_by)
        below = tuple(key for factor in (*parts, *siblings) for key in factor.summed)
        target = Variant(name, keys, tuple(key for key in own.group_by if key in inside), lifted + below)
        start = Variant(name, together, (), ())
        if target not in self._made:  # variants that differ in what another part keeps share this one
            self._made.add(target)
            plan = plan_join([together, *(sibling.keys for sibling in siblings)], 0, lifted, keys)
            self._steps.append(PartPropagation(parts, Propagation(target, (start, *siblings), 0, lifted, plan)))
        return target


def _groups(
    parts: Sequence[Variant], siblings: Sequence[Variant]
) -> list[tuple[tuple[Variant, ...], tuple[Variant, ...]]]:
    """Groups of connected parts and siblings; siblings that share no variable with a part join the first group."""
    members = [*parts, *siblings]
    found: list[tuple[tuple[Variant, ...], tuple[Variant, ...]]] = []
    alone: list[Variant] = []
    for group in components([frozenset(member.keys) for member in members]):
        mine = tuple(members[i] for i in sorted(group) if i < len(parts))
        met = tuple(members[i] for i in sorted(group) if i >= len(parts))
        if mine:
            found.append((mine, met))
        else:
            alone += met
    (first, met), *rest = found
    return [(first, (*met, *alone)), *rest]
