"""Loop fusion: terms that run in the same loops.

The expressions that a statement adds to the fields of a view are split into products. Products of one shape, which
differ only in their factors and in the fields of the same views that they read, are computed together:

    count += Sum[](A.count[x] * {x > 0})        one loop over A, in which the fields
    sum   += Sum[](A.sum[x] * {x > 0})          each have their own polynomial
           - Sum[](2 * A.count[x] * {x > 0})

A row leaves its view where its counts are 0. Of the terms of a self-join, those with an even power of the multiplicity
come first: a deletion adds them, so that no count is 0 on the way to another number.

    n += m * m;  n += 2 * m * A.count[x]        of 2 rows one is deleted: n is 4, 5, 1 and not 4, 0, 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from viewlet.algebra.nodes import MULTIPLICITY, Add, Expr, Mul, Neg, Sum, Value, View, factors_of, is_constant, mul
from viewlet.triggers.program import COUNT_FIELD, Update

_MOST_TERMS = 16
"""Products into which an expression is taken apart at most."""


@dataclass(frozen=True, slots=True)
class Term:
    """A product that is added to or subtracted from a field."""

    field: str
    expr: Expr
    negative: bool = False


def fuse(updates: Sequence[Update]) -> list[list[Term]]:
    """Terms of one shape together; those of the count first, so that presence is right early.

    An expression is taken apart only if each of its terms finds company: otherwise it stays factorised. One that is 0
    binds no keys to add it to, and is left out.
    """
    changing = (update for update in updates if not is_constant(update.expr, 0))
    ordered = sorted(changing, key=lambda update: update.field != COUNT_FIELD)
    apart = [_terms(update.field, _even_first(update.expr)) for update in ordered]
    company = Counter(_shape(term.expr) for terms in apart for term in terms)
    groups: dict[object, list[Term]] = {}
    for update, terms in zip(ordered, apart, strict=True):
        shared = len(terms) <= _MOST_TERMS and all(company[_shape(term.expr)] > 1 for term in terms)
        for term in terms if shared else [Term(update.field, _even_first(update.expr))]:
            groups.setdefault(_shape(term.expr), []).append(term)
    return sorted(groups.values(), key=_place)


def _place(group: Sequence[Term]) -> tuple[bool, bool]:
    """Counts come before sums, which follow them, and what a deletion adds before what it takes away."""
    return (all(term.field != COUNT_FIELD for term in group), all(_degree(term.expr) % 2 for term in group))


def _even_first(expr: Expr, around: int = 0) -> Expr:
    """The same sum with the products first that have an even power of the multiplicity, with the power `around` it."""
    match expr:
        case Add(terms):
            ordered = (_even_first(term, around) for term in terms)
            return Add(tuple(sorted(ordered, key=lambda term: (_degree(term) + around) % 2)))
        case Neg(body):
            return Neg(_even_first(body, around))
        case Sum(keys, body):
            return Sum(keys, _even_first(body, around))
        case Mul(factors):
            degrees = [_degree(factor) for factor in factors]
            others = [around + sum(degrees) - own for own in degrees]
            return Mul(tuple(_even_first(factor, other) for factor, other in zip(factors, others, strict=True)))
        case _:
            return expr


def _degree(expr: Expr) -> int:
    """The power of the multiplicity in a product; that in the first term of a union."""
    match expr:
        case Neg(body) | Sum(_, body):
            return _degree(body)
        case Add(terms):
            return _degree(terms[0])
        case Mul(factors):
            return sum(map(_degree, factors))
        case _:
            return int(expr == Value(MULTIPLICITY))


def _terms(field: str, expr: Expr) -> list[Term]:
    return [Term(field, term, negative) for negative, term in _apart(expr)]


def _apart(expr: Expr) -> list[tuple[bool, Expr]]:
    """Signed products whose sum the expression is, as far as sums are not inside nested aggregates."""
    match expr:
        case Neg(body):
            return [(not negative, term) for negative, term in _apart(body)]
        case Add(terms):
            return [part for term in terms for part in _apart(term)]
        case Sum(keys, body):
            return [(negative, Sum(keys, term)) for negative, term in _apart(body)]
        case Mul(factors):
            choices = [_apart(factor) if isinstance(factor, Add | Neg) else [(False, factor)] for factor in factors]
            return [
                (sum(negative for negative, _ in chosen) % 2 == 1, mul(*(factor for _, factor in chosen)))
                for chosen in product(*choices)
            ]
        case _:
            return [(False, expr)]


def _shape(expr: Expr) -> object:
    """The expression without what it multiplies."""
    match expr:
        case Add(terms):
            return ("+", tuple(_shape(term) for term in terms))
        case Neg(body):
            return ("-", _shape(body))
        case Sum(keys, body):
            return ("Sum", frozenset(keys), _shape(body))
        case View(name, _, args):
            return (name, args)
        case _:
            factors = factors_of(expr)
            if factors == (expr,) and not isinstance(expr, Value):
                return expr
            kept = tuple(_shape(factor) for factor in factors if not isinstance(factor, Value))
            return kept[0] if len(kept) == 1 else kept
