"""Unused columns of an outer join are summed away where they arise.

    Sum[a](L(a) * (R(a, r) + (n := ...) * {n = 0} * (r := NULL)))
    = Sum[a](L(a) * (Sum[a](R(a, r)) + (n := ...) * {n = 0}))

A sum distributes over + and passes every factor that does not mention the variable. A variable of the context counts as
read: there a lift compares instead of binding.
"""

from __future__ import annotations

from viewlet.algebra.nodes import Add, Cond, Expr, Lift, Mul, Sum, Value, Var, add, factors_of, mul, sum_over
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import all_variables, rebuild

Vars = frozenset[Var]


def prune(expr: Expr, visible: Vars = frozenset()) -> Expr:
    """The same expression; `visible` are the variables bound around it."""
    match expr:
        case Sum(keys, body):
            return sum_over(keys, _product(factors_of(body), frozenset(keys), visible))
        case Mul(factors):
            return mul(*_inside(factors, visible))
        case Value() | Cond():
            return expr
        case _:
            return rebuild(expr, lambda child: prune(child, visible))


def _inside(factors: tuple[Expr, ...], visible: Vars) -> list[Expr]:
    bound = [outputs(factor) for factor in factors]
    return [prune(factor, visible.union(*bound[:i], *bound[i + 1 :])) for i, factor in enumerate(factors)]


def _product(factors: tuple[Expr, ...], keys: Vars, visible: Vars) -> Expr:
    """The factors of Sum[keys](...), each sum among them narrowed to what the others read."""
    mentioned = [frozenset(all_variables(factor)) for factor in factors]
    narrowed: list[Expr] = []
    for i, factor in enumerate(factors):
        if isinstance(factor, Add):
            read = keys.union(visible, *mentioned[:i], *mentioned[i + 1 :])
            unread = outputs(factor) - read
            if unread:
                factor = add(*(_without(term, unread) for term in factor.terms))
        narrowed.append(factor)
    return mul(*_inside(tuple(narrowed), visible | keys))


def _without(term: Expr, unread: Vars) -> Expr:
    """Sum[the rest](term): lifts of unread variables are dropped, what else binds one is summed over."""
    if isinstance(term, Sum):
        keys = tuple(key for key in term.keys if key not in unread)
        return sum_over(keys, mul(*_drop_lifts(factors_of(term.body), unread)))
    product = mul(*_drop_lifts(factors_of(term), unread))
    kept = sorted(outputs(product) - unread, key=lambda var: var.name)
    return product if not outputs(product) & unread else sum_over(tuple(kept), product)


def _drop_lifts(factors: tuple[Expr, ...], unread: Vars) -> list[Expr]:
    """Without (x := scalar) where x is unread and no other factor mentions it: such a lift is 1."""
    kept = list(factors)
    for factor in factors:
        if isinstance(factor, Lift) and isinstance(factor.body, Value) and factor.var in unread:
            others = [other for other in kept if other is not factor]
            if not any(factor.var in all_variables(other) for other in others):
                kept = others
    return kept
