"""Other names for the variables of an expression, also for those that it hides."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.algebra.nodes import Cond, Delta, Expr, Extremum, Lift, Rel, Sum, Value, Var, View
from viewlet.algebra.traverse import rebuild, substitute_scalar


def rename(expr: Expr, mapping: Mapping[Var, Var]) -> Expr:
    """The expression with variables replaced everywhere, local ones included."""

    def all_of(variables: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(mapping.get(var, var) for var in variables)

    match expr:
        case Value(scalar):
            return Value(substitute_scalar(scalar, mapping))
        case Cond(scalar):
            return Cond(substitute_scalar(scalar, mapping))
        case Rel(name, args):
            return Rel(name, all_of(args))
        case Delta(name, args):
            return Delta(name, all_of(args))
        case View(name, field, args):
            return View(name, field, all_of(args))
        case Sum(keys, body):
            return Sum(all_of(keys), rename(body, mapping))
        case Lift(var, body):
            return Lift(mapping.get(var, var), rename(body, mapping))
        case Extremum(var, which, of, body):
            return Extremum(mapping.get(var, var), which, mapping.get(of, of), rename(body, mapping))
        case _:
            return rebuild(expr, lambda child: rename(child, mapping))
