"""Association of products by cost: (u v') u takes n² operations, u (v' u) takes 2n.

Chains of products are put in the cheapest order by dynamic programming over their sizes.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.linalg.expression import (
    Expression,
    Product,
    children,
    postorder,
    product,
    rebuild,
    shape,
)

Sizes = Mapping[str, int]
"""The value of every dimension."""


LONGEST = 12
"""The most factors whose orders are compared; longer chains stay as they are."""


def associate(node: Expression, sizes: Sizes) -> Expression:
    """The same expression with every chain of products in the cheapest order."""
    return associate_all([node], sizes)[0]


def associate_all(nodes: list[Expression], sizes: Sizes) -> list[Expression]:
    """Like `associate`, for expressions that share subexpressions, which stay shared."""
    done: dict[Expression, Expression] = {}
    for part in postorder(nodes):
        if isinstance(part, Product):
            flat = factors(part)
            if len(flat) <= LONGEST:
                done[part] = _cheapest([done[factor] for factor in flat], sizes)
            else:
                done[part] = product(done[part.left], done[part.right])
        else:
            done[part] = rebuild(part, tuple(done[child] for child in children(part)))
    return [done[node] for node in nodes]


def factors(node: Expression) -> list[Expression]:
    """The factors of a product of products, in order; any other expression is its only factor."""
    found: list[Expression] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, Product):
            pending += [part.right, part.left]
        else:
            found.append(part)
    return found


def _cheapest(given: list[Expression], sizes: Sizes) -> Expression:
    flat = [part for factor in given for part in factors(factor)]
    if len(flat) == 2:
        return product(*flat)
    edges = [shape(flat[0])[0].at(sizes), *(shape(factor)[1].at(sizes) for factor in flat)]
    count = len(flat)
    cost = [[0.0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            last = first + length - 1
            cost[first][last], cut[first][last] = min(
                (
                    cost[first][middle] + cost[middle + 1][last] + edges[first] * edges[middle + 1] * edges[last + 1],
                    middle,
                )
                for middle in range(first, last)
            )

    def build(first: int, last: int) -> Expression:
        if first == last:
            return flat[first]
        middle = cut[first][last]
        return product(build(first, middle), build(middle + 1, last))

    return build(0, count - 1)
