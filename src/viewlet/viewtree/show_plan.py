"""The text of `explain` for a view tree over a ring: its order, its views, and the path of each change."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from viewlet.algebra.printer import show_scalar
from viewlet.algebra.ring_query import CofactorPayload, JoinedRelation
from viewlet.triggers.pictures import Box, draw_boxes, write_boxes
from viewlet.viewtree.delta_tree import delta_tree
from viewlet.viewtree.order_text import write_order
from viewlet.viewtree.ring_plan import RingPlan
from viewlet.viewtree.ring_tree import IndicatorLeaf, Node, RelationLeaf, View, walk


def show_plan(plan: RingPlan, stored: Collection[str]) -> str:
    """The plan as text; a star marks what is stored."""
    head = [f"variable order {write_order(plan.tree.order)} ({plan.chosen})", f"payload {plan.query.payload}"]
    changing = [relation for relation in plan.query.relations if relation.name in plan.updatable]
    paths = [line for relation in changing for line in _path(plan, relation)]
    return "\n".join([*head, "", write_boxes([_box(plan, plan.tree.root, stored)]), "", *paths])


def draw_plan(plan: RingPlan, stored: Collection[str]) -> str:
    """The plan as a picture."""
    return draw_boxes([_box(plan, plan.tree.root, stored)], f"variable order {write_order(plan.tree.order)}")


def _box(plan: RingPlan, node: Node, stored: Collection[str]) -> Box:
    changes = tuple(
        dict.fromkeys(
            leaf.relation
            for leaf in walk(node)
            if isinstance(leaf, RelationLeaf | IndicatorLeaf) and leaf.relation in plan.updatable
        )
    )
    kept = node.name in stored
    if not isinstance(node, View):
        kind = "relation" if isinstance(node, RelationLeaf) else "indicator"
        return Box(str(node), (), kept, kind, changes)
    summed = (f"⊕{','.join(node.bound)}",) if node.bound else ()
    below = tuple(_box(plan, child, stored) for child in node.children)
    return Box(str(node), (*summed, f"keeps {_kept(plan, node)}"), kept, "view", changes, below)


def _kept(plan: RingPlan, view: View) -> str:
    """What a payload has: of a cofactor, the variables that are summed away here or below."""
    payload = plan.query.payload
    if not isinstance(payload, CofactorPayload):
        own = [name for name in view.variables if name in payload.variables]
        return f"the values of {', '.join(own)}" if own else "a count"
    wanted = [*payload.continuous, *(category.name for category in payload.categorical)]
    summed = {name for node in walk(view) if isinstance(node, View) for name in node.bound}
    below = [name for name in wanted if name in summed]
    return f"sums of {', '.join(below)}" if below else "a count"


def _path(plan: RingPlan, relation: JoinedRelation) -> Iterator[str]:
    """on sales: what its changes pass, from the leaf to the root."""
    named = relation.table if relation.name == relation.table else f"{relation.table} as {relation.name}"
    conditions = " and ".join(show_scalar(condition) for condition in relation.conditions)
    yield f"on {named}:" + (f" rows where {conditions}" if conditions else "")
    for delta in delta_tree(plan.tree, relation.name):
        yield f"    {delta}"
    for leaf in plan.tree.indicators:
        if leaf.relation == relation.name:
            for delta in delta_tree(plan.tree, leaf.name):
                yield f"    {delta}"
