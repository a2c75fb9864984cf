"""Independent sums are computed apart (the generalised distributive law, thesis, section 3.3.2).

    Sum[](M[v] * {v > x} * N[w] * {w > x})  ->  Sum[x](M[v] * {v > x}) * Sum[x](N[w] * {w > x})

Two scans instead of their product. What the change or the context binds does not connect factors.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.expand import Monomial
from viewlet.algebra.nodes import Cond, Delta, Exists, Expr, Lift, Sum, Value, Var, mul
from viewlet.algebra.scope import NONE, Vars, free_variables, inputs, outputs
from viewlet.algebra.traverse import is_stored
from viewlet.triggers.hypergraph import components


def distribute(monomial: Monomial, keys: Sequence[Var], given: Vars = NONE) -> Monomial:
    """The same sum over `keys`, with independent groups of factors summed by themselves."""
    first, rest, bound = _bound_first(monomial.factors, given)
    groups = [[rest[i] for i in group] for group in components([free_variables(factor) - bound for factor in rest])]
    if len(groups) < 2:
        return monomial
    return Monomial(monomial.coefficient, (*first, *(_summed(group, bound, frozenset(keys)) for group in groups)))


def _bound_first(factors: Sequence[Expr], given: Vars) -> tuple[list[Expr], list[Expr], Vars]:
    """The factors that need nothing stored to be enumerated, the others, and what the first bind."""
    first = [factor for factor in factors if _is_change(factor, given)]
    rest = [factor for factor in factors if not _is_change(factor, given)]
    bound = given.union(*(outputs(factor) for factor in first))
    while ready := [factor for factor in rest if _is_single(factor) and inputs(factor) <= bound]:
        first += ready
        placed = set(ready)
        rest = [factor for factor in rest if factor not in placed]
        bound = bound.union(*(outputs(factor) for factor in ready))
    return first, rest, bound


def _is_change(factor: Expr, given: Vars) -> bool:
    """A change or its domain. An Exists that needs what its neighbours bind comes after them, so it is neither."""
    if isinstance(factor, Exists):
        return not is_stored(factor) and inputs(factor) <= given
    return isinstance(factor, Delta)


def _is_single(factor: Expr) -> bool:
    """It has one binding at most once its inputs are known."""
    return isinstance(factor, Lift | Cond | Value)


def _summed(group: list[Expr], bound: Vars, keys: Vars) -> Expr:
    product = mul(*group)
    shown = outputs(product) & (bound | keys)
    if shown == outputs(product):
        return product
    return Sum(tuple(sorted(shown, key=lambda var: var.name)), product)
