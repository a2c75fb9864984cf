"""Which inverses are those of symmetric positive definite matrices, and are kept as Cholesky factors.

    positive semidefinite:  E'E, E'P E, P + Q, c P with c > 0; and I, P⁻¹ and declared inputs, which are definite

An inverse that exists of a semidefinite matrix is that of a definite one. Where the inverse itself is an output, or is
read other than by products, it is a view beside the factor: W := F follows by Woodbury's formula, with products by F.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewlet.linalg.associate import factors
from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    Product,
    Scale,
    Sum,
    Transpose,
    children,
    matrix,
    postorder,
    shape,
    transpose,
)
from viewlet.linalg.program import Statement, Statements, Supply


def with_factors(source: Statements) -> Statements:
    """The statements, with factors in place of the inverses of positive definite matrices."""
    inverses = {
        statement.target
        for statement in source.views
        if isinstance(statement.body, Inverse) and statement.body.body in _semidefinite(source)
    }
    taken = {each.name for each in source.inputs} | {one.target.name for one in source.views} | set(source.outputs)
    fresh, whole = Supply(taken), _read_whole(source)
    views: list[Statement] = []
    kept: set[Matrix] = set()
    for statement in source.views:
        target = statement.target
        if target in inverses and target in whole:
            target = matrix(fresh("F"), *shape(target))
            views.append(Statement(target, statement.body))
            views.append(Statement(statement.target, target))
        else:
            views.append(statement)
        if statement.target in inverses:
            kept.add(target)
    return replace(source, views=tuple(views), factored=frozenset(kept))


def _read_whole(source: Statements) -> set[Expression]:
    """Views that are outputs, or operands of something else than a product."""
    found: set[Expression] = set(source.outputs.values())
    for statement in source.views:
        found.add(statement.body)
        for node in postorder([statement.body]):
            if not isinstance(node, Product | Transpose):
                found |= {child.body if isinstance(child, Transpose) else child for child in children(node)}
    return found


def _semidefinite(source: Statements) -> set[Expression]:
    """The matrices that are positive semidefinite whatever the inputs are."""
    found: set[Expression] = {each for each in source.inputs if each.definite}
    bodies: dict[Expression, Expression] = {statement.target: statement.body for statement in source.views}
    for statement in source.views:
        if _is_semidefinite(statement.body, found, bodies):
            found.add(statement.target)
    return found


def _is_semidefinite(node: Expression, known: set[Expression], bodies: Mapping[Expression, Expression]) -> bool:
    match node:
        case Matrix() | Inverse():
            inner = node.body if isinstance(node, Inverse) else node
            return inner in known
        case Identity():
            return True
        case Scale():
            return node.factor > 0 and _is_semidefinite(node.body, known, bodies)
        case Sum():
            return all(_is_semidefinite(term, known, bodies) for term in node.terms)
        case Product():
            return _is_congruence(_written_out(node, bodies), known)
        case _:
            return False


def _written_out(node: Product, bodies: Mapping[Expression, Expression]) -> list[Expression]:
    """The factors of a product, with those of views that are products."""
    found: list[Expression] = []
    for part in factors(node):
        bare = part.body if isinstance(part, Transpose) else part
        body = bodies.get(bare)
        if isinstance(body, Product):
            inner = _written_out(body, bodies)
            found += inner if bare is part else [transpose(each) for each in reversed(inner)]
        else:
            found.append(part)
    return found


def _is_congruence(parts: list[Expression], known: set[Expression]) -> bool:
    """Whether it is E'E or E'P E: the factors from the right are the transposes of those from the left."""
    half = len(parts) // 2
    mirrored = all(
        parts[-1 - i] is transpose(parts[i]) or (parts[i] is parts[-1 - i] and parts[i] in known) for i in range(half)
    )
    return mirrored and (len(parts) % 2 == 0 or parts[half] in known)
