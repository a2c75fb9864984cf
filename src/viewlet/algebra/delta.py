"""Delta rules: what a change of one table does to a query (thesis, sections 2.2.3, 3.2.3 and 3.4.2).

    Δ(Q1 + Q2) = ΔQ1 + ΔQ2             Δ(-Q) = -ΔQ             Δ(Sum[A](Q)) = Sum[A](ΔQ)
    Δ(Q1 * Q2) = ΔQ1 * Q2 + Q1 * ΔQ2 + ΔQ1 * ΔQ2
    Δ(x := Q)  = dom(ΔQ) * ((x := Q + ΔQ) - (x := Q))          and likewise for extrema and Exists

The nested factors of one product change together: with N their product, Δ(A * N) = ΔA * N' + A * dom * (N' - N), two
terms where the product rule would give one for every subset of them. For the insertion or deletion of one row,
`single_row` puts assignments of the trigger's parameters in place of the change: Δ±R(t) R(x) = ±(x1 := t1) * (x2 :=
t2) * ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import assert_never

from viewlet.algebra.domain import extract_domain, project_domain, union_domains
from viewlet.algebra.nodes import (
    MULTIPLICITY,
    ONE,
    ZERO,
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
    neg,
    sum_over,
)
from viewlet.algebra.scope import NONE, Vars, free_variables, outputs
from viewlet.algebra.traverse import rebuild

Nested = Lift | Extremum | Exists


@lru_cache(maxsize=16384)
def delta(expr: Expr, table: str) -> Expr:
    """ΔQ, so that Q(D + ΔD) = Q(D) + ΔQ(D, ΔD)."""
    match expr:
        case Value() | Cond() | Delta() | View():
            return ZERO
        case Rel():
            return Delta(expr.name, expr.args) if expr.name == table else ZERO
        case Add(terms):
            return add(*(delta(term, table) for term in terms))
        case Neg(body):
            return neg(delta(body, table))
        case Sum(keys, body):
            return sum_over(keys, delta(body, table))
        case Mul(factors):
            return _delta_product(factors, table)
        case Lift() | Extremum() | Exists():
            return _delta_product((expr,), table)
        case _:
            assert_never(expr)


def nested_domain(factors: Sequence[Expr], table: str) -> Expr:
    """Where the nested factors of a product can change; 1 when nothing restricts it."""
    domains = []
    for factor in factors:
        if isinstance(factor, Lift | Extremum | Exists):
            change = delta(factor.body, table)
            if not is_constant(change, 0):
                domains.append(_domain_of(change, _correlated(factor)))
    return union_domains(domains) if domains else ONE


def _domain_of(change: Expr, correlated: frozenset[Var]) -> Expr:
    """What the changed rows alone tell of the keys that change; failing that, the keys at which the delta is not 0."""
    domain = project_domain(extract_domain(change), correlated)
    if is_constant(domain, 1) and outputs(change) & correlated:
        return project_domain(Exists(change), correlated)
    return domain


def _delta_product(factors: tuple[Expr, ...], table: str) -> Expr:
    before: list[Expr] = []
    nested: list[Nested] = []
    after: list[Nested] = []
    for factor in factors:
        updated = _updated(factor, table) if isinstance(factor, Lift | Extremum | Exists) else None
        if updated is None or not isinstance(factor, Lift | Extremum | Exists):
            before.append(factor)
        else:
            nested.append(factor)
            after.append(updated)
    flat_change = _delta_flat(before, table)
    if not nested:
        return flat_change
    moved = add(mul(*after), neg(mul(*nested)))
    return add(mul(flat_change, *after), mul(nested_domain(nested, table), *before, moved))


def _delta_flat(factors: Sequence[Expr], table: str) -> Expr:
    """The product rule from right to left; factors that do not change are multiplied to what follows all at once."""
    change: Expr = ZERO
    unchanged = len(factors)  # where the factors begin that stand before the change so far, not multiplied to it yet
    for i in range(len(factors) - 1, -1, -1):
        factor = factors[i]
        own = ZERO if isinstance(factor, Lift | Extremum | Exists) else delta(factor, table)
        if not is_constant(own, 0):
            others = mul(*factors[i + 1 : unchanged], change)
            change = add(mul(own, *factors[i + 1 :]), mul(factor, others), mul(own, others))
            unchanged = i
    return mul(*factors[:unchanged], change)


def _updated(factor: Nested, table: str) -> Nested | None:
    """The factor over the changed table, or None if the change does not reach it."""
    change = delta(factor.body, table)
    if is_constant(change, 0):
        return None
    body = add(factor.body, change)
    match factor:
        case Lift(var, _):
            return Lift(var, body)
        case Extremum(var, which, of, _):
            return Extremum(var, which, of, body)
        case Exists():
            return Exists(body)
        case _:
            assert_never(factor)


def _correlated(factor: Nested) -> frozenset[Var]:
    match factor:
        case Lift(_, body) | Exists(body):
            return free_variables(body)
        case Extremum(_, _, of, body):
            return free_variables(body) - {of}
        case _:
            assert_never(factor)


def single_row(change: Expr, table: str, row: tuple[Var, ...], sign: int | None, unread: Vars = NONE) -> Expr:
    """A delta expression for the change of one row: inserted where sign is 1, deleted where it is -1.

    Without a sign, the row's multiplicity is a parameter too. Variables that are `unread` are not assigned.
    """
    if isinstance(change, Delta) and change.name == table:
        assigned = [(arg, value) for arg, value in zip(change.args, row, strict=True) if arg not in unread]
        product = mul(*(Lift(arg, Value(value)) for arg, value in assigned))
        if sign is None:
            return mul(Value(MULTIPLICITY), product)
        return product if sign > 0 else neg(product)
    return rebuild(change, lambda child: single_row(child, table, row, sign, unread))
