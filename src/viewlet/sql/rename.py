"""Fresh copies of a product, for the places where SQL's semantics mentions one bag of rows twice.

    R(a, b) * {a > x}   ->   R(a_2, b_2) * {a_2 > x}

Every atom, lift and extremum of a translated query binds its variables for the first time, so that what is bound
inside, at any depth, is exactly what has to be renamed; all other variables belong to the context.
"""

from __future__ import annotations

from viewlet.algebra.nodes import Expr, Extremum, Lift, Rel, Var
from viewlet.algebra.rename import rename
from viewlet.algebra.traverse import Names, walk


def bound_variables(factors: tuple[Expr, ...]) -> list[Var]:
    """The variables bound anywhere inside, in order of appearance."""
    found: dict[Var, None] = {}
    for factor in factors:
        for node in walk(factor):
            match node:
                case Rel(_, args):
                    found.update(dict.fromkeys(args))
                case Lift(var, _):
                    found[var] = None
                case Extremum(var, _, of, _):
                    found.update({var: None, of: None})
                case _:
                    pass
    return list(found)


def fresh_copy(factors: tuple[Expr, ...], names: Names) -> tuple[Expr, ...]:
    """The factors with every variable they bind renamed."""
    mapping = {var: names.fresh(var) for var in bound_variables(factors)}
    return tuple(rename(factor, mapping) for factor in factors)
