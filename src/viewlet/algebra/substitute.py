"""Replacing variables in expressions, minding which variables are local to a Sum."""

from __future__ import annotations

from viewlet.algebra.nodes import Cond, Delta, Expr, Extremum, Lift, Rel, Sum, Value, Var, View, sum_over
from viewlet.algebra.scope import free_variables, outputs
from viewlet.algebra.traverse import Names, Substitution, rebuild, substitute_scalar
from viewlet.errors import InternalError


def substitute(expr: Expr, mapping: Substitution) -> Expr:
    """Q with its free variables replaced. Atoms, keys and lift targets take variables only."""
    if not mapping:
        return expr
    match expr:
        case Value(scalar):
            return Value(substitute_scalar(scalar, mapping))
        case Cond(scalar):
            return Cond(substitute_scalar(scalar, mapping))
        case Rel(name, args):
            return Rel(name, _variables(args, mapping))
        case Delta(name, args):
            return Delta(name, _variables(args, mapping))
        case View(name, field, args):
            return View(name, field, _variables(args, mapping))
        case Sum(keys, body):
            free = free_variables(expr)
            visible = {var: image for var, image in mapping.items() if var in free}
            return sum_over(tuple(dict.fromkeys(_variables(keys, visible))), substitute(body, visible))
        case Lift(var, body):
            return Lift(_variable(var, mapping), substitute(body, mapping))
        case Extremum(var, which, of, body):
            inner = {key: image for key, image in mapping.items() if key != of}
            return Extremum(_variable(var, mapping), which, of, substitute(body, inner))
        case _:
            return rebuild(expr, lambda child: substitute(child, mapping))


def freshen(keys: tuple[Var, ...], body: Expr, names: Names) -> Expr:
    """The body of Sum[keys](Q) with its local variables renamed, ready to be merged into a larger product."""
    local = sorted(outputs(body) - set(keys), key=lambda var: var.name)
    return substitute(body, {var: names.fresh(var) for var in local})


def _variable(var: Var, mapping: Substitution) -> Var:
    image = mapping.get(var, var)
    if not isinstance(image, Var):
        raise InternalError(f"a variable is wanted in place of {var.name}")
    return image


def _variables(args: tuple[Var, ...], mapping: Substitution) -> tuple[Var, ...]:
    return tuple(_variable(arg, mapping) for arg in args)
