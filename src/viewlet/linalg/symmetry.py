"""Which views are symmetric whatever the inputs are: X'X, its inverse, sums and congruences of those."""

from __future__ import annotations

from functools import reduce

from viewlet.linalg.associate import factors
from viewlet.linalg.expression import (
    Expression,
    Inverse,
    Matrix,
    Product,
    Recurrence,
    Transpose,
    children,
    postorder,
    product,
    rebuild,
    transpose,
)
from viewlet.linalg.program import Statements

LONGEST = 64
"""The most factors of a product that is looked through."""


def symmetric_views(source: Statements) -> frozenset[Matrix]:
    """The views whose statement is equal to its transpose, given that earlier symmetric views are."""
    found: set[Matrix] = {each for each in source.inputs if each.definite}
    products: dict[Expression, Expression] = {}
    for statement in source.views:
        body = statement.body
        inner = body.body if isinstance(body, Inverse) else body.operands[0] if isinstance(body, Recurrence) else body
        plain = _plain(inner, found, products)
        if _plain(transpose(inner), found, products) is plain:
            found.add(statement.target)
        elif inner is body and isinstance(plain, Product) and len(factors(plain)) <= LONGEST:
            products[statement.target] = plain
    return frozenset(found) - source.factored - set(source.inputs)


def _plain(node: Expression, symmetric: set[Matrix], products: dict[Expression, Expression]) -> Expression:
    """The expression without transposes of symmetric matrices, with products of views written out, in one order."""
    done: dict[Expression, Expression] = {}
    for part in postorder([node]):
        if isinstance(part, Transpose) and part.body in symmetric:
            done[part] = part.body
        elif part in products:
            done[part] = products[part]
        elif isinstance(part, Transpose) and part.body in products:
            done[part] = _plain(transpose(products[part.body]), symmetric, {})
        elif isinstance(part, Product):
            flat = [each for factor in factors(part) for each in factors(done[factor])]
            done[part] = reduce(product, flat)
        else:
            done[part] = rebuild(part, tuple(done[child] for child in children(part)))
    return done[node]
