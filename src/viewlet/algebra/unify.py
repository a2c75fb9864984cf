"""Unification: equalities and assignments are carried out on the variables themselves (thesis, section 3.2.1).

    R(a, b) * S(c, d) * {b = c}   ->  R(a, b) * S(b, d)
    (a := x) * R(a, b) * {a > 3}  ->  R(x, b) * {x > 3}

An equality of nullable columns keeps the condition that the value is not NULL, because NULL joins with itself here and
not in SQL. Variables in `keep` are wanted by the outside and survive; those in `given` are bound by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.fold import conjuncts, fold
from viewlet.algebra.nodes import (
    Call,
    Cond,
    Const,
    Expr,
    Extremum,
    Lift,
    Scalar,
    Value,
    Var,
    call,
)
from viewlet.algebra.order import try_order
from viewlet.algebra.scope import NONE, Vars, free_variables, inputs, outputs, reads_own_variable
from viewlet.algebra.substitute import substitute
from viewlet.algebra.traverse import scalar_variables
from viewlet.types import BOOLEAN

Factors = tuple[Expr, ...]


def unify(factors: Sequence[Expr], keep: Vars, given: Vars) -> Factors | None:
    """The product without needless equalities and assignments, or None where it is always 0."""
    current = _fold_conditions(tuple(factors))
    while current is not None:
        changed = _step(current, keep, given)
        if changed is None:
            return current
        current = _fold_conditions(changed)
    return None


def _step(factors: Factors, keep: Vars, given: Vars) -> Factors | None:
    for i, factor in enumerate(factors):
        if not isinstance(factor, Cond | Lift | Extremum):
            continue
        result: Factors | None = None
        match factor:
            case Cond(Call("=", (Var() as left, Var() as right), _)) if left.type.same_representation(right.type):
                result = _equate(left, right, _others(factors, i), keep, given)
            case Lift(var, Value(Var() as source)) if var == source:
                result = _others(factors, i)
            case Lift(var, Value(Var() as source)):
                result = _alias(var, source, factor, _others(factors, i), keep, given)
            case Lift(var, Value(scalar)) if var not in given:
                result = _inline(var, scalar, factor, _others(factors, i), keep)
            case Lift(var, _) | Extremum(var, _, _, _) if var not in given and var not in keep:
                result = _unread(var, _others(factors, i))
            case _:
                pass
        if result is not None:
            return result
    return None


def _others(factors: Factors, i: int) -> Factors:
    return factors[:i] + factors[i + 1 :]


def _equate(left: Var, right: Var, others: Factors, keep: Vars, given: Vars) -> Factors | None:
    """Q(x, y) * {x = y} -> Q(x, x) where y is not wanted, else Q(x, x) * (y := x)."""
    if left == right:
        return (*others, *_not_null(left))
    bound = NONE.union(*(outputs(other) for other in others))
    guard = _not_null(left) if left.type.nullable and right.type.nullable else ()
    pairs = sorted(((right, left), (left, right)), key=lambda pair: not pair[0].type.nullable)
    for gone, kept in pairs:
        if gone in bound and gone not in keep | given and kept in bound | given:
            guard = _not_null(kept) if guard else ()
            return _if_safe((*_replace(others, gone, kept), *guard), given)
    for gone, kept in pairs:
        if gone in bound and gone not in given and kept in bound | given:
            guard = _not_null(kept) if guard else ()
            return _if_safe((*_replace(others, gone, kept), *guard, Lift(gone, Value(kept))), given)
    return None


def _alias(var: Var, source: Var, lift: Expr, others: Factors, keep: Vars, given: Vars) -> Factors | None:
    """(x := y) * Q(x) -> Q(y); the assignment stays where x is wanted outside."""
    bound = NONE.union(*(outputs(other) for other in others)) | given
    if var in given:
        if source not in keep | given and source in bound:
            return _if_safe(_replace(others, source, var), given)
        return None
    if source not in bound:
        return None
    if var not in keep:
        return _if_safe(_replace(others, var, source), given)
    if any(var in free_variables(other) for other in others):
        return _if_safe((*_replace(others, var, source), lift), given)
    return None


def _inline(var: Var, scalar: Scalar, lift: Expr, others: Factors, keep: Vars) -> Factors | None:
    """(x := e) * Q(x) -> Q(e) where x is used as a value only: always for constants, else if used once."""
    users = [other for other in others if var in free_variables(other)]
    if not users:
        return others if var not in keep else None
    if any(not _as_value_only(var, user) for user in users):
        return None
    if isinstance(scalar, Const) or sum(_uses(var, user) for user in users) == 1:
        replaced = tuple(substitute(other, {var: scalar}) for other in others)
        if var not in keep:
            return replaced
        return (*replaced, lift) if isinstance(scalar, Const) else None
    return None


def _unread(var: Var, others: Factors) -> Factors | None:
    """(x := Q) * Q' -> Q' where Q' does not mention x: an unused aggregate."""
    return others if not any(var in free_variables(other) for other in others) else None


def _as_value_only(var: Var, expr: Expr) -> bool:
    """x occurs in scalars only, never as a column of an atom, a key or the target of an assignment."""
    match expr:
        case Value() | Cond():
            return True
        case Lift(target, Value()):
            return target != var
        case _:
            return False


def _uses(var: Var, expr: Expr) -> int:
    match expr:
        case Value(scalar) | Cond(scalar) | Lift(_, Value(scalar)):
            return sum(1 for found in scalar_variables(scalar) if found == var)
        case _:
            return 2


def _replace(factors: Factors, gone: Var, kept: Var) -> Factors:
    return tuple(substitute(factor, {gone: kept}) if gone in free_variables(factor) else factor for factor in factors)


def _if_safe(factors: Factors, given: Vars) -> Factors | None:
    """The factors, unless no order binds all their variables or an aggregate would read the variable it binds."""
    if any(reads_own_variable(factor) for factor in factors):
        return None
    needed = NONE.union(*(inputs(factor) for factor in factors)) - NONE.union(*(outputs(factor) for factor in factors))
    return factors if try_order(factors, given | needed) is not None else None


def _not_null(var: Var) -> Factors:
    return (Cond(call("is_not_null", var, type=BOOLEAN.with_nullable(False))),) if var.type.nullable else ()


def _fold_conditions(factors: Factors) -> Factors | None:
    """Conditions and values computed where constant, conjunctions split, doubles dropped; None if one is never true."""
    kept: dict[Expr, None] = {}
    values: list[Expr] = []
    for factor in factors:
        match factor:
            case Cond(scalar):
                for part in conjuncts(fold(scalar)):
                    if isinstance(part, Const) and part.value is not True:
                        return None
                    if not isinstance(part, Const):
                        kept[Cond(part)] = None
            case Lift(var, Value(scalar)):
                kept[Lift(var, Value(fold(scalar)))] = None
            case Value(scalar):
                values.append(Value(fold(scalar)))
            case _:
                values.append(factor)
    return (*values, *kept)
