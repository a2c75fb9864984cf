"""Expressions without the names of their variables: two with the same pattern differ in those names only.

Sum[](R.count[a, b] * {b > x})     and     Sum[](R.count[c, d] * {d > :price})      have one pattern

Unlike a canonical text, a pattern keeps the order of factors, and what is below a node is looked at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewlet.algebra.nodes import (
    MULTIPLICITY,
    Call,
    Cond,
    Const,
    Delta,
    Expr,
    Extremum,
    Lift,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    View,
)
from viewlet.algebra.traverse import children


@dataclass(frozen=True, slots=True)
class Pattern:
    """The number that expressions of one pattern share, and the variables of one of them by their first use."""

    number: int
    variables: tuple[Var, ...]


@dataclass(slots=True)
class Patterns:
    """The patterns that have been met, which are numbered."""

    _numbers: dict[object, int] = field(default_factory=dict)
    _known: dict[Expr | Scalar, Pattern] = field(default_factory=dict)

    def of(self, node: Expr | Scalar) -> Pattern:
        """The pattern of an expression or scalar."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._pattern(node)
        return found

    def _pattern(self, node: Expr | Scalar) -> Pattern:
        parts = [self.of(part) for part in _parts(node)]
        below = dict.fromkeys(var for part in parts for var in part.variables)
        said, own = _said(node, tuple(below))
        variables = tuple({**below, **dict.fromkeys(own)})
        places = {var: place for place, var in enumerate(variables)}
        shape = (
            type(node),
            said,
            tuple(places[var] for var in own),
            tuple((part.number, *(places[var] for var in part.variables)) for part in parts),
            tuple(map(_kind, variables)),
        )
        return Pattern(self._numbers.setdefault(shape, len(self._numbers)), variables)


def _parts(node: Expr | Scalar) -> tuple[Expr | Scalar, ...]:
    match node:
        case Var() | Const():
            return ()
        case Call(_, args, _):
            return args
        case Value(scalar) | Cond(scalar):
            return (scalar,)
        case _:
            return children(node)


def _said(node: Expr | Scalar, below: tuple[Var, ...]) -> tuple[object, tuple[Var, ...]]:
    """What a node says itself, and of which variables; those that are `below` it have an order already."""
    match node:
        case Var():
            return None, (node,)
        case Const(value, type):
            return (repr(value), type), ()
        case Call(op, _, type):
            return (op, type), ()
        case Rel(name, args) | Delta(name, args):
            return name, args
        case View(name, field, args):
            return (name, field), args
        case Sum(keys, _):
            known = tuple(var for var in below if var in keys)
            return None, (*known, *(key for key in keys if key not in known))
        case Lift(var, _):
            return None, (var,)
        case Extremum(var, which, of, _):
            return which, (var, of)
        case _:
            return None, ()


def _kind(var: Var) -> object:
    """What variables have in common that may stand for each other."""
    return var if var == MULTIPLICITY else var.type
