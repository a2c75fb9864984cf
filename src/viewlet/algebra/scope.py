"""Which variables an expression binds, and which it needs from outside.

    outputs(R(a, b) * {a < c} * b) = {a, b}      inputs(...) = {c}

A `Sum` shows its keys and hides the rest. A `Lift` and an `Extremum` show only their variable: what their body could
bind must be bound already, which is how a correlated subquery sees its row (thesis, section 2.2.4).
"""

from __future__ import annotations

from typing import assert_never

from viewlet.algebra.nodes import (
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
    once,
)
from viewlet.algebra.traverse import children, rebuild, variable_set

Vars = frozenset[Var]
NONE: Vars = frozenset()


@once
def outputs(expr: Expr) -> Vars:
    """The variables an expression binds."""
    match expr:
        case Value() | Cond():
            return NONE
        case Rel(_, args) | Delta(_, args) | View(_, _, args):
            return frozenset(args)
        case Mul(factors):
            return NONE.union(*(outputs(factor) for factor in factors))
        case Add(terms):
            return outputs(terms[0]).intersection(*(outputs(term) for term in terms[1:]))
        case Neg(body) | Exists(body):
            return outputs(body)
        case Sum(keys, body):
            return outputs(body).intersection(keys)
        case Lift(var, _) | Extremum(var, _, _, _):
            return frozenset((var,))
        case _:
            assert_never(expr)


@once
def inputs(expr: Expr) -> Vars:
    """The variables an expression needs bound from outside."""
    match expr:
        case Value(scalar) | Cond(scalar):
            return variable_set(scalar)
        case Rel() | Delta() | View():
            return NONE
        case Mul(factors):
            return NONE.union(*(inputs(factor) for factor in factors)) - outputs(expr)
        case Add(terms):
            own = outputs(expr)
            return NONE.union(*(free_variables(term) for term in terms)) - own
        case Neg(body) | Exists(body):
            return inputs(body)
        case Sum(keys, body):
            return inputs(body) | (frozenset(keys) - outputs(body))
        case Lift(_, body):
            return free_variables(body)
        case Extremum(_, _, of, body):
            return free_variables(body) - {of}
        case _:
            assert_never(expr)


@once
def free_variables(expr: Expr) -> Vars:
    """The variables an expression shares with its context."""
    return outputs(expr) | inputs(expr)


@once
def reads_own_variable(expr: Expr) -> bool:
    """Some assignment in it reads the variable that it binds: (x := Q(x)) has no meaning, unless it is (x := x).

    It comes about where an aggregate is compared with its own group, or with what a subquery is correlated with, and
    the two are taken for one variable.
    """
    match expr:
        case Lift(var, Value(source)) if var == source:
            return False
        case Lift(var, _) | Extremum(var, _, _, _) if var in inputs(expr):
            return True
        case _:
            return any(reads_own_variable(child) for child in children(expr))


def close_scopes(expr: Expr, bound: Vars = NONE) -> Expr:
    """Adds to the keys of every Sum the variables it shares with its context.

    (s := Sum[](R(g, v) * v)) next to a factor that binds g means the sum for that g: Sum[g](R(g, v) * v). Written that
    way, what is local to a Sum can be told without looking around it.
    """
    match expr:
        case Mul(factors):
            visible = [outputs(factor) for factor in factors]
            return Mul(
                tuple(
                    close_scopes(factor, bound.union(*visible[:i], *visible[i + 1 :]))
                    for i, factor in enumerate(factors)
                )
            )
        case Sum(keys, body):
            closed = close_scopes(body, bound | frozenset(keys))
            shared = sorted((bindable(closed) & bound) - set(keys), key=lambda var: var.name)
            return Sum(keys + tuple(shared), closed)
        case Lift(_, Value()):
            return expr
        case Lift(var, body):
            summed = body if isinstance(body, Sum) else Sum((), body)
            return Lift(var, close_scopes(summed, bound - {var}))
        case Extremum(var, which, of, body):
            summed = body if isinstance(body, Sum) and of in body.keys else Sum((of,), body)
            return Extremum(var, which, of, close_scopes(summed, bound - {var}))
        case _:
            return rebuild(expr, lambda child: close_scopes(child, bound))


@once
def bindable(expr: Expr) -> Vars:
    """The variables that a part of the expression binds, or that its change may bind.

    Were only those kept that the whole binds, a Sum would take others for its own as soon as it is rewritten: terms
    vanish, and Sum[](R(g) + S(h)) becomes Sum[](R(g)); or the change of an aggregate brings in the keys it changes at.
    """
    match expr:
        case Add(terms):
            return NONE.union(*(bindable(term) for term in terms))
        case Mul(factors):
            return NONE.union(*(bindable(factor) for factor in factors))
        case Neg(body) | Exists(body):
            return bindable(body)
        case Sum(keys, body):
            return bindable(body).intersection(keys)
        case Lift(var, body) if not isinstance(body, Value):
            return free_variables(body) | {var}
        case Extremum(var, _, of, body):
            return (free_variables(body) - {of}) | {var}
        case _:
            return outputs(expr)
