"""The propagation of a factorised change through one view (OPTIMIZE in Figure 4 of the paper).

    ⊕C  δS_A[A] ⊗ δS_C[C] ⊗ V@D[C]  =  δS_A[A] ⊗ (⊕C δS_C[C] ⊗ V@D[C])

Factors and views that share no variable are independent. Each connected group of them is joined and summed separately,
and the groups remain a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from viewlet.rings.ring import Lift, Ring, product
from viewlet.triggers.hypergraph import components
from viewlet.viewtree.product_update import Factor, ProductUpdate
from viewlet.viewtree.ring_join import Meter, plan_join, run_join
from viewlet.viewtree.ring_relation import RingRelation
from viewlet.viewtree.ring_tree import View

T = TypeVar("T")
LiftOf = Callable[[tuple[str, ...]], Lift[T] | None]


def pass_view(
    view: View,
    update: ProductUpdate[T],
    siblings: Sequence[RingRelation[T]],
    ring: Ring[T],
    lift_of: LiftOf[T],
    meter: Meter,
) -> ProductUpdate[T] | None:
    """The change of a view whose child changes by a product and whose other children are `siblings`; None if empty."""
    schemas = [factor.schema for factor in update.factors] + [relation.schema for relation in siblings]
    edges = [frozenset(schema) for schema in schemas]
    if getattr(ring, "joint", False):  # variables lifted together have to stay together
        lifted = frozenset(view.bound)
        edges = [edge | lifted if edge & lifted else edge for edge in edges]
    found: list[Factor[T]] = []
    for group in components(edges):
        factor = _joined(view, group, update, siblings, ring, lift_of, meter)
        if not factor.entries:
            return None
        found.append(factor)
    scalars = [factor.entries[()] for factor in found if not factor.schema]
    rest = [factor for factor in found if factor.schema]
    scalar = product(ring, scalars)
    if ring.is_zero(scalar):
        return None
    return ProductUpdate((*rest, *([Factor((), {(): scalar})] if scalars else [])))


def _joined(
    view: View,
    group: Sequence[int],
    update: ProductUpdate[T],
    siblings: Sequence[RingRelation[T]],
    ring: Ring[T],
    lift_of: LiftOf[T],
    meter: Meter,
) -> Factor[T]:
    """One group as a factor over the variables that remain of it."""
    own = [update.factors[i] for i in group if i < len(update.factors)]
    if len(group) == 1 and own and not set(own[0].schema) & set(view.bound):
        return own[0]
    relations = [RingRelation(factor.schema, ring, factor.entries) for factor in own]
    relations += [siblings[i - len(update.factors)] for i in group if i >= len(update.factors)]
    schemas = [relation.schema for relation in relations]
    inside = {name for schema in schemas for name in schema}
    keys = tuple(name for name in view.keys if name in inside)
    driver = min(range(len(relations)), key=lambda i: len(relations[i]))
    plan = plan_join(schemas, driver, view.bound, keys)
    rows = relations[driver].entries.items()
    return Factor(keys, run_join(plan, rows, relations, ring, lift_of(plan.lift_of), meter))
