"""Splitting and joining products: the factors that belong together when a part of a product is moved."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.nodes import Add, Delta, Exists, Expr, Mul, Rel, Sum, View, add, mul, summands
from viewlet.algebra.scope import NONE, Vars, free_variables, inputs, outputs
from viewlet.algebra.substitute import freshen
from viewlet.algebra.traverse import Names, all_variables


def flattened(expr: Mul) -> Expr | None:
    """a * Sum[x](b) = Sum[...](a * b): the join keys inside a Sum become places where the product may be computed."""
    if not any(isinstance(factor, Sum) for factor in expr.factors):
        return None
    names = Names(var.name for var in all_variables(expr))
    factors = (freshen(f.keys, f.body, names) if isinstance(f, Sum) else f for f in expr.factors)
    return Sum(tuple(sorted(outputs(expr), key=lambda var: var.name)), mul(*factors))


def distributed(expr: Mul) -> Expr | None:
    """a * (b + c) = a * b + a * c: each term may be computed in a place of its own."""
    unions = [i for i, factor in enumerate(expr.factors) if isinstance(factor, Add)]
    if len(unions) != 1:
        return None
    (i,) = unions
    union, before, after = expr.factors[i], expr.factors[:i], expr.factors[i + 1 :]
    return add(*(mul(*before, term, *after) for term in summands(union)))


def absorb(group: Sequence[Expr], scalars: Sequence[Expr]) -> list[Expr]:
    """The scalars that need no columns but those of the group."""
    bound = NONE.union(*(outputs(factor) for factor in group))
    asked = NONE.union(*(free_variables(factor) for factor in group))
    found, remaining = list[Expr](), list(scalars)
    while ready := [s for s in remaining if inputs(s) <= bound and (inputs(s) or not asked.isdisjoint(outputs(s)))]:
        found += ready
        bound = bound.union(*(outputs(scalar) for scalar in ready))
        remaining = [scalar for scalar in remaining if scalar not in ready]
    return found


def connected(factors: Sequence[Expr]) -> list[list[Expr]]:
    """Factors in groups that share no variables."""
    groups: list[tuple[Vars, list[Expr]]] = []
    for factor in factors:
        variables, members = free_variables(factor), [factor]
        apart = []
        for other in groups:
            if other[0].isdisjoint(variables):
                apart.append(other)
            else:
                variables, members = variables | other[0], other[1] + members
        groups = [*apart, (variables, members)]
    return [members for _, members in groups]


def project(expr: Expr, needed: Vars) -> Expr:
    """The expression summed down to the columns its surroundings use."""
    visible = outputs(expr)
    if visible <= needed and isinstance(expr, Sum | Rel | Delta | View | Exists):
        return expr
    keys = tuple(sorted(visible & needed, key=lambda var: var.name))
    if isinstance(expr, Sum):
        return Sum(keys, expr.body)
    return Sum(keys, expr)
