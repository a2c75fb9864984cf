"""Polynomial expansion: any expression as a sum of products (thesis, section 3.1.3).

    (A - B) * C  ->  A * C  +  -1 * B * C          Sum[a](R(a, b)) * S(a)  ->  R(a, b_2) * S(a)

Monomials live under one Sum over the keys of the query, so a Sum inside a product dissolves once its local variables
have names of their own. A product of many unions keeps them as factors. Bodies of lifts, extrema and Exists are not
products of the query and stay whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from viewlet.algebra.canonical import canonical_text
from viewlet.algebra.fold import conjuncts, fold
from viewlet.algebra.nodes import (
    Add,
    Call,
    Cond,
    Const,
    Delta,
    Expr,
    Mul,
    Neg,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    View,
    add,
    integer,
    mul,
    neg,
    once,
)
from viewlet.algebra.scope import NONE, Vars, bindable, outputs
from viewlet.algebra.substitute import freshen
from viewlet.algebra.traverse import Names, has_delta, is_stored
from viewlet.types import Kind, SqlType

MANY_PRODUCTS = 4
"""A product that would become more than so many keeps its unions as factors: ten outer joins would make a thousand."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """An integer times a product."""

    coefficient: int
    factors: tuple[Expr, ...]

    @property
    def product(self) -> Expr:
        return mul(*self.factors)

    def to_expr(self) -> Expr:
        match self.coefficient:
            case 0:
                return integer(0)
            case -1:
                return neg(self.product)
            case n:
                return mul(integer(n), self.product)


def expand(expr: Expr, names: Names, alone: bool = False) -> list[Monomial]:
    """Q as a sum of monomials with the same free variables.

    A term that stands `alone` in the query has no neighbours its local variables could be mistaken for.
    """
    match expr:
        case Add(terms):
            return [monomial for term in terms for monomial in expand(term, names, alone)]
        case Neg(body):
            return [replace(monomial, coefficient=-monomial.coefficient) for monomial in expand(body, names, alone)]
        case Mul(factors):
            products = [Monomial(1, ())]
            alone = alone and sum(not _is_number(factor) for factor in factors) == 1
            for factor, kept in zip(factors, _kept_whole(factors), strict=True):
                parts = [Monomial(1, (factor,))] if kept else expand(factor, names, alone)
                products = [
                    Monomial(left.coefficient * right.coefficient, left.factors + right.factors)
                    for left in products
                    for right in parts
                ]
            return products
        case Sum(keys, body):
            return expand(body if alone else freshen(keys, body, names), names, alone)
        case Value(scalar):
            return [_value(fold(scalar))]
        case Cond(scalar):
            return _condition(fold(scalar))
        case _:
            return [Monomial(1, (expr,))]


def _kept_whole(factors: Sequence[Expr]) -> list[bool]:
    """Which factors of a product are not taken apart, because it would become too many."""
    counts = [monomial_count(factor) for factor in factors]
    many = prod(counts) > MANY_PRODUCTS
    return [many and count > 1 and _can_stay_whole(factor) for factor, count in zip(factors, counts, strict=True)]


@once
def monomial_count(expr: Expr) -> int:
    """How many monomials the expansion of an expression has."""
    match expr:
        case Add(terms):
            return sum(monomial_count(term) for term in terms)
        case Neg(body) | Sum(_, body):
            return monomial_count(body)
        case Mul(factors):
            kept = _kept_whole(factors)
            return prod(1 if whole else monomial_count(factor) for factor, whole in zip(factors, kept, strict=True))
        case Cond(scalar):
            return len(_condition(fold(scalar)))
        case _:
            return 1


def _can_stay_whole(factor: Expr) -> bool:
    """A union of stored rows, such as an outer join; what a change brings in has to be taken apart."""
    return isinstance(factor, Add | Sum) and is_stored(factor) and not has_delta(factor)


def _value(scalar: Scalar) -> Monomial:
    """a * b * 3 as the monomial 3 * a * b; NULL counts as 0."""
    match scalar:
        case Const(value, _) if value is None:
            return Monomial(0, ())
        case Const(value, _) if isinstance(value, int):
            return Monomial(int(value), ())
        case Call("*", (left, right), type) if type.is_exact or _both_float(left, right):
            first, second = _value(left), _value(right)
            return Monomial(first.coefficient * second.coefficient, first.factors + second.factors)
        case Call("cast", (arg,), type) if _keeps_number(arg.type, type):
            return _value(arg)
        case Call("neg", (arg,), _):
            inner = _value(arg)
            return replace(inner, coefficient=-inner.coefficient)
        case Call("coalesce", (*args, Const(0 | None, _)), type):
            return _value(args[0] if len(args) == 1 else Call("coalesce", tuple(args), type.with_nullable(True)))
        case Call("case", (condition, Const(1, _) as one, Const(0, _) as zero), type) if type.is_integer:
            tests = _separate_tests(condition)
            return Monomial(1, tuple(Value(Call("case", (test, one, zero), type)) for test in tests))
        case _:
            return Monomial(1, (Value(scalar),))


def _separate_tests(condition: Scalar) -> list[Scalar]:
    """Tests that hold together where the condition does: those for NULL one by one, and the rest.

    The rest stays one scalar, in which a test can guard what follows it.
    """
    present, rest = list[Scalar](), list[Scalar]()
    for test in conjuncts(condition):
        match test:
            case Call("is_not_null", (Var(),), _):
                present.append(test)
            case _:
                rest.append(test)
    if len(rest) > 1:
        rest = [Call("and", tuple(rest), condition.type)]
    return present + rest


def _keeps_number(source: SqlType, target: SqlType) -> bool:
    """A cast that neither changes how an exact value is held nor can fail."""
    if target.kind is not Kind.DECIMAL or target.scale != source.scale:
        return False
    return target.precision >= (19 if source.is_integer else source.precision) and source.is_exact


def _is_number(factor: Expr) -> bool:
    return isinstance(factor, Value) and isinstance(factor.scalar, Const)


def _both_float(left: Scalar, right: Scalar) -> bool:
    return left.type.is_float and right.type.is_float


def _condition(scalar: Scalar) -> list[Monomial]:
    kept: list[Expr] = []
    for part in conjuncts(scalar):
        if isinstance(part, Const):
            if part.value is not True:
                return []
            continue
        kept.append(Cond(part))
    return [Monomial(1, tuple(kept))]


def merge_like_terms(monomials: Iterable[Monomial], keep: Vars) -> list[Monomial]:
    """2 * Q + Q -> 3 * Q; Q - Q vanishes. Flat products are compared up to names of local variables."""
    everything = list(monomials)
    shapes = Counter(_shape(monomial) for monomial in everything)
    totals: dict[object, Monomial] = {}
    for monomial in everything:
        if _is_flat(monomial) and shapes[_shape(monomial)] > 1:
            key: object = canonical_text(monomial.product, keep)
        else:
            key = frozenset(Counter(monomial.factors).items())
        seen = totals.get(key)
        total = monomial.coefficient + (seen.coefficient if seen else 0)
        totals[key] = Monomial(total, seen.factors if seen else monomial.factors)
    return [monomial for monomial in totals.values() if monomial.coefficient]


def _is_flat(monomial: Monomial) -> bool:
    return all(isinstance(factor, Value | Cond | Rel | Delta | View) for factor in monomial.factors)


def _shape(monomial: Monomial) -> tuple[str, ...]:
    """Terms of different shape cannot be alike; comparing shapes is cheap."""
    return tuple(sorted(f"{type(factor).__name__} {getattr(factor, 'name', '')}" for factor in monomial.factors))


def collect(monomials: Iterable[Monomial], keys: Sequence[Var], given: Vars = NONE, closed: bool = False) -> Expr:
    """The monomials as one expression: each under its own Sum where something has to be projected away.

    Variables the context gives stay visible; if `closed`, also those that a change of the product may bind.
    """
    terms = []
    for monomial in monomials:
        product = monomial.product
        own = outputs(product)
        shown = (*(key for key in keys if key in own), *sorted((own & given) - set(keys), key=lambda var: var.name))
        hides = own - set(shown)
        if closed:
            shown += tuple(sorted((bindable(product) & given).difference(shown), key=lambda var: var.name))
        body = Sum(shown, product) if hides else product
        terms.append(Monomial(monomial.coefficient, (body,)).to_expr())
    return add(*terms)
