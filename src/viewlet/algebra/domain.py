"""Domain extraction: the keys that a change can affect (thesis, section 3.4.2, Figure 3.5).

    ΔQ = Sum[a](ΔR(a, b) * {b > 3} * S(a, c))    dom(ΔQ) = Exists(Sum[a](Exists(ΔR(a, b)) * {b > 3}))

A domain is 1 on its keys and 0 elsewhere, is computed from the change alone, and covers every key at which ΔQ is not 0.
Multiplying a difference (new - old) by it changes nothing but the cost. Where the thesis intersects the domains of a
union, we take the union of both domains over their common columns: it covers as much and binds more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from viewlet.algebra.canonical import canonical_text, rough_text
from viewlet.algebra.nodes import (
    ONE,
    Add,
    Cond,
    Delta,
    Exists,
    Expr,
    Extremum,
    Lift,
    Mul,
    Neg,
    Rel,
    Sum,
    Value,
    Var,
    View,
    add,
    is_constant,
    mul,
)
from viewlet.algebra.scope import NONE, Vars, inputs, outputs
from viewlet.algebra.substitute import substitute
from viewlet.algebra.traverse import is_stored, size


def extract_domain(change: Expr) -> Expr:
    """The domain of a delta expression; 1 where nothing bounds it."""
    match change:
        case Delta():
            return Exists(change)
        case Neg(body):
            return extract_domain(body)
        case Sum(keys, body):
            return project_domain(extract_domain(body), frozenset(keys))
        case Add(terms):
            return union_domains([extract_domain(term) for term in terms])
        case Mul(factors):
            return _domain_of_product(factors)
        case Exists(body):
            return ONE if is_stored(body) or inputs(change) else change
        case Lift(_, Value()):
            return change if not inputs(change) else ONE
        case Value() | Cond() | Rel() | View() | Lift() | Extremum():
            return ONE
        case _:
            assert_never(change)


def project_domain(domain: Expr, keys: Vars) -> Expr:
    """The domain seen through some of its columns; 1 if none is left.

    What is hidden gets a name of its own: the expression the domain came from may show the same variable beside it.
    """
    kept = outputs(domain) & keys
    if not kept:
        return ONE
    if kept == outputs(domain):
        return domain
    hidden = {var: Var(var.name + "'", var.type) for var in outputs(domain) - kept}
    return Exists(Sum(_sorted(kept), substitute(domain, hidden)))


def union_domains(domains: Sequence[Expr]) -> Expr:
    """A domain that covers each of the given ones, over their common columns."""
    if not domains or any(is_constant(domain, 1) for domain in domains):
        return ONE
    distinct = _distinct(domains)
    if len(distinct) == 1:
        return distinct[0]
    common = outputs(distinct[0]).intersection(*(outputs(domain) for domain in distinct[1:]))
    if not common:
        return ONE
    return Exists(add(*(project_domain(domain, common) for domain in distinct)))


def _domain_of_product(factors: tuple[Expr, ...]) -> Expr:
    """Joined domains of the factors, with the conditions and assignments they bind."""
    parts = [part for factor in factors if not is_constant(part := extract_domain(factor), 1)]
    pending = [factor for factor in factors if isinstance(factor, Cond) or _is_assignment(factor)]
    bound = NONE.union(*(outputs(part) for part in parts))
    while ready := [factor for factor in pending if inputs(factor) and inputs(factor) <= bound]:
        parts += ready
        bound = bound.union(*(outputs(factor) for factor in ready))
        pending = [factor for factor in pending if factor not in ready]
    return mul(*dict.fromkeys(parts))


def _is_assignment(factor: Expr) -> bool:
    return isinstance(factor, Lift) and isinstance(factor.body, Value)


def _sorted(variables: Vars) -> tuple[Var, ...]:
    return tuple(sorted(variables, key=lambda var: var.name))


def _distinct(domains: Sequence[Expr]) -> list[Expr]:
    """The domains without those that differ from another one in names only.

    Most are told apart by their size. Texts of the others are compared, the exact one last: it is expensive.
    """
    groups = [list(dict.fromkeys(domains))]
    for text in (_extent, _rough_text):
        groups = [alike for group in groups for alike in _grouped(group, text)]
    return [alike[0] for group in groups for alike in _grouped(group, _exact_text)]


def _grouped(domains: list[Expr], text: Callable[[Expr], object]) -> list[list[Expr]]:
    """The domains with the same text together."""
    if len(domains) == 1:
        return [domains]
    alike: dict[object, list[Expr]] = {}
    for domain in domains:
        alike.setdefault(text(domain), []).append(domain)
    return list(alike.values())


def _extent(domain: Expr) -> object:
    return size(domain), outputs(domain)


def _rough_text(domain: Expr) -> str:
    return rough_text(domain, outputs(domain))


def _exact_text(domain: Expr) -> str:
    return canonical_text(domain, outputs(domain))
