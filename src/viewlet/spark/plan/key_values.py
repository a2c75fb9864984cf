"""How many values the keys of a view can have, by its definition alone.

Sum[m](item(..., m) * {m = 'air' or m = 'ship'})      m has two values
Sum[y](item(..., d) * (y := extract_year(d)))         y has a few hundred
Sum[n](customer(c) * (n := Sum[](orders(o, c))))      n has few: 0 + 1 + 2 + ... orders are needed for the values
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from viewlet.algebra.nodes import Add, Call, Cond, Const, Exists, Expr, Lift, Mul, Rel, Scalar, Sum, Value, Var
from viewlet.algebra.scope import inputs
from viewlet.triggers.program import ViewDefinition
from viewlet.types import Kind

DATE_PARTS = 400.0
"""The values of a part of a date, years included: those of a few centuries."""
BOOLEANS = 3.0
"""The values of a BOOLEAN, NULL included."""
COUNTS = 50_000.0
"""The values of a count of rows: groups with so many different ones have more than a billion rows together."""


def defined_values(view: ViewDefinition) -> dict[Var, float]:
    """The most values that keys of a view have, as far as its definition limits them."""
    found = {key: BOOLEANS for key in view.keys if key.type.kind is Kind.BOOLEAN}
    for each in view.fields[:1]:
        for var, limit in _limits(each.definition):
            found[var] = min(limit, found.get(var, math.inf))
    return {var: limit for var, limit in found.items() if var in view.keys}


def _limits(expr: Expr) -> Iterator[tuple[Var, float]]:
    """Limits that hold wherever an expression is not zero."""
    match expr:
        case Sum(keys, body):
            yield from ((var, limit) for var, limit in _limits(body) if var in keys)
        case Mul(factors):
            for factor in factors:
                yield from _limits(factor)
        case Exists(body):
            yield from _limits(body)
        case Cond(scalar):
            constants = _compared(scalar)
            yield from ((var, float(count)) for var, count in constants.items())
        case Lift(var, Value(Call(op))) if op.startswith("extract_") and not op.endswith("second"):
            yield var, DATE_PARTS
        case Lift(var, Sum() as body) if not inputs(body) and _is_count(body):
            yield var, COUNTS
        case _:
            pass


def _compared(scalar: Scalar) -> Mapping[Var, int]:
    """With how many constants variables are compared, of which each that is not NULL equals one."""
    match scalar:
        case Call("=", (Var() as var, Const())) | Call("=", (Const(), Var() as var)):
            return {var: 1}
        case Call("in", (Var() as var, *rest)) if all(isinstance(each, Const) for each in rest):
            return {var: len(rest)}
        case Call("or", terms):
            sides = [_compared(term) for term in terms]
            shared = set(sides[0]).intersection(*sides)
            return {var: sum(side[var] for side in sides) for var in shared}
        case Call("and", terms):
            return {var: count for term in terms for var, count in _compared(term).items()}
        case _:
            return {}


def _is_count(expr: Expr) -> bool:
    """Every row adds one, or nothing."""
    match expr:
        case Rel() | Cond() | Exists() | Lift():
            return True
        case Value(scalar):
            return _is_flag(scalar)
        case Sum(_, body):
            return _is_count(body)
        case Mul(parts) | Add(parts):
            return all(map(_is_count, parts))
        case _:
            return False


def _is_flag(scalar: Scalar) -> bool:
    """It is zero or one: `CASE WHEN ... THEN 1 ELSE 0 END`."""
    match scalar:
        case Const(value):
            return value in (0, 1)
        case Call("case", args):
            results = [*args[1::2], *args[-1:]]
            return all(isinstance(each, Const) and each.value in (0, 1) for each in results)
        case _:
            return False
