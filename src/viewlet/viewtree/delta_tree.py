"""Delta trees: what a change of one relation does to the views above it (Figure 4 of the paper).

    δV@D[C] = ⊕D δT(C, D)
    δV@C[A] = ⊕C δV@D[C] ⊗ V@E[A, C]
    δV@A[] = ⊕A V@B[A] ⊗ δV@C[A]

The changed views are those on the path from the leaf to the root; at each, the change meets the other children.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.viewtree.ring_join import JoinPlan, plan_join
from viewlet.viewtree.ring_tree import View, ViewTree


@dataclass(frozen=True, slots=True)
class DeltaView:
    """The change of one view: `changed` is the child whose change causes it."""

    view: View
    changed: int

    def plan(self) -> JoinPlan:
        return plan_join([child.keys for child in self.view.children], self.changed, self.view.bound, self.view.keys)

    def __str__(self) -> str:
        factors = " ⊗ ".join(f"{'δ' if i == self.changed else ''}{child}" for i, child in enumerate(self.view.children))
        summed = f"⊕{','.join(self.view.bound)} " if self.view.bound else ""
        return f"δ{self.view} = {summed}{factors}"


def delta_tree(tree: ViewTree, leaf: str) -> tuple[DeltaView, ...]:
    """The changes that a change of a leaf causes, from the leaf to the root."""
    found, below = list[DeltaView](), leaf
    for view in tree.path(leaf):
        found.append(DeltaView(view, [child.name for child in view.children].index(below)))
        below = view.name
    return tuple(found)
