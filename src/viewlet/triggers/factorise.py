"""Factorisation: common factors of a statement's terms are evaluated once (thesis, section 3.1.3, rule 2 backwards).

M[k] * (x := N[k] + q) * {100 < x}  -  M[k] * (x := N[k]) * {100 < x}
  ->  M[k] * ((x := N[k] + q) - (x := N[k])) * {100 < x}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from viewlet.algebra.expand import Monomial, collect
from viewlet.algebra.nodes import Const, Expr, Neg, Sum, Value, Var, add, factors_of, mul, summands
from viewlet.algebra.order import try_order
from viewlet.algebra.scope import NONE, Vars, free_variables, outputs
from viewlet.triggers.distribute import distribute


def factorise(expr: Expr, keys: Sequence[Var], given: Vars = NONE) -> Expr:
    """Sum[keys](expr) with common factors of its terms taken out."""
    monomials = [distribute(_monomial(term), keys, given) for term in summands(expr)]
    return collect(_factor(monomials, frozenset(keys), given), keys, given)


def _factor(monomials: list[Monomial], keys: Vars, given: Vars) -> list[Monomial]:
    if len(monomials) < 2:
        return monomials
    counts = Counter(factor for monomial in monomials for factor in set(monomial.factors))
    shared = [factor for factor, count in counts.items() if count > 1 and outputs(factor)]
    for candidate in sorted(shared, key=lambda factor: -counts[factor]):
        group = [monomial for monomial in monomials if candidate in monomial.factors]
        merged = _take_out(group, keys, given)
        if merged is not None:
            rest = [monomial for monomial in monomials if monomial not in group]
            return [merged, *_factor(rest, keys, given)]
    return monomials


def _take_out(group: list[Monomial], keys: Vars, given: Vars) -> Monomial | None:
    common_counts = Counter(group[0].factors)
    for monomial in group[1:]:
        common_counts &= Counter(monomial.factors)
    common = [factor for factor in dict.fromkeys(group[0].factors) for _ in range(common_counts[factor])]
    wanted = (keys | given).union(*(free_variables(factor) for factor in common))
    rests = [_hide(Monomial(m.coefficient, _without(m.factors, common)), wanted) for m in group]
    inner = add(*rests)
    if any(outputs(rest) != outputs(rests[0]) for rest in rests):
        return None
    factors = (*common, inner)
    return Monomial(1, factors) if try_order(factors, given) is not None else None


def _without(factors: tuple[Expr, ...], common: list[Expr]) -> tuple[Expr, ...]:
    left = list(factors)
    for factor in common:
        left.remove(factor)
    return tuple(left)


def _hide(monomial: Monomial, wanted: Vars) -> Expr:
    product = monomial.product
    if outputs(product) <= wanted:
        return monomial.to_expr()
    shown = tuple(sorted(outputs(product) & wanted, key=lambda var: var.name))
    return Monomial(monomial.coefficient, (Sum(shown, product),)).to_expr()


def _monomial(term: Expr) -> Monomial:
    """A term of a statement as a monomial, its Sum left to the statement."""
    match term:
        case Neg(body):
            inner = _monomial(body)
            return Monomial(-inner.coefficient, inner.factors)
        case Sum(_, body):
            return Monomial(1, factors_of(body))
        case _:
            parts = factors_of(term)
            numbers = [f.scalar.value for f in parts if isinstance(f, Value) and isinstance(f.scalar, Const)]
            rest = [f for f in parts if not (isinstance(f, Value) and isinstance(f.scalar, Const))]
            coefficient = 1
            for number in numbers:
                if not isinstance(number, int):
                    return Monomial(1, parts)
                coefficient *= number
            if len(rest) == 1 and isinstance(rest[0], Sum):
                return Monomial(coefficient, factors_of(rest[0].body))
            return Monomial(coefficient, factors_of(mul(*rest)))
