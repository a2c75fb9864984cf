"""Numbers of operations: a multiplication with its addition counts as one, as in the appendix of the paper.

E F  m × k by k × n: m k n        E + F, c E: m n        inv(E): n³        A += U V': m n rank
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.linalg.expression import Expression, Inverse, Product, Scale, Sum, postorder, shape
from viewlet.linalg.sizes import Size, size
from viewlet.linalg.trigger import Trigger, Update


def operations(nodes: Iterable[Expression], counted: set[Expression] | None = None) -> Size:
    """The operations of expressions; each common subexpression counts once, and not if it is in `counted` already."""
    seen = set() if counted is None else counted
    total = size(0)
    for node in postorder(nodes):
        if node not in seen:
            seen.add(node)
            total = total + own_operations(node)
    return total


def own_operations(node: Expression) -> Size:
    """The operations of one node, without those of its operands."""
    rows, columns = shape(node)
    match node:
        case Product():
            return rows * shape(node.left)[1] * columns
        case Sum():
            return rows * columns * (len(node.terms) - 1)
        case Scale():
            return rows * columns
        case Inverse():
            return rows * rows * rows
        case _:
            return size(0)


def update_operations(update: Update) -> Size:
    """The operations of one update."""
    rows, columns = shape(update.view)
    return rows * columns * update.rank


def trigger_operations(trigger: Trigger) -> Size:
    """The operations of all statements of a trigger."""
    total = operations(statement.body for statement in (*trigger.assignments, *trigger.recomputed))
    for update in trigger.updates:
        total = total + update_operations(update)
    return total
