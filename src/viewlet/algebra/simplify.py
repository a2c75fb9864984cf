"""Simplification: expansion, unification and partial evaluation, repeated inside nested aggregates (thesis, section
3.2).

Sum[a, b]((a := x) * R(a) * S(b) + R(a) * (a := x) * S(b) + (a := x) * S(b))
  ->  2 * (a := x) * R(x) * S(b) + (a := x) * S(b)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from viewlet.algebra.expand import Monomial, collect, expand, merge_like_terms
from viewlet.algebra.fold import fold
from viewlet.algebra.nodes import (
    MULTIPLICITY,
    ONE,
    Add,
    Cond,
    Const,
    Exists,
    Expr,
    Extremum,
    Lift,
    Mul,
    Neg,
    Sum,
    Value,
    Var,
    call,
    factors_of,
    is_constant,
    mul,
)
from viewlet.algebra.scope import NONE, Vars, outputs
from viewlet.algebra.traverse import Names, all_variables
from viewlet.algebra.unify import unify


def simplify(expr: Expr, names: Names, given: Vars = NONE, closed: bool = False) -> Expr:
    """An equal expression with the same outputs, in a context that binds `given`.

    If `closed`, a Sum names what it shares with its context, so that its change can be told from what is local to it.
    """
    context = given & all_variables(expr)  # what else the context binds makes no difference
    asked = (expr, context, closed)
    if asked in _SIMPLE:
        return expr
    simple = names.simplified.get(asked)
    if simple is None:
        keys = expr.keys if isinstance(expr, Sum) else tuple(sorted(outputs(expr), key=lambda var: var.name))
        simple = collect(simplify_monomials(expr, keys, names, context), keys, context, closed)
        names.simplified[asked] = simple
    if simple == expr:
        if len(_SIMPLE) > _SIMPLE_LIMIT:
            _SIMPLE.clear()
        _SIMPLE.add(asked)
    return simple


_SIMPLE: set[tuple[Expr, Vars, bool]] = set()
"""Expressions that simplification leaves as they are, and their contexts, in any compilation.

A product is simplified until nothing changes, and so is every product inside it: without this, each level of nesting
would double the work below it.
"""
_SIMPLE_LIMIT = 65_536


def simplify_monomials(expr: Expr, keys: tuple[Var, ...], names: Names, given: Vars = NONE) -> list[Monomial]:
    """Sum[keys](expr) as simplified monomials."""
    keep = frozenset(keys)
    pending = expand(expr, names, alone=True)
    done: list[Monomial] = []
    for monomial in pending:
        done += _simplify_monomial(monomial, keep, names, given)
    return merge_like_terms(done, keep | given)


def _simplify_monomial(monomial: Monomial, keep: Vars, names: Names, given: Vars) -> list[Monomial]:
    """Unifies, then simplifies what is nested with the variables around it bound, until nothing changes."""
    if not monomial.coefficient:
        return []
    factors: tuple[Expr, ...] | None = monomial.factors
    while True:
        assert factors is not None
        factors = unify(factors, keep, given)
        if factors is None:
            return []
        nested = _simplify_all_nested(factors, names, given)
        if nested == factors:
            return [Monomial(monomial.coefficient, factors)]
        again = [
            Monomial(monomial.coefficient * part.coefficient, part.factors)
            for part in expand(mul(*nested), names)
            if part.coefficient
        ]
        if len(again) != 1:
            return [done for part in again for done in _simplify_monomial(part, keep, names, given)]
        monomial, factors = again[0], again[0].factors


def _simplify_all_nested(factors: tuple[Expr, ...], names: Names, given: Vars) -> tuple[Expr, ...]:
    """Every nested factor simplified in the context of the others."""
    if not any(_is_nested(factor) for factor in factors):
        return factors
    binders = Counter(var for factor in factors for var in outputs(factor))
    return tuple(
        _simplify_nested(factor, given.union(_bound_by_others(factor, binders)), names)
        if _is_nested(factor)
        else factor
        for factor in factors
    )


def _bound_by_others(factor: Expr, binders: Counter[Var]) -> Iterator[Var]:
    own = outputs(factor)
    return (var for var, count in binders.items() if count > (var in own))


def _is_nested(factor: Expr) -> bool:
    match factor:
        case Lift(_, body):
            return not isinstance(body, Value)
        case _:
            return isinstance(factor, Extremum | Exists | Add | Sum)


def _simplify_nested(factor: Expr, around: Vars, names: Names) -> Expr:
    match factor:
        case Lift(var, body):
            return Lift(var, _as_number(simplify(_as_sum(body), names, around - {var}), var))
        case Extremum(var, which, of, body):
            return Extremum(var, which, of, simplify(body, names, around - {var}))
        case Exists(body):
            return _simplify_exists(simplify(body, names, around))
        case Add() | Sum():
            return simplify(factor, names, around, closed=True)
        case _:
            return factor


def _as_sum(body: Expr) -> Expr:
    """A lift's body is one number: nothing it binds is visible outside."""
    return body if isinstance(body, Sum | Add | Neg | Value | Mul) else Sum((), body)


def _as_number(body: Expr, var: Var) -> Expr:
    """A sum that came down to one scalar: NULL counts as 0 in a sum, but would be itself in an assignment."""
    if not isinstance(body, Value):
        return body
    scalar = body.scalar
    if not scalar.type.same_representation(var.type):
        return Sum((), body)
    if not scalar.type.nullable:
        return body
    type = scalar.type.with_nullable(False)
    return Value(fold(call("coalesce", scalar, Const(0.0 if type.is_float else 0, type), type=type)))


def _simplify_exists(body: Expr) -> Expr:
    """Exists(Q) -> Q where Q is 0 or 1 anyway; Exists(n * Q) -> Exists(Q)."""
    if isinstance(body, Neg):
        return _simplify_exists(body.body)
    if isinstance(body, Value):
        return body if is_constant(body, 0) else ONE if not outputs(body) and _is_constant(body) else Exists(body)
    if isinstance(body, Mul):
        parts = [factor for factor in body.factors if not _is_constant(factor)]
        body = mul(*parts)
    if all(_is_indicator(factor) for factor in factors_of(body)):
        return body
    return Exists(body)


def _is_constant(expr: Expr) -> bool:
    if not isinstance(expr, Value):
        return False
    return expr.scalar == MULTIPLICITY or (isinstance(expr.scalar, Const) and bool(expr.scalar.value))


def _is_indicator(expr: Expr) -> bool:
    return isinstance(expr, Cond | Lift | Extremum | Exists)
